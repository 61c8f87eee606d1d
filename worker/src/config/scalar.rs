//! The scalars of the file: one function per kind of value, from a node to a type that cannot be wrong.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use super::error::{Problem, nearest};
use super::section::wrong_type;
use super::tree::{Node, Value};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl ByteSize {
    /// So many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// So many mebibytes.
    pub const fn mib(mebibytes: u64) -> Self {
        ByteSize(mebibytes * MIB)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; a size beyond the address space is as good as unbounded.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes % GIB == 0 => write!(f, "{}GiB", bytes / GIB),
            bytes if bytes > 0 && bytes % MIB == 0 => write!(f, "{}MiB", bytes / MIB),
            bytes if bytes > 0 && bytes % KIB == 0 => write!(f, "{}KiB", bytes / KIB),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// A string. An unquoted override counts as one whatever it looks like.
pub(super) fn text(node: &Node) -> Result<String, Problem> {
    match (&node.value, &node.raw) {
        (Value::Text(text), _) => Ok(text.clone()),
        (
            Value::Integer(_) | Value::OtherNumber(_) | Value::Bool(_) | Value::Datetime(_),
            Some(raw),
        ) => Ok(raw.trim().to_owned()),
        _ => Err(wrong_type(node, "a string")),
    }
}

/// `true` or `false`.
pub(super) fn truth(node: &Node) -> Result<bool, Problem> {
    match node.value {
        Value::Bool(truth) => Ok(truth),
        _ => Err(wrong_type(node, "true or false")),
    }
}

/// One word of a fixed set, which `words` spells.
pub(super) fn word<T: Copy>(
    words: &'static [&'static str],
    values: &[T],
    node: &Node,
) -> Result<T, Problem> {
    let text = text(node)?;
    match words.iter().zip(values).find(|(word, _)| **word == text) {
        Some((_, value)) => Ok(*value),
        None => Err(not_one_of(text, words)),
    }
}

/// The error of a text that is none of `allowed`.
pub(super) fn not_one_of(text: String, allowed: &'static [&'static str]) -> Problem {
    Problem::NotOneOf {
        near: nearest(&text, allowed.iter().copied()),
        text,
        allowed,
    }
}

/// A whole number between bounds.
pub(super) fn count(
    least: u32,
    most: u32,
    reason: &'static str,
    node: &Node,
) -> Result<NonZeroU32, Problem> {
    let number = match &node.value {
        Value::Integer(number) => *number,
        Value::OtherNumber(text) => {
            let rule = "write digits alone, e.g. 500";
            return Err(Problem::NotA {
                what: "whole number",
                text: text.clone(),
                rule,
            });
        }
        _ => return Err(wrong_type(node, "a whole number, written without quotes")),
    };
    let fits = u32::try_from(number)
        .ok()
        .filter(|number| (least..=most).contains(number));
    fits.and_then(NonZeroU32::new)
        .ok_or_else(|| Problem::OutOfRange {
            found: number.to_string(),
            least: least.max(1).to_string(),
            most: most.to_string(),
            reason,
        })
}

/// A duration between bounds: a whole number and one unit of `ms`, `s`, `m`, `h`, `d`.
pub(super) fn duration(
    least: Duration,
    most: Duration,
    reason: &'static str,
    node: &Node,
) -> Result<Duration, Problem> {
    let text = spelling(node, "a duration such as \"10s\"")?;
    let found = duration_from(&text)?;
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    Err(Problem::OutOfRange {
        found: text,
        least: show(least),
        most: show(most),
        reason,
    })
}

/// A duration as the file and the arguments spell it.
pub(crate) fn duration_from(text: &str) -> Result<Duration, Problem> {
    parse_duration(text).ok_or_else(|| Problem::NotA {
        what: "duration",
        text: format!("\"{text}\""),
        rule: "write a whole number and a unit (ms, s, m, h or d), e.g. \"10s\", \"500ms\", \"5m\"",
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// A duration as the file spells it: the largest unit that divides it.
pub(crate) fn show(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ];
    match units
        .iter()
        .find(|(_, size)| milliseconds > 0 && milliseconds.is_multiple_of(*size))
    {
        Some((unit, size)) => format!("{}{unit}", milliseconds / size),
        None if milliseconds == 0 => "0s".to_owned(),
        None => format!("{milliseconds}ms"),
    }
}

/// A size between bounds: a whole number of bytes, or with `KiB`, `MiB`, `GiB`; with or without quotes.
pub(super) fn size(
    least: ByteSize,
    most: ByteSize,
    reason: &'static str,
    node: &Node,
) -> Result<ByteSize, Problem> {
    let text = spelling(node, "a size such as \"4MiB\"")?;
    let found: ByteSize = text.parse()?;
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    Err(Problem::OutOfRange {
        found: text,
        least: least.to_string(),
        most: most.to_string(),
        reason,
    })
}

impl FromStr for ByteSize {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        parse_size(text).ok_or_else(|| Problem::NotA {
            what: "size",
            text: format!("\"{text}\""),
            rule: "write a whole number of bytes or with KiB, MiB or GiB, e.g. \"64KiB\", \"4MiB\", \"1000000\"",
        })
    }
}

fn parse_size(text: &str) -> Option<ByteSize> {
    let (number, unit) = split_unit(text)?;
    let bytes = match unit {
        "" | "B" => 1,
        "KiB" => KIB,
        "MiB" => MIB,
        "GiB" => GIB,
        _ => return None,
    };
    number.checked_mul(bytes).map(ByteSize)
}

/// The text of a quantity; a bare integer is let through so that the error can speak of its missing unit.
fn spelling(node: &Node, expected: &'static str) -> Result<String, Problem> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err(wrong_type(node, expected)),
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}
