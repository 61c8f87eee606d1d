//! A place in a shard: what a checkpoint stores.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::sequence::{SequenceNumber, SequenceNumberError};

/// A place in a shard, in the vocabulary of the KCL's lease table.
///
/// The variants stand in the order the KCL compares them: `AT_TIMESTAMP` before `TRIM_HORIZON` before `LATEST` before
/// every number before `SHARD_END`. Numbers are compared as integers, then by sub-sequence number. Unlike in the KCL,
/// equality agrees with that order: `007` and `7` are one position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// Begin at a moment in time, which the lease row does not hold (it comes from the configuration).
    AtTimestamp,
    /// Begin at the oldest record that the stream still keeps.
    TrimHorizon,
    /// Begin after the newest record.
    Latest,
    /// One user record.
    At {
        /// The sequence number of the Kinesis record that holds it.
        sequence: SequenceNumber,
        /// Its zero-based index inside the aggregate; 0 for a plain record. The KCL stores it as a signed 64-bit number,
        /// so nothing above `i64::MAX` can be read back by it.
        sub_sequence: u64,
    },
    /// The shard is closed and every record of it is done.
    ShardEnd,
}

/// Why a text, or a pair of columns, is not a position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PositionError {
    /// Neither digits nor one of the four sentinel words.
    #[error(
        "checkpoint {text:?} is neither a sequence number nor TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"
    )]
    Checkpoint {
        /// What was found.
        text: String,
        /// Why it is not a sequence number.
        #[source]
        source: SequenceNumberError,
    },
    /// The sub-sequence number is not a whole number from 0 to `i64::MAX`; carries what was found.
    #[error("sub-sequence number {0:?} is not a whole number from 0 to {max}", max = i64::MAX)]
    SubSequence(String),
}

const AT_TIMESTAMP: &str = "AT_TIMESTAMP";
const TRIM_HORIZON: &str = "TRIM_HORIZON";
const LATEST: &str = "LATEST";
const SHARD_END: &str = "SHARD_END";

impl Position {
    /// The position of the user record `sub_sequence` inside the Kinesis record `sequence`.
    pub fn at(sequence: SequenceNumber, sub_sequence: u64) -> Self {
        Self::At {
            sequence,
            sub_sequence,
        }
    }

    /// The same position with digits in a buffer of their own ([`SequenceNumber::detached`]).
    pub fn detached(&self) -> Self {
        match self {
            Self::At {
                sequence,
                sub_sequence,
            } => Self::at(sequence.detached(), *sub_sequence),
            sentinel => sentinel.clone(),
        }
    }

    /// Reads the two columns of a KCL lease row, `checkpoint` and `checkpointSubSequenceNumber`.
    ///
    /// An absent sub-sequence number means 0. Beside a sentinel it carries no meaning (the KCL compares `SHARD_END`
    /// without it), so whatever stands there is ignored.
    ///
    /// # Errors
    /// When `checkpoint` is neither digits nor a sentinel, or the sub-sequence number of a numeric one is negative.
    pub fn from_kcl(checkpoint: &str, sub_sequence: Option<i64>) -> Result<Self, PositionError> {
        let sequence = match checkpoint {
            AT_TIMESTAMP => return Ok(Self::AtTimestamp),
            TRIM_HORIZON => return Ok(Self::TrimHorizon),
            LATEST => return Ok(Self::Latest),
            SHARD_END => return Ok(Self::ShardEnd),
            digits => digits.parse().map_err(|source| PositionError::Checkpoint {
                text: digits.to_owned(),
                source,
            })?,
        };
        let sub_sequence = sub_sequence.unwrap_or(0);
        let sub_sequence = u64::try_from(sub_sequence)
            .map_err(|_| PositionError::SubSequence(sub_sequence.to_string()))?;
        Ok(Self::At {
            sequence,
            sub_sequence,
        })
    }

    /// The `checkpoint` column of a KCL lease row: the digits verbatim, or the sentinel.
    pub fn checkpoint(&self) -> &str {
        match self {
            Self::AtTimestamp => AT_TIMESTAMP,
            Self::TrimHorizon => TRIM_HORIZON,
            Self::Latest => LATEST,
            Self::At { sequence, .. } => sequence.as_str(),
            Self::ShardEnd => SHARD_END,
        }
    }

    /// The `checkpointSubSequenceNumber` column of a KCL lease row: 0 for every sentinel.
    pub fn sub_sequence(&self) -> u64 {
        match self {
            Self::At { sub_sequence, .. } => *sub_sequence,
            _ => 0,
        }
    }

