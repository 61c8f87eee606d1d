//! Says which items of an aggregate belong to the shard it was read from.
//!
//! Rule: an item's hash key is its explicit hash key where it has one, else the MD5 of its partition key; it belongs to
//! the shard when that lies in the shard's hash range. An item whose index points outside its table, or whose explicit
//! hash key is not a number, is poisoned: it and everything after it are unreadable, as in the KCL.

use bytes::Bytes;

use super::parse::{Item, Tables};
use crate::hash_key::{HashKey, HashRange};

/// What to do with items of an aggregate that belong to another shard.
///
/// They occur after a split or merge, when a producer aggregated by the old ranges. Sub-sequence numbers are the same
/// under each policy: the index inside the aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HashRangePolicy {
    /// Drop such items and keep the rest. Never loses more than the KCL does, nor emits a record of another shard.
    #[default]
    DropRecord,
    /// Drop the whole aggregate that holds one, as the KCL does. Items that a KPL had acknowledged, and so did not send
    /// again to the right shard with the others, are lost.
    StrictKcl,
    /// Emit everything; hash keys are not even read, so one that is no number poisons nothing.
    Off,
}

/// Why an item is not emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    OutOfRange,
    Poisoned,
}

/// Where the texts of an item stand in their tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    pub(super) partition_key: usize,
    pub(super) explicit_hash_key: Option<usize>,
}

impl Keys {
    /// Finds the entries an item points to, if it points inside the tables.
    #[inline]
    fn of(item: &Item, tables: &Tables) -> Option<Self> {
        let partition_key = item.partition_key.within(tables.partition_keys.len())?;
        let explicit_hash_key = match item.explicit_hash_key {
            Some(index) => Some(index.within(tables.explicit_hash_keys.len())?),
            None => None,
        };
        Some(Self {
            partition_key,
            explicit_hash_key,
        })
    }
}

/// How membership is found out; chosen once for a shard.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// No hash key matters.
    Everything,
    /// Only explicit hash keys can be wrong; no partition key needs hashing.
    FullRange,
    /// Every hash key matters.
    Range(HashRange),
}

impl Judge {
    pub(super) fn new(range: HashRange, policy: HashRangePolicy) -> Self {
        match policy {
            HashRangePolicy::Off => Self::Everything,
            _ if range.is_full() => Self::FullRange,
            _ => Self::Range(range),
        }
    }

    /// Judges the partition keys that the items of an aggregate need, all at once; to be called before [`item`](Self::item).
    pub(super) fn partition_keys(self, items: &[Item], tables: &mut Tables, body: &Bytes) {
        let Self::Range(range) = self else { return };
        let length = tables.partition_keys.len();
        let by_partition_key = items.iter().filter(|item| item.explicit_hash_key.is_none());
        let wanted = by_partition_key.filter_map(|item| item.partition_key.within(length));
        let rule = |digest| within(range, HashKey::of_digest(digest));
        tables.partition_keys.judge_digests(wanted, body, rule);
    }

    /// Judges one item of an aggregate, whose `tables` were read from `body`.
    #[inline]
    pub(super) fn item(
        self,
        item: &Item,
        tables: &mut Tables,
        body: &Bytes,
    ) -> Result<Keys, Refusal> {
        let keys = Keys::of(item, tables).ok_or(Refusal::Poisoned)?;
        let range = match (self, keys.explicit_hash_key) {
            (Self::Everything, _) | (Self::FullRange, None) => return Ok(keys),
            (Self::FullRange, Some(_)) => HashRange::FULL,
            (Self::Range(range), _) => range,
        };
        match keys.explicit_hash_key {
            Some(index) => tables.explicit_hash_keys.judge(index, body, |text| {
                let key = big_integer(text).map_err(|NotANumber| Refusal::Poisoned)?;
                within(range, key.ok_or(Refusal::OutOfRange)?)
            }),
            None => tables.partition_keys.verdict(keys.partition_key),
        }?;
        Ok(keys)
    }
}

fn within(range: HashRange, key: HashKey) -> Result<(), Refusal> {
    if range.contains(key) {
        Ok(())
    } else {
        Err(Refusal::OutOfRange)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct NotANumber;

/// An integer as Java's `BigInteger(String)` reads it, `None` when it lies outside 0 to 2^128 − 1: one optional sign,
/// then at least one digit. (Java takes decimal digits of any script; here only those of ASCII count.)
fn big_integer(text: &[u8]) -> Result<Option<HashKey>, NotANumber> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(NotANumber);
    }
    let mut number = Some(0u128);
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(NotANumber);
        }
        let digit = u128::from(byte - b'0');
        number = number.and_then(|n| n.checked_mul(10)?.checked_add(digit));
    }
    Ok(number.filter(|n| !negative || *n == 0).map(HashKey))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shard_with_less_than_every_key_has_keys_hashed() {
        use HashRangePolicy::{DropRecord, Off, StrictKcl};
        let half = HashRange {
            start: HashKey::MIN,
            end: HashKey(u128::MAX / 2),
        };
        for policy in [DropRecord, StrictKcl] {
            assert!(matches!(
                Judge::new(HashRange::FULL, policy),
                Judge::FullRange
            ));
            assert!(matches!(Judge::new(half, policy), Judge::Range(range) if range == half));
        }
        for range in [HashRange::FULL, half] {
            assert!(matches!(Judge::new(range, Off), Judge::Everything));
        }
    }

    #[test]
    fn reads_integers_as_java_does() {
        let max = u128::MAX.to_string();
        for (text, expected) in [
            ("0", Ok(Some(0))),
            ("007", Ok(Some(7))),
            ("+007", Ok(Some(7))),
            ("-0", Ok(Some(0))),
            ("-1", Ok(None)),
            (max.as_str(), Ok(Some(u128::MAX))),
            ("340282366920938463463374607431768211456", Ok(None)),
            ("9999999999999999999999999999999999999999999999", Ok(None)),
            (
                "9999999999999999999999999999999999999999999999x",
                Err(NotANumber),
            ),
            ("", Err(NotANumber)),
            ("+", Err(NotANumber)),
            ("-", Err(NotANumber)),
            ("+-5", Err(NotANumber)),
            ("1-2", Err(NotANumber)),
            (" 5", Err(NotANumber)),
            ("5_0", Err(NotANumber)),
            ("zz", Err(NotANumber)),
        ] {
            assert_eq!(
                big_integer(text.as_bytes()),
                expected.map(|n| n.map(HashKey)),
                "{text:?}"
            );
        }
    }
}
