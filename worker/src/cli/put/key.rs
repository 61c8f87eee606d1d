//! Rule: which partition key a record gets that brings none.

use std::str::FromStr;

use crate::{backoff::Random, limits};

/// Where partition keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyRule {
    /// A random word each time: spread evenly over the shards, in no order.
    Random,
    /// Always the same: one shard, in order.
    Fixed(String),
    /// The data itself.
    Line,
    /// A field of the data, by its path.
    Json(Vec<String>),
    /// The record's number, from 1.
    Sequence,
}

impl FromStr for KeyRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "random" => Ok(KeyRule::Random),
            None if text == "line" => Ok(KeyRule::Line),
            None if text == "sequence" => Ok(KeyRule::Sequence),
            Some(("fixed", key))
                if (1..=limits::RECORD_KEY_LONGEST).contains(&key.chars().count()) =>
            {
                Ok(KeyRule::Fixed(key.to_owned()))
            }
            Some(("fixed", _)) => Err(format!(
                "a key has 1 to {} characters",
                limits::RECORD_KEY_LONGEST
            )),
            Some(("json", path)) if path.split('.').all(|part| !part.is_empty()) => {
                Ok(KeyRule::Json(path.split('.').map(str::to_owned).collect()))
            }
            Some(("json", _)) => {
                Err("write the field after the colon, e.g. json:customer.id".to_owned())
            }
            _ => Err("write random, fixed:KEY, line, sequence or json:FIELD".to_owned()),
        }
    }
}

impl KeyRule {
    /// The key of record `number`.
    ///
    /// # Errors
    /// When the data does not have one; says what is missing.
    pub(super) fn key(
        &self,
        data: &[u8],
        number: u64,
        random: &mut Random,
    ) -> Result<String, String> {
        match self {
            KeyRule::Random => Ok(random.word()),
            KeyRule::Fixed(key) => Ok(key.clone()),
            KeyRule::Sequence => Ok(number.to_string()),
            KeyRule::Line => std::str::from_utf8(data).map(str::to_owned).map_err(|_| {
                "is not UTF-8, so it cannot be the partition key (--key line)".to_owned()
            }),
            KeyRule::Json(path) => field(data, path),
        }
    }
}

fn field(data: &[u8], path: &[String]) -> Result<String, String> {
    let value: serde_json::Value = serde_json::from_slice(data).map_err(|error| {
        format!(
            "is not JSON, which --key json:{} needs: {error}",
            path.join(".")
        )
    })?;
    let found = path.iter().try_fold(&value, |value, part| match value {
        serde_json::Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    });
    match found {
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => {
            Ok(value.to_string())
        }
        Some(_) => Err(format!(
            "{} is no string, number or truth value, so it cannot be the partition key",
            path.join(".")
        )),
        None => Err(format!(
            "has no {}, which is to be the partition key",
            path.join(".")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rule: &str, data: &str) -> Result<String, String> {
        let rule: KeyRule = rule.parse().expect("a rule");
        rule.key(data.as_bytes(), 7, &mut Random::seeded(1))
    }

    #[test]
    fn keys_come_from_where_the_rule_says() {
        let order = r#"{"id":42,"customer":{"id":"ann"},"items":[{"sku":"tea"}],"paid":true}"#;
        for (rule, expected) in [
            ("fixed:a:b", "a:b"),
            ("line", order),
            ("sequence", "7"),
            ("json:id", "42"),
            ("json:customer.id", "ann"),
            ("json:items.0.sku", "tea"),
            ("json:paid", "true"),
        ] {
            assert_eq!(key(rule, order), Ok(expected.to_owned()), "{rule}");
        }
    }

    #[test]
    fn random_keys_follow_the_seed() {
        let keys = |seed| {
            let mut random = Random::seeded(seed);
            [0, 1].map(|number| KeyRule::Random.key(b"", number, &mut random))
        };
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
        assert_ne!(keys(1)[0], keys(1)[1]);
    }

    #[test]
    fn says_why_there_is_no_key() {
        for (rule, data, word) in [
            ("json:id", "x", "not JSON"),
            ("json:id", "{}", "has no id"),
            ("json:a.b", r#"{"a":"b"}"#, "has no a.b"),
            ("json:items.x", r#"{"items":[1]}"#, "has no items.x"),
            ("json:a", r#"{"a":null}"#, "cannot be"),
            ("json:a", r#"{"a":{}}"#, "cannot be"),
        ] {
            let error = key(rule, data).expect_err(data);
            assert!(error.contains(word), "{error}");
        }
        let bytes = KeyRule::Line.key(b"\xff", 1, &mut Random::seeded(1));
        assert!(bytes.expect_err("no text").contains("UTF-8"));
    }

    #[test]
    fn refuses_rules_that_make_no_key() {
        for text in [
            "",
            "fixed",
            "fixed:",
            "json:",
            "json:a..b",
            "json",
            "key",
            "Random",
        ] {
            assert!(text.parse::<KeyRule>().is_err(), "{text}");
        }
        let long = format!("fixed:{}", "k".repeat(257));
        assert!(long.parse::<KeyRule>().is_err());
    }
}
