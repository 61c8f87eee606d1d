//! What a consumer counts, in the words of the metrics.

use std::time::Duration;

use crate::{
    delivery::Counts,
    metrics::{self, Deaggregation, ReadResult, Service, ShardMetrics},
    source::SourceError,
};

/// The metrics of one tenure.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    shard: ShardMetrics,
    retention: Option<Duration>,
}

impl Meter {
    /// `retention`: how long the stream keeps data, if known.
    pub(crate) fn new(stream: &str, shard: &str, retention: Option<Duration>) -> Self {
        Meter {
            shard: ShardMetrics::new(stream, shard),
            retention,
        }
    }

    /// The counters and gauges themselves.
    pub(crate) fn shard(&self) -> &ShardMetrics {
        &self.shard
    }

    pub(super) fn page(&self, records: usize, bytes: usize, behind: Duration, took: Duration) {
        self.shard.get_records_ended(ReadResult::Ok, took);
        self.shard.iterator_age(behind, self.retention);
        if records > 0 {
            self.shard.records_read(records, bytes);
        }
    }

    pub(super) fn read_failed(&self, error: &SourceError, took: Option<Duration>) {
        let result = match error {
            SourceError::Throttled(_) => ReadResult::Throttled,
            SourceError::ExpiredIterator => ReadResult::ExpiredIterator,
            _ => ReadResult::Error,
        };
        if let Some(took) = took {
            self.shard.get_records_ended(result, took);
        }
        if result == ReadResult::Throttled {
            let operation = if took.is_some() {
                "GetRecords"
            } else {
                "GetShardIterator"
            };
            metrics::throttled(Service::Kinesis, operation);
        }
    }

    pub(super) fn unpacked(&self, counts: &Counts) {
        let unpacked = &counts.unpacked;
        for (result, count) in [
            (Deaggregation::Aggregate, unpacked.aggregates),
            (Deaggregation::UserRecord, unpacked.user_records),
            (Deaggregation::Md5Mismatch, unpacked.digest_mismatches),
            (Deaggregation::NotProtobuf, unpacked.not_protobuf),
            (Deaggregation::OutOfRange, unpacked.out_of_range),
            (Deaggregation::Poisoned, unpacked.poisoned_aggregates),
            (Deaggregation::UnreadableUserRecord, unpacked.poisoned),
            (Deaggregation::Empty, unpacked.empty_aggregates),
        ] {
            if count > 0 {
                self.shard.deaggregated(result, count as usize);
            }
        }
        let skipped = counts.resumed + counts.repeated;
        if skipped > 0 {
            self.shard.records_skipped(skipped as usize);
        }
    }
}
