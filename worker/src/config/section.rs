//! Typed reading of one table: every key asked for is allowed, everything else is unknown.
//!
//! Reading never stops at an error. A bad value is recorded and its default stands in, so that one run reports all that
//! is wrong; the caller looks at [`Reader::finish`] before it believes anything.

use std::cell::RefCell;
use std::sync::Arc;

use super::error::{ConfigError, ConfigErrors, Origin, Problem, nearest};
use super::tree::{Node, Table, Value};

/// Collects the errors of one reading.
#[derive(Debug)]
pub(super) struct Reader {
    errors: RefCell<Vec<ConfigError>>,
    /// Every key ever asked for, streams without their index: the list the documents are tested against.
    asked: RefCell<Vec<String>>,
}

impl Reader {
    /// Starts with the errors found before reading (overrides that name no key).
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        Reader {
            errors: RefCell::new(errors),
            asked: RefCell::default(),
        }
    }

    pub(super) fn root<'a>(&'a self, file: &Arc<str>, table: &'a Table) -> Section<'a> {
        Section {
            reader: self,
            path: String::new(),
            table: Some(table),
            origin: Origin::File(file.clone()),
            allowed: RefCell::default(),
        }
    }

    /// Records an error found by comparing values.
    pub(super) fn report(&self, origin: &Origin, key: &str, problem: Problem) {
        self.errors.borrow_mut().push(ConfigError {
            origin: origin.clone(),
            key: key.to_owned(),
            problem,
        });
    }

    /// Ends the reading: the keys it asked for, if nothing was wrong.
    pub(super) fn finish(self) -> Result<Vec<String>, ConfigErrors> {
        match self.errors.into_inner() {
            errors if errors.is_empty() => Ok(self.asked.into_inner()),
            errors => Err(ConfigErrors::new(errors)),
        }
    }
}

/// One table being read; an absent table reads as an empty one.
#[derive(Debug)]
pub(super) struct Section<'a> {
    reader: &'a Reader,
    path: String,
    table: Option<&'a Table>,
    origin: Origin,
    allowed: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The place of the table, for errors about what it lacks.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Asks for a key.
    pub(super) fn key(&self, name: &'static str) -> Key<'a> {
        self.allowed.borrow_mut().push(name);
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        let pattern = path
            .split('.')
            .map(|segment| segment.split('[').next().unwrap_or(segment));
        self.reader
            .asked
            .borrow_mut()
            .push(pattern.collect::<Vec<_>>().join("."));
        let node = self
            .table
            .and_then(|table| table.get(name))
            .map(|entry| &entry.node);
        Key {
            reader: self.reader,
            path,
            node,
            parent: self.origin.clone(),
        }
    }

    /// Asks for a table.
    pub(super) fn section(&self, name: &'static str) -> Section<'a> {
        self.key(name).section()
    }

    /// Reports every key nobody asked for. Call it last.
    pub(super) fn finish(self) {
        let allowed = self.allowed.into_inner();
        for (name, entry) in self.table.into_iter().flatten() {
            if allowed.contains(&name.as_str()) {
                continue;
            }
            let near = nearest(name, allowed.iter().copied());
            let allowed = allowed.iter().map(|&key| key.to_owned()).collect();
            let key = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            self.reader.report(
                &entry.key_origin,
                &key,
                Problem::UnknownKey { near, allowed },
            );
        }
    }
}

/// One key being read.
#[derive(Debug)]
pub(super) struct Key<'a> {
    reader: &'a Reader,
    path: String,
    node: Option<&'a Node>,
    parent: Origin,
}

impl<'a> Key<'a> {
    /// The value, or the default when absent (or wrong, which is reported).
    pub(super) fn or<T>(
        self,
        default: T,
        parse: impl FnOnce(&Node) -> Result<T, Problem>,
    ) -> Field<T> {
        let field = self.optional(parse);
        Field {
            value: field.value.unwrap_or(default),
            origin: field.origin,
            key: field.key,
            sound: field.sound,
        }
    }

