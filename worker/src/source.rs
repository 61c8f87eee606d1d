//! Seam: a stream, as the data plane needs it. Wires behind it are in `source/`.

pub mod kinesis;
pub mod polling;

use std::{collections::BTreeSet, future::Future, time::Duration};

use bytes::Bytes;
use checkpoint::{KinesisRecord, Position, SequenceNumber};
use lease::{Lease, Shard, ShardId};

/// A stream of shards. Every call is one attempt; the rules above decide about retries.
pub trait Source: Send + Sync + 'static {
    /// All shards that are still stored.
    fn list_shards(&self) -> impl Future<Output = Result<Vec<Shard>, SourceError>> + Send;

    /// The ids of the shards that were open at a time (epoch milliseconds).
    fn open_at(
        &self,
        millis: i64,
    ) -> impl Future<Output = Result<BTreeSet<ShardId>, SourceError>> + Send;

    /// An iterator that starts to read at `from`.
    fn iterator(
        &self,
        shard: &ShardId,
        from: &From,
    ) -> impl Future<Output = Result<ShardIterator, SourceError>> + Send;

    /// The next page of records, `limit` at most.
    fn records(
        &self,
        iterator: &ShardIterator,
        limit: u32,
    ) -> impl Future<Output = Result<Page, SourceError>> + Send;
}

/// Where reading starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// At the oldest stored record.
    TrimHorizon,
    /// At the first record that arrived then or later, epoch milliseconds.
    AtTimestamp(i64),
    /// At this record.
    At(SequenceNumber),
    /// Behind this record.
    After(SequenceNumber),
}

impl From {
    /// Where the reader of a lease begins.
    ///
    /// A stored number means AT, not after: the rest of its aggregate has to come again, and what is done is skipped.
    /// `LATEST` is where the row was pinned; a sentinel without a pin is read from the beginning, which loses nothing.
    pub fn resuming(lease: &Lease) -> From {
        match (&lease.checkpoint, lease.pinned) {
            (Position::At { sequence, .. }, _) => From::At(sequence.clone()),
            (Position::Latest | Position::AtTimestamp, Some(pinned)) => From::AtTimestamp(pinned),
            _ => From::TrimHorizon,
        }
    }
}

/// An opaque place in a shard, good for five minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIterator(pub Bytes);

/// What one read returned.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The records, in the order of the shard.
    pub records: Vec<KinesisRecord>,
    /// Where to go on. `None`: the shard is closed and this was its end.
    pub next: Option<ShardIterator>,
    /// How far the page is behind the tip of the shard, as Kinesis says.
    pub behind: Duration,
    /// At the end of the shard: its children.
    pub children: Vec<Shard>,
}

impl Page {
    /// Bytes of payload and keys.
    pub fn bytes(&self) -> usize {
        self.records
            .iter()
            .map(|record| record.data.len() + record.partition_key.as_bytes().len())
            .sum()
    }
}

/// Why a call failed; what to do about it is said with each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Slow down and try again.
    #[error("throttled: {0}")]
    Throttled(String),
    /// The iterator is too old: ask for a new one behind the last record that was read.
    #[error("the shard iterator has expired")]
    ExpiredIterator,
    /// The iterator or the position is refused: ask for a new one behind the last record that was read.
    #[error("refused: {0}")]
    Invalid(String),
    /// The stream or the shard does not exist. Proves nothing by itself (hazard H29): ask for the shards first.
    #[error("not found: {0}")]
    NotFound(String),
    /// Access is denied; trying again helps only once somebody has changed that.
    #[error("access denied: {0}")]
    Denied(String),
    /// Anything else: no connection, internal error, time-out. Try again.
    #[error("{0}")]
    Failed(String),
}

impl SourceError {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            SourceError::Throttled(_) => "throttled",
            SourceError::ExpiredIterator => "expired_iterator",
            SourceError::Invalid(_) => "invalid",
            SourceError::NotFound(_) => "not_found",
            SourceError::Denied(_) => "denied",
            SourceError::Failed(_) => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_resumes_at_what_is_stored_and_at_the_pin_of_a_sentinel() {
        let stored = Position::at(7.into(), 2);
        for (checkpoint, pinned, expected) in [
            (stored.clone(), None, From::At(7.into())),
            (stored, Some(1_000), From::At(7.into())),
            (Position::Latest, Some(1_000), From::AtTimestamp(1_000)),
            (Position::AtTimestamp, Some(1_000), From::AtTimestamp(1_000)),
            (Position::Latest, None, From::TrimHorizon),
            (Position::AtTimestamp, None, From::TrimHorizon),
            (Position::TrimHorizon, Some(1_000), From::TrimHorizon),
        ] {
            let mut lease = Lease::new(None, "shard".into(), checkpoint.clone());
            lease.pinned = pinned;
            assert_eq!(From::resuming(&lease), expected, "{checkpoint} {pinned:?}");
        }
    }
}
