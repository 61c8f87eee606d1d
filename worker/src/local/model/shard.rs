//! A shard: a hash range, a lineage, and records in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::quota::ShardQuotas;
use super::record::Record;
use super::sequence::{Origin, Sequence};
use super::subscribe::Connection;

/// The greatest hash key, 2^128 - 1.
pub const MAX_HASH_KEY: u128 = u128::MAX;

/// A shard as ListShards and DescribeStream tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    /// `shardId-` and twelve digits.
    pub shard_id: String,
    /// The shard it was split from, or the first of the two it was merged from.
    pub parent: Option<String>,
    /// The second of the two shards it was merged from.
    pub adjacent_parent: Option<String>,
    /// First hash key of its range, inclusive.
    pub starting_hash_key: u128,
    /// Last hash key of its range, inclusive.
    pub ending_hash_key: u128,
    /// Below the number of any record of the shard.
    pub starting_sequence: Sequence,
    /// Above the number of any record of the shard; set once it is closed.
    pub ending_sequence: Option<Sequence>,
}

/// A child as the end of its parent announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildShard {
    /// The child's id.
    pub shard_id: String,
    /// All its parents: one after a split, two after a merge.
    pub parents: Vec<String>,
    /// First hash key of its range, inclusive.
    pub starting_hash_key: u128,
    /// Last hash key of its range, inclusive.
    pub ending_hash_key: u128,
}

/// How a shard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    pub at: i64,
    pub ending: Sequence,
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub origin: Origin,
    pub parent: Option<u32>,
    pub adjacent_parent: Option<u32>,
    pub hash: (u128, u128),
    pub created: i64,
    pub closed: Option<Closed>,
    pub quotas: ShardQuotas,
    /// Rung when a record arrives, the shard closes, or a subscription to it changes hands.
    pub bell: Arc<Notify>,
    /// GetRecords calls answered so far; only the empty-page option asks.
    pub reads: u64,
    /// The latest successful SubscribeToShard of each consumer, by its ARN.
    pub subscriptions: BTreeMap<String, Connection>,
    records: VecDeque<Record>,
    last_index: u64,
    last_arrival: i64,
}

/// `shardId-` and the index in twelve digits.
pub(crate) fn shard_id(index: u32) -> String {
    format!("shardId-{index:012}")
}

/// The index in a shard id; `None` for any other text.
pub(crate) fn shard_index(id: &str) -> Option<u32> {
    let digits = id.strip_prefix("shardId-")?;
    let ours = digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_digit());
    ours.then(|| digits.parse().ok()).flatten()
}

impl Shard {
    pub(crate) fn new(index: u32, hash: (u128, u128), created: i64, parents: &[&Shard]) -> Self {
        let above = parents
            .iter()
            .map(|p| p.origin.created_secs + 1)
            .max()
            .unwrap_or(0);
        let created_secs = u64::try_from(created.max(0) / 1000).unwrap_or(0).max(above);
        Self {
            origin: Origin {
                shard: index,
                created_secs,
            },
            parent: parents.first().map(|p| p.origin.shard),
            adjacent_parent: parents.get(1).map(|p| p.origin.shard),
            hash,
            created,
            closed: None,
            quotas: ShardQuotas::default(),
            bell: Arc::default(),
            reads: 0,
            subscriptions: BTreeMap::new(),
            records: VecDeque::new(),
            last_index: 0,
            last_arrival: i64::MIN,
        }
    }

