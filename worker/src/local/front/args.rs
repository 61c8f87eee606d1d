//! The members of a request, typed. A member of the wrong type is a `SerializationException`, a missing one a
//! `ValidationException`, as with the service.

use bytes::Bytes;

use super::value::Value;
use crate::local::model::{Code, Error, Result};

/// A map of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a>(pub &'a Value<'a>);

impl<'a> Args<'a> {
    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>> {
        self.typed(name, "String", |value| match value {
            Value::Text(text) => Some(text.as_ref()),
            _ => None,
        })
    }

    pub(crate) fn int(self, name: &str) -> Result<Option<i64>> {
        self.typed(name, "Integer", |value| match value {
            Value::Int(n) => Some(*n),
            #[allow(clippy::cast_possible_truncation)] // checked to be whole and within range
            Value::Float(n) if n.fract() == 0.0 && n.abs() < 9e15 => Some(*n as i64),
            _ => None,
        })
    }

    /// A number within these bounds.
    pub(crate) fn int_within(self, name: &str, min: i64, max: i64) -> Result<Option<i64>> {
        let n = self.int(name)?;
        match n {
            Some(n) if n < min => Err(Error::constraint(
                n,
                &member(name),
                &format!("Member must have value greater than or equal to {min}"),
            )),
            Some(n) if n > max => Err(Error::constraint(
                n,
                &member(name),
                &format!("Member must have value less than or equal to {max}"),
            )),
            n => Ok(n),
        }
    }

    /// A page size within 1 and a limit.
    pub(crate) fn page_size(self, name: &str, default: usize, max: i64) -> Result<usize> {
        let n = self.int_within(name, 1, max)?;
        Ok(n.and_then(|n| usize::try_from(n).ok()).unwrap_or(default))
    }

    pub(crate) fn bool(self, name: &str) -> Result<Option<bool>> {
        self.typed(name, "Boolean", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// Epoch milliseconds; a plain number counts seconds.
    pub(crate) fn timestamp(self, name: &str) -> Result<Option<i64>> {
        self.typed(name, "Timestamp", |value| match value {
            Value::Timestamp(millis) => Some(*millis),
            Value::Int(seconds) => seconds.checked_mul(1000),
            #[allow(clippy::cast_possible_truncation)] // saturates; far outside any time
            Value::Float(seconds) => Some((seconds * 1000.0).round() as i64),
            _ => None,
        })
    }

    pub(crate) fn blob(self, name: &str) -> Result<Option<Bytes>> {
        self.typed(name, "Blob (base64 in JSON)", |value| match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Text(text) => base64_simd::STANDARD
                .decode_to_vec(text.as_bytes())
                .ok()
                .map(Bytes::from),
            _ => None,
        })
    }

    pub(crate) fn list(self, name: &str) -> Result<Option<&'a [Value<'a>]>> {
        self.typed(name, "List", |value| match value {
            Value::List(items) => Some(items.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn map(self, name: &str) -> Result<Option<Args<'a>>> {
        self.typed(name, "Structure", |value| match value {
            Value::Map(_) => Some(Args(value)),
            _ => None,
        })
    }

    /// The texts of a list.
    pub(crate) fn texts(self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        let text = |item: &Value<'_>| match item {
            Value::Text(text) => Ok(text.clone().into_owned()),
            _ => Err(wrong_type(name, "List of String")),
        };
        items.iter().map(text).collect::<Result<_>>().map(Some)
    }

    /// The texts of a map.
    pub(crate) fn text_map(
        self,
        name: &str,
    ) -> Result<Option<std::collections::BTreeMap<String, String>>> {
        let Some(Args(Value::Map(members))) = self.map(name)? else {
            return Ok(None);
        };
        let pair = |(key, value): &(std::borrow::Cow<'_, str>, Value<'_>)| match value {
            Value::Text(text) => Ok((key.clone().into_owned(), text.clone().into_owned())),
            _ => Err(wrong_type(name, "Map of String")),
        };
        members.iter().map(pair).collect::<Result<_>>().map(Some)
    }

    fn typed<T>(
        self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&'a Value<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        read(value).map(Some).ok_or_else(|| wrong_type(name, kind))
    }
}

/// Demands a member.
pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| {
        let message = format!("1 validation error detected: Value null at '{}' failed to satisfy constraint: Member must not be null", member(name));
        Error::new(Code::Validation, message)
    })
}

fn wrong_type(name: &str, kind: &str) -> Error {
    Error::new(
        Code::Serialization,
        format!("{name} cannot be read as {kind}"),
    )
}

/// The service's messages write members with a small first letter.
fn member(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_types() {
        let value: Value<'_> = serde_json::from_str(
            r#"{"T":"x","N":5,"F":1.5,"W":7.0,"B":true,"D":"aGk=","L":["a"],"M":{"k":"v"},"Null":null}"#,
        )
        .expect("valid");
        let args = Args(&value);
        assert_eq!(
            (args.text("T"), args.text("Null"), args.text("Absent")),
            (Ok(Some("x")), Ok(None), Ok(None))
        );
        assert_eq!(
            (args.int("N"), args.int("W"), args.bool("B")),
            (Ok(Some(5)), Ok(Some(7)), Ok(Some(true)))
        );
        assert_eq!(
            (args.timestamp("N"), args.timestamp("F")),
            (Ok(Some(5000)), Ok(Some(1500)))
        );
        assert_eq!(args.blob("D"), Ok(Some(Bytes::from_static(b"hi"))));
        assert_eq!(args.texts("L"), Ok(Some(vec!["a".to_owned()])));
        assert_eq!(
            args.text_map("M")
                .expect("a map")
                .expect("there")
                .get("k")
                .map(String::as_str),
            Some("v")
        );
        assert_eq!(args.int_within("N", 1, 5), Ok(Some(5)));

        let wrong: [(&str, Result<()>); 6] = [
            ("text", args.text("N").map(drop)),
            ("int", args.int("F").map(drop)),
            ("bool", args.bool("T").map(drop)),
            ("blob", args.blob("T").map(drop)),
            ("list", args.list("M").map(drop)),
            ("map", args.map("L").map(drop)),
        ];
        for (what, got) in wrong {
            assert_eq!(got.map_err(|e| e.code), Err(Code::Serialization), "{what}");
        }
        assert_eq!(
            args.int_within("N", 1, 4).map_err(|e| e.code),
            Err(Code::Validation)
        );
        let missing = required::<()>("StreamName", None).expect_err("missing");
        assert!(
            missing.code == Code::Validation && missing.message.contains("'streamName'"),
            "{missing}"
        );
    }
}
