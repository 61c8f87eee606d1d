//! The 128-bit space that shards divide among themselves.

use std::fmt;
use std::str::FromStr;

use md5::{Digest, Md5};
use thiserror::Error;

/// A point in the hash key space of a stream, 0 to 2^128 − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey(pub u128);

/// Why a text is not a hash key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HashKeyError {
    /// Not decimal digits; carries what was found.
    #[error("hash key {0:?} is not a decimal number")]
    NotANumber(String),
    /// Above 2^128 − 1; carries what was found.
    #[error("hash key {0} is larger than 2^128 - 1")]
    TooLarge(String),
}

impl HashKey {
    /// The first hash key, 0.
    pub const MIN: Self = Self(0);
    /// The last hash key, 2^128 − 1.
    pub const MAX: Self = Self(u128::MAX);

    /// Where Kinesis puts a partition key: its MD5 read as a big-endian number.
    pub fn of_partition_key(key: &str) -> Self {
        Self::of_digest(Md5::digest(key.as_bytes()).into())
    }

    /// The hash key of a partition key whose MD5 is known.
    pub(crate) fn of_digest(digest: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(digest))
    }
}

/// Decimal digits; leading zeros are allowed, a sign is not.
impl FromStr for HashKey {
    type Err = HashKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HashKeyError::NotANumber(text.to_owned()));
        }
        // Digits that `u128` refuses can only be too many.
        text.parse()
            .map(Self)
            .map_err(|_| HashKeyError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The hash keys of one shard, both ends included. A range whose start lies above its end holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HashRange {
    /// The lowest hash key of the shard (`StartingHashKey`).
    pub start: HashKey,
    /// The highest hash key of the shard (`EndingHashKey`).
    pub end: HashKey,
}

impl HashRange {
    /// Every hash key there is: a stream of one shard.
    pub const FULL: Self = Self {
        start: HashKey::MIN,
        end: HashKey::MAX,
    };

    /// Reads the two ends as ListShards spells them.
    ///
    /// # Errors
    /// When one of them is not a decimal number of at most 2^128 − 1.
    pub fn parse(starting_hash_key: &str, ending_hash_key: &str) -> Result<Self, HashKeyError> {
        Ok(Self {
            start: starting_hash_key.parse()?,
            end: ending_hash_key.parse()?,
        })
    }

    /// Whether a hash key lies in this range.
    pub fn contains(&self, key: HashKey) -> bool {
        self.start <= key && key <= self.end
    }

    /// Whether every hash key lies in this range, so that no key has to be hashed to know.
    pub fn is_full(&self) -> bool {
        *self == Self::FULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_key_is_placed_by_its_md5() {
        for (key, place) in [
            ("a", 16955237001963240173058271559858726497),
            ("b", 195289424170611159128911017612795795343),
        ] {
            assert_eq!(HashKey::of_partition_key(key), HashKey(place));
        }
    }

    #[test]
    fn reads_decimal_up_to_128_bits() {
        assert_eq!(
            "340282366920938463463374607431768211455".parse(),
            Ok(HashKey::MAX)
        );
        assert_eq!("000".parse(), Ok(HashKey::MIN));
        let above = "340282366920938463463374607431768211456";
        assert_eq!(
            above.parse::<HashKey>(),
            Err(HashKeyError::TooLarge(above.into()))
        );
        for text in ["", "+7", "-1", "0x1", "1 ", "\u{661}"] {
            assert_eq!(
                text.parse::<HashKey>(),
                Err(HashKeyError::NotANumber(text.into()))
            );
        }
    }

    #[test]
    fn both_ends_belong_to_a_range() {
        let range = HashRange::parse("5", "9").expect("digits");
        let inside: Vec<u128> = (0..12).filter(|n| range.contains(HashKey(*n))).collect();
        assert_eq!(inside, [5, 6, 7, 8, 9]);
        assert!(HashRange::FULL.contains(HashKey::MIN) && HashRange::FULL.contains(HashKey::MAX));
        assert!(HashRange::FULL.is_full() && !range.is_full());
        let empty = HashRange {
            start: HashKey(2),
            end: HashKey(1),
        };
        assert!(!empty.contains(HashKey(1)) && !empty.contains(HashKey(2)));
    }
}