    pub(crate) fn id(&self) -> String {
        shard_id(self.origin.shard)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Closed so long ago that retention has taken its last record: the service no longer knows it.
    pub(crate) fn is_expired(&self, trim_before: i64) -> bool {
        self.closed.is_some_and(|c| c.at < trim_before)
    }

    /// Open at some moment of that millisecond.
    pub(crate) fn was_open_at(&self, at: i64) -> bool {
        self.created <= at && self.closed.is_none_or(|c| c.at >= at)
    }

    pub(crate) fn close(&mut self, now: i64) {
        self.closed = Some(Closed {
            at: now,
            ending: self.origin.end(now),
        });
        self.bell.notify_waiters();
    }

    /// The number and arrival time of the next record; time does not run backwards within a shard.
    pub(crate) fn next_number(&mut self, now: i64) -> (Sequence, i64) {
        self.last_arrival = self.last_arrival.max(now);
        self.last_index += 1;
        (
            self.origin.record(self.last_index, self.last_arrival),
            self.last_arrival,
        )
    }

    /// Stores a record numbered by [`Shard::next_number`].
    pub(crate) fn append(&mut self, record: Record) {
        debug_assert!(
            self.is_open()
                && self
                    .records
                    .back()
                    .is_none_or(|last| last.sequence_number() < record.sequence_number())
        );
        self.records.push_back(record);
        self.bell.notify_waiters();
    }

    /// The place behind all records so far.
    pub(crate) fn tip(&self, now: i64) -> Sequence {
        self.origin.place_after(self.last_index, now)
    }

    /// Whether this number of the shard has been reached: that of a record, of a place behind one, or of the end.
    pub(crate) fn has_reached(&self, sequence: Sequence) -> bool {
        sequence.index() <= self.last_index || self.closed.is_some_and(|c| c.ending == sequence)
    }

    /// The place of the first record that arrived at or after this time.
    pub(crate) fn at_timestamp(&self, at: i64, now: i64) -> Sequence {
        let first = self.records.partition_point(|r| r.arrival_ms() < at);
        self.records
            .get(first)
            .map_or_else(|| self.tip(now), Record::sequence_number)
    }

    /// The records from this place on, within the limits but at least one, and whether more remain.
    pub(crate) fn read(
        &self,
        from: Sequence,
        max_records: usize,
        max_bytes: u64,
    ) -> (Vec<Record>, Option<&Record>) {
        let first = self.records.partition_point(|r| r.sequence_number() < from);
        let mut bytes = 0;
        let fits = |r: &&Record| {
            let fits = bytes == 0 || bytes + r.size() <= max_bytes;
            bytes += r.size();
            fits
        };
        let page: Vec<Record> = self
            .records
            .range(first..)
            .take(max_records)
            .take_while(fits)
            .cloned()
            .collect();
        let rest = self.records.get(first + page.len());
        (page, rest)
    }

    /// Forgets records that arrived before this time.
    pub(crate) fn trim(&mut self, before: i64) {
        while self
            .records
            .front()
            .is_some_and(|r| r.arrival_ms() < before)
        {
            self.records.pop_front();
        }
    }

    pub(crate) fn info(&self) -> ShardInfo {
        ShardInfo {
            shard_id: self.id(),
            parent: self.parent.map(shard_id),
            adjacent_parent: self.adjacent_parent.map(shard_id),
            starting_hash_key: self.hash.0,
            ending_hash_key: self.hash.1,
            starting_sequence: self.origin.start(),
            ending_sequence: self.closed.map(|c| c.ending),
        }
    }

    pub(crate) fn as_child(&self) -> ChildShard {
        ChildShard {
            shard_id: self.id(),
            parents: self
                .parent
                .into_iter()
                .chain(self.adjacent_parent)
                .map(shard_id)
                .collect(),
            starting_hash_key: self.hash.0,
            ending_hash_key: self.hash.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_ids_are_read_as_they_are_written() {
        for index in [0, 7, 4_000_000_000] {
            assert_eq!(shard_index(&shard_id(index)), Some(index));
        }
        for id in [
            "",
            "shardId-1",
            "shardId-00000000000a",
            "shard-000000000001",
            "shardId-0000000000001",
            "shardId-999999999999",
        ] {
            assert_eq!(shard_index(id), None, "{id}");
        }
    }

    #[test]
    fn a_page_stops_at_either_limit_but_holds_one_record() {
        let mut shard = Shard::new(0, (0, MAX_HASH_KEY), 0, &[]);
        for size in [4usize, 4, 20, 4] {
            let (sequence, at) = shard.next_number(10);
            let mut encoder = super::super::record::Encoder::with_capacity(1, size);
            encoder.push(sequence, at, "k", &vec![0; size - 1], false);
            encoder.finish().into_iter().for_each(|r| shard.append(r));
        }
        let start = shard.origin.start();
        // (record limit, byte limit, records in the page, whether more remain)
        for (records, bytes, expect, more) in [
            (10, 100, 4, false),
            (2, 100, 2, true),
            (10, 8, 2, true),
            (10, 7, 1, true),
            (10, 1, 1, true),
            (4, 28, 3, true),
        ] {
            let (page, rest) = shard.read(start, records, bytes);
            assert_eq!(
                (page.len(), rest.is_some()),
                (expect, more),
                "limits {records}, {bytes}"
            );
        }
        let third = shard.read(start, 3, 100).0[2].sequence_number();
        assert_eq!(
            shard.read(third, 10, 10).0.len(),
            1,
            "a record above the byte limit still comes, alone"
        );
    }
}
