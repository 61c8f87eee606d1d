//! Unpacks Kinesis records into user records.

use std::ops::AddAssign;

use bytes::Bytes;

use super::body_of;
use super::judge::{HashRangePolicy, Judge, Refusal};
use super::parse::{Contents, Item, Tables};
use super::window::Window;
use crate::hash_key::{HashKey, HashRange};
use crate::record::{KinesisRecord, UserRecord};

/// Unpacks the records of one shard.
#[derive(Debug, Clone, Copy)]
pub struct Deaggregator {
    judge: Judge,
    policy: HashRangePolicy,
}

/// What became of some Kinesis records. Every record that went in is accounted for by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "dropped records are told here and nowhere else"]
pub struct Unpacked {
    /// Kinesis records that went in.
    pub kinesis_records: u64,
    /// User records handed to the sink: plain records and items of aggregates.
    pub user_records: u64,
    /// Kinesis records that were aggregates.
    pub aggregates: u64,
    /// Items not emitted because they belong to another shard, or share an aggregate with one under `StrictKcl`.
    pub out_of_range: u64,
    /// Aggregates with an item whose index or explicit hash key cannot be read.
    pub poisoned_aggregates: u64,
    /// Items not emitted because they are such an item or come after one in its aggregate.
    pub poisoned: u64,
    /// Aggregates without any item, of which nothing is emitted.
    pub empty_aggregates: u64,
    /// Records that look like an aggregate but carry another digest; emitted as plain records.
    pub digest_mismatches: u64,
    /// Records that look like an aggregate but hold no protobuf of one; emitted as plain records.
    pub not_protobuf: u64,
}

impl AddAssign for Unpacked {
    fn add_assign(&mut self, other: Self) {
        self.kinesis_records += other.kinesis_records;
        self.user_records += other.user_records;
        self.aggregates += other.aggregates;
        self.out_of_range += other.out_of_range;
        self.poisoned_aggregates += other.poisoned_aggregates;
        self.poisoned += other.poisoned;
        self.empty_aggregates += other.empty_aggregates;
        self.digest_mismatches += other.digest_mismatches;
        self.not_protobuf += other.not_protobuf;
    }
}

/// Unpacks records wherever they came from; nothing is left out for its hash key unless that is outside 0 to 2^128 − 1.
pub fn deaggregate(records: impl IntoIterator<Item = KinesisRecord>) -> Vec<UserRecord> {
    deaggregate_range(records, HashKey::MIN, HashKey::MAX)
}

/// Unpacks records and leaves out items of aggregates whose hash key lies outside the range, both ends included.
///
/// Plain records are never left out: they were put into the right shard by Kinesis itself.
pub fn deaggregate_range(
    records: impl IntoIterator<Item = KinesisRecord>,
    starting_hash_key: HashKey,
    ending_hash_key: HashKey,
) -> Vec<UserRecord> {
    let range = HashRange {
        start: starting_hash_key,
        end: ending_hash_key,
    };
    let mut unpacked = Vec::new();
    let _counts = Deaggregator::new(range, HashRangePolicy::DropRecord)
        .push_all(records, &mut |record| unpacked.push(record));
    unpacked
}

impl Deaggregator {
    /// For a shard with this hash range. A closed shard keeps its own range, never that of its children.
    pub fn new(range: HashRange, policy: HashRangePolicy) -> Self {
        Self {
            judge: Judge::new(range, policy),
            policy,
        }
    }

    /// Unpacks one record; hands its user records to `sink` in order.
    pub fn push(&self, record: KinesisRecord, sink: &mut impl FnMut(UserRecord)) -> Unpacked {
        self.push_all([record], sink)
    }

    /// Unpacks records in order. Faster than one at a time: digests of several aggregates are computed side by side.
    pub fn push_all(
        &self,
        records: impl IntoIterator<Item = KinesisRecord>,
        sink: &mut impl FnMut(UserRecord),
    ) -> Unpacked {
        let mut counts = Unpacked::default();
        let mut window = Window::default();
        for record in records {
            counts.kinesis_records += 1;
            window.push(record, &mut counts);
            if window.is_due() {
                self.flush(&mut window, sink, &mut counts);
            }
        }
        self.flush(&mut window, sink, &mut counts);
        counts
    }

    fn flush(&self, window: &mut Window, sink: &mut impl FnMut(UserRecord), counts: &mut Unpacked) {
        window.drain(counts, |record, contents, counts| match contents {
            Some(contents) => self.emit(&record, contents, sink, counts),
            None => {
                counts.user_records += 1;
                sink(record.into());
            }
        });
    }

    /// Emits what belongs to the shard of an aggregate whose digest is right.
    fn emit(
        &self,
        record: &KinesisRecord,
        contents: &mut Contents,
        sink: &mut impl FnMut(UserRecord),
        counts: &mut Unpacked,
    ) {
        let Contents { tables, items } = contents;
        let body = record.data.slice(body_of(record.data.len()));
        counts.aggregates += 1;
        counts.empty_aggregates += u64::from(items.is_empty());
        self.judge.partition_keys(items, tables, &body);
        if self.policy == HashRangePolicy::StrictKcl && self.has_stray(items, tables, &body) {
            counts.out_of_range += items.len() as u64;
            return;
        }
        for (index, item) in items.iter().enumerate() {
            match self.judge.item(item, tables, &body) {
                Ok(keys) => {
                    counts.user_records += 1;
                    sink(UserRecord {
                        data: body.slice(item.data.range()),
                        partition_key: tables.partition_keys.text(keys.partition_key, &body),
                        explicit_hash_key: keys
                            .explicit_hash_key
                            .map(|index| tables.explicit_hash_keys.text(index, &body)),
                        sequence: record.sequence.clone(),
                        sub_sequence: index as u64,
                        aggregated: true,
                        arrival: record.arrival,
                        encryption: record.encryption,
                    });
                }
                Err(Refusal::OutOfRange) => counts.out_of_range += 1,
                Err(Refusal::Poisoned) => {
                    counts.poisoned_aggregates += 1;
                    counts.poisoned += (items.len() - index) as u64;
                    return;
                }
            }
        }
    }

    /// Whether the first item that cannot be emitted, if any, is one of another shard.
    fn has_stray(&self, items: &[Item], tables: &mut Tables, body: &Bytes) -> bool {
        let refusal = items
            .iter()
            .find_map(|item| self.judge.item(item, tables, body).err());
        refusal == Some(Refusal::OutOfRange)
    }
}
