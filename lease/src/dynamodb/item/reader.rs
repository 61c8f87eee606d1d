//! Reads single attributes, and says which one is wrong and how.

use std::{fmt::Display, str::FromStr};

use aws_sdk_dynamodb::types::AttributeValue;
use thiserror::Error;

use super::{Item, LEASE_KEY};

/// The attributes of one row.
pub(super) struct Reader<'a>(pub(super) &'a Item);

/// What is wrong with an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Wrong {
    /// The row cannot be what it says it is without it.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// Of another DynamoDB type.
    #[error("`{name}` is of type {found}, not {expected}")]
    Type {
        name: &'static str,
        found: &'static str,
        expected: &'static str,
    },
    /// Of the right type, but makes no sense.
    #[error("`{name}`: {reason}")]
    Value { name: &'static str, reason: String },
}

impl Wrong {
    pub(super) fn value(name: &'static str, reason: impl Display) -> Self {
        Wrong::Value {
            name,
            reason: reason.to_string(),
        }
    }
}

impl<'a> Reader<'a> {
    /// The row's key. DynamoDB holds no row without one, so its absence only ever shows in a name for a report.
    pub(super) fn key(&self) -> &'a str {
        match self.0.get(LEASE_KEY) {
            Some(AttributeValue::S(key)) => key,
            _ => "(no key)",
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An `S`; an empty one is wrong: no text of these rows may be empty, and the KCL writes none.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a str>, Wrong> {
        match self.0.get(name) {
            None => Ok(None),
            Some(AttributeValue::S(text)) if text.is_empty() => {
                Err(Wrong::value(name, "is an empty string"))
            }
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, other, "S")),
        }
    }

    pub(super) fn must<T>(name: &'static str, read: Result<Option<T>, Wrong>) -> Result<T, Wrong> {
        read?.ok_or(Wrong::Missing(name))
    }

    /// An `N` in the range of `T`.
    pub(super) fn number<T: FromStr<Err: Display>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, Wrong> {
        match self.0.get(name) {
            None => Ok(None),
            Some(AttributeValue::N(digits)) => digits
                .parse()
                .map(Some)
                .map_err(|reason| Wrong::value(name, format!("{digits}: {reason}"))),
            Some(other) => Err(wrong_type(name, other, "N")),
        }
    }

    /// A Java `long` that counts something, so that it is never negative.
    pub(super) fn count(&self, name: &'static str) -> Result<Option<u64>, Wrong> {
        let Some(count) = self.number::<i64>(name)? else {
            return Ok(None);
        };
        u64::try_from(count)
            .map(Some)
            .map_err(|_| Wrong::value(name, format!("{count} is negative")))
    }

    /// An `SS`; absent means empty.
    pub(super) fn text_set<T: FromIterator<U>, U: for<'b> From<&'b str>>(
        &self,
        name: &'static str,
    ) -> Result<T, Wrong> {
        match self.0.get(name) {
            None => Ok(T::from_iter([])),
            Some(AttributeValue::Ss(texts)) => {
                Ok(texts.iter().map(|text| U::from(text.as_str())).collect())
            }
            Some(other) => Err(wrong_type(name, other, "SS")),
        }
    }

    /// A `B`.
    pub(super) fn bytes(&self, name: &'static str) -> Result<Option<&'a [u8]>, Wrong> {
        match self.0.get(name) {
            None => Ok(None),
            Some(AttributeValue::B(bytes)) => Ok(Some(bytes.as_ref())),
            Some(other) => Err(wrong_type(name, other, "B")),
        }
    }

    /// A `BOOL`; absent means no.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Wrong> {
        match self.0.get(name) {
            None => Ok(false),
            Some(AttributeValue::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong_type(name, other, "BOOL")),
        }
    }
}

fn wrong_type(name: &'static str, found: &AttributeValue, expected: &'static str) -> Wrong {
    let found = match found {
        AttributeValue::B(_) => "B",
        AttributeValue::Bool(_) => "BOOL",
        AttributeValue::Bs(_) => "BS",
        AttributeValue::L(_) => "L",
        AttributeValue::M(_) => "M",
        AttributeValue::N(_) => "N",
        AttributeValue::Ns(_) => "NS",
        AttributeValue::Null(_) => "NULL",
        AttributeValue::S(_) => "S",
        AttributeValue::Ss(_) => "SS",
        _ => "unknown",
    };
    Wrong::Type {
        name,
        found,
        expected,
    }
}
