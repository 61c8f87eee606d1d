//! The one shape both protocols are read into and answered from.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::local::model::write_seconds;

/// A request or an answer, or part of one. Text borrows from the request body where it can.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// Raw in CBOR, base64 in JSON.
    Bytes(Bytes),
    /// Epoch milliseconds; in JSON a number of seconds.
    Timestamp(i64),
    List(Vec<Value<'a>>),
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// An answer's members, in order.
    pub(crate) fn map<const N: usize>(members: [(&'static str, Value<'a>); N]) -> Self {
        Self::Map(
            members
                .into_iter()
                .map(|(name, value)| (Cow::Borrowed(name), value))
                .collect(),
        )
    }

    /// An answer without content.
    pub(crate) fn empty() -> Self {
        Self::Map(Vec::new())
    }

    /// A list made from parts.
    pub(crate) fn list<T: Into<Value<'a>>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// Adds a member to a map if there is a value for it.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: Option<impl Into<Value<'a>>>) -> Self {
        if let (Self::Map(members), Some(value)) = (&mut self, value) {
            members.push((Cow::Borrowed(name), value.into()));
        }
        self
    }

    /// The member of a map; null counts as absent, as in the protocols.
    pub(crate) fn get(&self, name: &str) -> Option<&Value<'a>> {
        let Self::Map(members) = self else {
            return None;
        };
        members
            .iter()
            .find(|(key, value)| key == name && *value != Self::Null)
            .map(|(_, value)| value)
    }

    /// Appends the value as JSON.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        const FITS: &str = "writing to a Vec cannot fail";
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Self::Int(n) => serde_json::to_writer(out, n).expect(FITS),
            Self::Float(n) => serde_json::to_writer(out, n).expect(FITS),
            Self::Text(text) => serde_json::to_writer(out, text).expect(FITS),
            Self::Bytes(bytes) => {
                out.push(b'"');
                base64_simd::STANDARD.encode_append(bytes, out);
                out.push(b'"');
            }
            Self::Timestamp(millis) => write_seconds(out, *millis),
            Self::List(items) => {
                write_between(out, *b"[]", items, |out, item| item.write_json(out));
            }
            Self::Map(members) => write_between(out, *b"{}", members, |out, (name, value)| {
                serde_json::to_writer(&mut *out, name).expect(FITS);
                out.push(b':');
                value.write_json(out);
            }),
        }
    }
}

fn write_between<T>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    items: &[T],
    mut write: impl FnMut(&mut Vec<u8>, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(close);
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<&'static str> for Value<'_> {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value<'_> {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<usize> for Value<'_> {
    fn from(n: usize) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

/// From JSON. Numbers keep whether they had a fraction; blobs and timestamps look like text and numbers until an operation asks.
impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(n))
    }

    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Value<'de>, E> {
        i64::try_from(n)
            .map(Value::Int)
            .map_err(|_| E::custom("number out of range"))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(n))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<Name<'de>, _>()? {
            members.push((name.0, value));
        }
        Ok(Value::Map(members))
    }
}

/// A member name, borrowed unless it has escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Text(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a member name is text")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_and_written() {
        let text = r#"{"a":[1,-2,2.5,true,null],"b\"":"x\ny","c":{}}"#;
        let value: Value<'_> = serde_json::from_str(text).expect("valid");
        assert!(matches!(value.get("a"), Some(Value::List(items)) if items.len() == 5));
        let mut out = Vec::new();
        value.write_json(&mut out);
        assert_eq!(String::from_utf8(out).expect("utf-8"), text);
    }

    #[test]
    fn blobs_and_times_have_their_json_forms() {
        let value = Value::map([
            ("t", Value::Timestamp(1_500)),
            ("n", Value::Timestamp(-1)),
            ("b", Value::Bytes(Bytes::from_static(b"hello"))),
        ]);
        let mut out = Vec::new();
        value.write_json(&mut out);
        assert_eq!(
            String::from_utf8(out).expect("utf-8"),
            r#"{"t":1.500,"n":-1.999,"b":"aGVsbG8="}"#
        );
    }
}
