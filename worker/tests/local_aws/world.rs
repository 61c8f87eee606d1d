//! The embedded AWS and real SDK clients for it, on a clock that a test moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::operation::get_records::GetRecordsOutput;
use aws_sdk_kinesis::operation::merge_shards::{MergeShardsError, MergeShardsOutput};
use aws_sdk_kinesis::operation::split_shard::{SplitShardError, SplitShardOutput};
use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{
    PutRecordsRequestEntry, Record, Shard, ShardIteratorType, StreamDescriptionSummary,
    StreamStatus,
};
use shardkeeper::local::model::ModelOptions;
use shardkeeper::local::{LocalAws, LocalOptions};

use crate::sdk;

/// The hash key that cuts the whole range in two.
pub(crate) const HALF: u128 = 1 << 127;

/// Where every test's clock begins; deliberately not a whole second.
pub(crate) const T0: i64 = 1_764_500_000_123;

pub(crate) struct World {
    pub(crate) aws: LocalAws,
    pub(crate) kinesis: Client,
    clock: Arc<AtomicI64>,
}

pub(crate) async fn start(model: ModelOptions) -> World {
    let clock = Arc::new(AtomicI64::new(T0));
    let reads = Arc::clone(&clock);
    let options = LocalOptions {
        model,
        clock: Arc::new(move || reads.load(Ordering::SeqCst)),
        ..LocalOptions::default()
    };
    let aws = LocalAws::start(options)
        .await
        .expect("the embedded AWS starts");
    let kinesis = kinesis_client(&aws.kinesis_url());
    World {
        aws,
        kinesis,
        clock,
    }
}

pub(crate) fn kinesis_client(url: &str) -> Client {
    Client::new(&sdk::config(url))
}

impl World {
    pub(crate) fn advance(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub(crate) async fn create(&self, stream: &str, shards: i32) {
        self.kinesis
            .create_stream()
            .stream_name(stream)
            .shard_count(shards)
            .send()
            .await
            .expect("created");
    }

    /// Puts one record at a hash key; answers shard id and sequence number.
    pub(crate) async fn put(&self, stream: &str, data: &str, hash_key: u128) -> (String, String) {
        let put = self
            .kinesis
            .put_record()
            .stream_name(stream)
            .partition_key("k")
            .explicit_hash_key(hash_key.to_string());
        let placed = put.data(Blob::new(data)).send().await.expect("put");
        (placed.shard_id, placed.sequence_number)
    }

    /// Splits a shard before this hash key.
    pub(crate) async fn split(
        &self,
        stream: &str,
        index: u32,
        at: u128,
    ) -> Result<SplitShardOutput, SdkError<SplitShardError>> {
        self.kinesis
            .split_shard()
            .stream_name(stream)
            .shard_to_split(shard(index))
            .new_starting_hash_key(at.to_string())
            .send()
            .await
    }

    pub(crate) async fn merge(
        &self,
        stream: &str,
        one: u32,
        other: u32,
    ) -> Result<MergeShardsOutput, SdkError<MergeShardsError>> {
        self.kinesis
            .merge_shards()
            .stream_name(stream)
            .shard_to_merge(shard(one))
            .adjacent_shard_to_merge(shard(other))
            .send()
            .await
    }

    pub(crate) async fn summary(&self, stream: &str) -> StreamDescriptionSummary {
        let described = self.kinesis.describe_stream_summary().stream_name(stream);
        let described = described.send().await.expect("described");
        described.stream_description_summary.expect("summary")
    }

    pub(crate) async fn status(&self, stream: &str) -> StreamStatus {
        self.summary(stream).await.stream_status
    }

    pub(crate) async fn iterator(
        &self,
        stream: &str,
        index: u32,
        kind: ShardIteratorType,
    ) -> String {
        let iterator = self
            .kinesis
            .get_shard_iterator()
            .stream_name(stream)
            .shard_id(shard(index))
            .shard_iterator_type(kind);
        let iterator = iterator.send().await.expect("an iterator");
        iterator.shard_iterator.expect("an iterator")
    }

    /// An iterator at the trim horizon.
    pub(crate) async fn trim_horizon(&self, stream: &str, index: u32) -> String {
        self.iterator(stream, index, ShardIteratorType::TrimHorizon)
            .await
    }

    pub(crate) async fn page(&self, iterator: &str) -> GetRecordsOutput {
        self.kinesis
            .get_records()
            .shard_iterator(iterator)
            .send()
            .await
            .expect("read")
    }

    /// The payloads of a shard from its trim horizon, and the page that ended it or came empty.
    pub(crate) async fn drain(&self, stream: &str, index: u32) -> (Vec<String>, GetRecordsOutput) {
        let mut iterator = self.trim_horizon(stream, index).await;
        let mut all = Vec::new();
        loop {
            let page = self.page(&iterator).await;
            all.extend(payloads(&page.records));
            match &page.next_shard_iterator {
                Some(next) if !page.records.is_empty() => iterator = next.clone(),
                _ => return (all, page),
            }
        }
    }

    /// Every shard of the stream: id to (parent, adjacent parent, is open).
    pub(crate) async fn family(
        &self,
        stream: &str,
    ) -> BTreeMap<String, (Option<String>, Option<String>, bool)> {
        let listed = self.kinesis.list_shards().stream_name(stream).send().await;
        let shards = listed.expect("listed").shards.expect("shards");
        let entry = |s: Shard| {
            let open = s
                .sequence_number_range
                .expect("range")
                .ending_sequence_number
                .is_none();
            (
                s.shard_id,
                (s.parent_shard_id, s.adjacent_parent_shard_id, open),
            )
        };
        shards.into_iter().map(entry).collect()
    }
}

pub(crate) fn payloads(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .map(|r| String::from_utf8(r.data.as_ref().to_vec()).expect("text"))
        .collect()
}

pub(crate) fn shard(index: u32) -> String {
    format!("shardId-{index:012}")
}

/// One record of a batch, for the first shard.
pub(crate) fn entry(data: impl Into<Vec<u8>>) -> PutRecordsRequestEntry {
    PutRecordsRequestEntry::builder()
        .partition_key("k")
        .explicit_hash_key("0")
        .data(Blob::new(data))
        .build()
        .expect("complete")
}

/// The ids of these shards, in their order.
pub(crate) fn ids(shards: &[Shard]) -> Vec<String> {
    shards.iter().map(|s| s.shard_id.clone()).collect()
}

/// The error code of a refused call.
pub(crate) fn code<T: std::fmt::Debug, E: ProvideErrorMetadata>(result: Result<T, E>) -> String {
    match result {
        Ok(answer) => panic!("expected a refusal, got {answer:?}"),
        Err(error) => error.code().unwrap_or("no code").to_owned(),
    }
}

/// Epoch milliseconds of a time as the SDK reads it: its way from JSON's decimal number loses up to a microsecond.
pub(crate) fn millis(time: Option<&DateTime>) -> i64 {
    let nanos = time.expect("a time").as_nanos();
    i64::try_from((nanos + 500_000).div_euclid(1_000_000)).expect("in range")
}

/// Every change of state takes 100 ms.
pub(crate) fn slow() -> ModelOptions {
    ModelOptions {
        create_ms: 100,
        update_ms: 100,
        delete_ms: 100,
        ..ModelOptions::default()
    }
}