    /// The value, if there is one.
    pub(super) fn optional<T>(
        self,
        parse: impl FnOnce(&Node) -> Result<T, Problem>,
    ) -> Field<Option<T>> {
        let Some(node) = self.node else {
            return Field {
                value: None,
                origin: self.parent,
                key: self.path,
                sound: true,
            };
        };
        let (value, sound) = match parse(node) {
            Ok(value) => (Some(value), true),
            Err(problem) => {
                self.reader.report(&node.origin, &self.path, problem);
                (None, false)
            }
        };
        Field {
            value,
            origin: node.origin.clone(),
            key: self.path,
            sound,
        }
    }

    /// The value of a key that has no default; `hint` says what belongs there.
    pub(super) fn required<T>(
        self,
        hint: &'static str,
        parse: impl FnOnce(&Node) -> Result<T, Problem>,
    ) -> Field<Option<T>> {
        if self.node.is_none() {
            self.reader
                .report(&self.parent, &self.path, Problem::Missing(hint));
        }
        self.optional(parse)
    }

    /// The value as a table.
    pub(super) fn section(self) -> Section<'a> {
        let (table, origin) = match self.node {
            Some(Node {
                value: Value::Table(table),
                origin,
                ..
            }) => (Some(table), origin.clone()),
            Some(node) => {
                self.reader
                    .report(&node.origin, &self.path, wrong_type(node, "a table"));
                (None, node.origin.clone())
            }
            None => (None, self.parent),
        };
        Section {
            reader: self.reader,
            path: self.path,
            table,
            origin,
            allowed: RefCell::default(),
        }
    }

    /// The value as a table if that is what it is; lets a key be either a word or a table.
    pub(super) fn as_section(&self) -> Option<Section<'a>> {
        let Some(Node {
            value: Value::Table(table),
            origin,
            ..
        }) = self.node
        else {
            return None;
        };
        let (path, origin) = (self.path.clone(), origin.clone());
        Some(Section {
            reader: self.reader,
            path,
            table: Some(table),
            origin,
            allowed: RefCell::default(),
        })
    }

    /// The tables of a `[[list]]`, at least one, each a section named by its index. `one` is how to write one, `none`
    /// what to say when there is none; no sections means that an error is reported.
    pub(super) fn sections(self, one: &'static str, none: &'static str) -> Vec<Section<'a>> {
        let members: &[Node] = match self.node {
            Some(Node {
                value: Value::Array(members),
                ..
            }) if !members.is_empty() => members,
            Some(Node {
                value: Value::Array(_),
                origin,
                ..
            }) => {
                self.reader
                    .report(origin, &self.path, Problem::Missing(none));
                &[]
            }
            Some(node) => {
                self.reader
                    .report(&node.origin, &self.path, wrong_type(node, one));
                &[]
            }
            None => {
                self.reader
                    .report(&self.parent, &self.path, Problem::Missing(none));
                &[]
            }
        };
        let member = |(index, node): (usize, &'a Node)| {
            let key = Key {
                reader: self.reader,
                path: format!("{}[{index}]", self.path),
                node: Some(node),
                parent: node.origin.clone(),
            };
            key.section()
        };
        members.iter().enumerate().map(member).collect()
    }
}

/// A value that was read, with what a comparison between keys needs.
#[derive(Debug, Clone)]
pub(super) struct Field<T> {
    pub(super) value: T,
    pub(super) origin: Origin,
    pub(super) key: String,
    /// False if an error is already reported and `value` is a stand-in: comparing it would report what is not there.
    pub(super) sound: bool,
}

impl<T> Field<T> {
    /// The place alone.
    pub(super) fn place(&self) -> Field<()> {
        Field {
            value: (),
            origin: self.origin.clone(),
            key: self.key.clone(),
            sound: self.sound,
        }
    }

    /// Reports `problem` here, unless either this value or `other` is a stand-in.
    pub(super) fn refuse<U>(&self, reader: &Reader, other: &Field<U>, problem: Problem) {
        if self.sound && other.sound {
            reader.report(&self.origin, &self.key, problem);
        }
    }
}

/// The error of a value that has another type.
pub(super) fn wrong_type(node: &Node, expected: &'static str) -> Problem {
    Problem::WrongType {
        expected,
        found: node.value.type_name(),
    }
}
