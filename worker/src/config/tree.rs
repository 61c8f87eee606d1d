//! The configuration as a tree in which every value remembers where it was written.
//!
//! TOML text becomes a tree here; overrides are laid over it ([`super::overrides`]); typed reading happens in
//! [`super::section`], which never asks who supplied a value except to say so in an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use toml::value::Datetime;

use super::error::{ConfigError, Origin, Problem};

/// A table; keys are unique because TOML refuses duplicates.
pub(super) type Table = BTreeMap<String, Entry>;

/// One key of a table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Where the key stands; differs from the value's place when the value spans lines.
    pub(super) key_origin: Origin,
    pub(super) node: Node,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: Value,
    /// The text of an override as the user typed it. A shell cannot tell `12345` the number from `12345` the external
    /// id; where a text is wanted, this is it.
    pub(super) raw: Option<String>,
}

/// A TOML value. A number that does not fit keeps its spelling, so that the error can show it.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    OtherNumber(String),
    Bool(bool),
    Datetime(Datetime),
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// The type's name with its article, for "must be …, not …".
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::OtherNumber(_) => "a number with a fraction or beyond 64 bits",
            Value::Bool(_) => "a boolean",
            Value::Datetime(_) => "a date-time",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

/// Parses a whole file. Returns every syntax error when there is any: keys of a half-parsed file would only add
/// errors that are not the user's.
pub(super) fn parse_file(text: &str, file: &Arc<str>) -> Result<Table, Vec<ConfigError>> {
    let lines = Lines::of(text, file);
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table(document.get_ref(), &|at| lines.origin(at)));
    }
    let syntax = |error: &toml::de::Error| ConfigError {
        origin: error.span().map_or_else(
            || Origin::File(file.clone()),
            |span| lines.origin(span.start),
        ),
        key: String::new(),
        problem: Problem::Syntax(format!(
            "not TOML: {}",
            error.message().trim().replace('\n', "; ")
        )),
    };
    let mut errors: Vec<ConfigError> = errors.iter().map(syntax).collect();
    errors.dedup();
    Err(errors)
}

/// Reads the value of an override: TOML if it parses as such, the bare text otherwise (so that `5s` needs no quotes).
pub(super) fn parse_override(raw: &str, origin: &Origin) -> Node {
    let value = match DeValue::parse(raw) {
        Ok(parsed) => value(parsed.get_ref(), &|_| origin.clone()),
        Err(_) => Value::Text(raw.to_owned()),
    };
    Node {
        origin: origin.clone(),
        value,
        raw: Some(raw.to_owned()),
    }
}

fn table(parsed: &DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Table {
    let entry = |(key, node): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        let node_origin = if is_header(node) {
            origin(key.span().start)
        } else {
            origin(node.span().start)
        };
        let node = Node {
            origin: node_origin,
            value: value(node.get_ref(), origin),
            raw: None,
        };
        (
            key.get_ref().to_string(),
            Entry {
                key_origin: origin(key.span().start),
                node,
            },
        )
    };
    parsed.iter().map(entry).collect()
}

/// A `[table]` has no text of its own to point at; its key stands for it.
fn is_header(node: &Spanned<DeValue<'_>>) -> bool {
    matches!(node.get_ref(), DeValue::Table(_))
}

fn array(parsed: &DeArray<'_>, origin: &dyn Fn(usize) -> Origin) -> Vec<Node> {
    let node = |node: &Spanned<DeValue<'_>>| Node {
        origin: origin(node.span().start),
        value: value(node.get_ref(), origin),
        raw: None,
    };
    parsed.iter().map(node).collect()
}

fn value(parsed: &DeValue<'_>, origin: &dyn Fn(usize) -> Origin) -> Value {
    match parsed {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::OtherNumber(integer.as_str().to_owned()),
        },
        DeValue::Float(float) => Value::OtherNumber(float.as_str().to_owned()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(datetime) => Value::Datetime(*datetime),
        DeValue::Array(items) => Value::Array(array(items, origin)),
        DeValue::Table(entries) => Value::Table(table(entries, origin)),
    }
}

/// Turns a byte offset into a line.
struct Lines<'a> {
    file: &'a Arc<str>,
    /// Offset of the first byte of every line.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &str, file: &'a Arc<str>) -> Self {
        let after_breaks = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at + 1);
        Lines {
            file,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    fn origin(&self, at: usize) -> Origin {
        Origin::Line(
            self.file.clone(),
            self.starts.partition_point(|start| *start <= at),
        )
    }
}