    /// The sequence number, unless the position is a sentinel.
    pub fn sequence(&self) -> Option<&SequenceNumber> {
        match self {
            Self::At { sequence, .. } => Some(sequence),
            _ => None,
        }
    }

    /// Whether this is one of the four words rather than a place with a number.
    pub fn is_sentinel(&self) -> bool {
        !matches!(self, Self::At { .. })
    }
}

/// `sequence/sub-sequence`, or the sentinel as the KCL spells it.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At {
                sequence,
                sub_sequence,
            } => write!(f, "{sequence}/{sub_sequence}"),
            sentinel => f.pad(sentinel.checkpoint()),
        }
    }
}

/// Reads what [`Display`](fmt::Display) writes; a sequence number alone means sub-sequence number 0.
impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((sequence, sub_sequence)) = text.split_once('/') else {
            return Self::from_kcl(text, None);
        };
        // `i64::from_str` alone would also take "+1".
        let is_digits = sub_sequence.bytes().all(|byte| byte.is_ascii_digit());
        let sub_sequence = match sub_sequence.parse::<i64>() {
            Ok(number) if is_digits => number,
            _ => return Err(PositionError::SubSequence(sub_sequence.to_owned())),
        };
        let sequence = sequence
            .parse()
            .map_err(|source| PositionError::Checkpoint {
                text: sequence.to_owned(),
                source,
            })?;
        Ok(Self::At {
            sequence,
            sub_sequence: sub_sequence.unsigned_abs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position(text: &str) -> Position {
        text.parse().expect("a test gives a position")
    }

    #[test]
    fn stands_in_the_order_of_the_kcl() {
        let ascending = [
            "AT_TIMESTAMP",
            "TRIM_HORIZON",
            "LATEST",
            "0",
            "2/2",
            "2/10",
            "007",
            "10",
            "SHARD_END",
        ];
        for pair in ascending.windows(2) {
            assert!(
                position(pair[0]) < position(pair[1]),
                "{} before {}",
                pair[0],
                pair[1]
            );
        }
        assert_eq!(position("007/3"), position("7/3"));
    }

    #[test]
    fn reads_and_writes_the_columns_of_the_kcl() {
        for (checkpoint, sub_sequence, expected) in [
            ("TRIM_HORIZON", None, Position::TrimHorizon),
            ("LATEST", Some(0), Position::Latest),
            ("AT_TIMESTAMP", Some(0), Position::AtTimestamp),
            ("SHARD_END", Some(0), Position::ShardEnd),
            ("0042", Some(3), position("42/3")),
            ("42", None, position("42/0")),
        ] {
            let read = Position::from_kcl(checkpoint, sub_sequence).expect("a row of the KCL");
            assert_eq!(read, expected);
            assert_eq!(read.checkpoint(), checkpoint, "verbatim");
            assert_eq!(
                read.sub_sequence(),
                sub_sequence.unwrap_or(0).unsigned_abs()
            );
        }
        assert_eq!(
            Position::from_kcl("SHARD_END", Some(3)),
            Ok(Position::ShardEnd)
        );
    }

    #[test]
    fn a_refused_text_is_named() {
        let message = |text: &str| text.parse::<Position>().expect_err(text).to_string();
        assert_eq!(
            message("bogus"),
            "checkpoint \"bogus\" is neither a sequence number nor TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"
        );
        assert!(message("shard_end").contains("shard_end"));
        assert!(message("").contains("checkpoint \"\""));
        assert!(message("LATEST/1").contains("LATEST"));
        for sub_sequence in ["", "-1", "+1", "x", "9223372036854775808", "1/2"] {
            let text = format!("5/{sub_sequence}");
            assert_eq!(
                text.parse::<Position>(),
                Err(PositionError::SubSequence(sub_sequence.into()))
            );
        }
        assert_eq!(
            Position::from_kcl("5", Some(-1)),
            Err(PositionError::SubSequence("-1".into()))
        );
    }

    proptest! {
        #[test]
        fn text_and_columns_both_come_back(digits in "[0-9]{1,129}", sub in 0..=i64::MAX) {
            let position = Position::from_kcl(&digits, Some(sub)).expect("digits");
            prop_assert_eq!(position.checkpoint(), &digits);
            prop_assert_eq!(position.to_string().parse(), Ok(position.clone()));
            prop_assert_eq!(Position::from_kcl(position.checkpoint(), Some(sub)), Ok(position));
        }
    }
}
