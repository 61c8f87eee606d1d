//! A stream of the in-memory Kinesis as a network shows it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use checkpoint::{ByteStr, HashKey, HashRange, KinesisRecord, Millis, SequenceNumber};
use lease::{Shard, ShardId};
use shardkeeper::{
    limits,
    local::model::{self, ChildShard, Code, ShardFilter, ShardInfo, StartingPosition},
    source::{From, Page, ShardIterator, Source, SourceError},
};

use super::stage::{STREAM, Scene};

/// The stream as every process reaches it.
#[derive(Debug)]
pub struct RemoteStream(pub Arc<Scene>);

impl RemoteStream {
    /// Goes there and back; `Err`: nothing was reached.
    async fn travel(&self) -> Result<(), SourceError> {
        let scene = &self.0;
        let odds = scene.stream_odds();
        let wait = if scene.strikes("stream_delay", odds.delay) {
            scene.dice.between(Duration::ZERO, Duration::from_secs(2))
        } else {
            scene
                .dice
                .between(Duration::from_millis(1), Duration::from_millis(8))
        };
        tokio::time::sleep(wait).await;
        if scene.strikes("stream_hang", odds.hang) {
            // The client of the real stream gives up by itself.
            tokio::time::sleep(limits::SDK_CALL_TIMEOUT).await;
            return Err(SourceError::Failed("simulated time-out".into()));
        }
        if scene.stream_away() || scene.strikes("stream_failed", odds.failed) {
            return Err(SourceError::Failed("simulated".into()));
        }
        if scene.strikes("stream_throttle", odds.throttle) {
            return Err(SourceError::Throttled("simulated".into()));
        }
        Ok(())
    }

    async fn list(&self, filter: ShardFilter) -> Result<Vec<Shard>, SourceError> {
        self.travel().await?;
        let scene = &self.0;
        scene.note_shards();
        let stale = scene.strikes("stream_stale_list", scene.stream_odds().stale);
        let lag = if stale {
            Duration::from_secs(1)
        } else {
            Duration::ZERO
        };
        let page = scene
            .kinesis
            .lock()
            .list_shards(STREAM, &filter, None, 10_000, scene.epoch_millis())
            .map_err(failed)?;
        let known = page
            .shards
            .iter()
            .filter(|shard| scene.known_for(&shard.shard_id, lag));
        Ok(known.map(shard).collect())
    }
}

impl Source for RemoteStream {
    async fn list_shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.list(ShardFilter::FromTrimHorizon).await
    }

    async fn open_at(&self, millis: i64) -> Result<BTreeSet<ShardId>, SourceError> {
        let shards = self.list(ShardFilter::AtTimestamp(millis)).await?;
        Ok(shards.into_iter().map(|shard| shard.id).collect())
    }

    async fn iterator(&self, shard: &ShardId, from: &From) -> Result<ShardIterator, SourceError> {
        self.travel().await?;
        let scene = &self.0;
        let odds = scene.stream_odds();
        if scene.strikes("stream_invalid", odds.invalid) {
            return Err(SourceError::Invalid("simulated".into()));
        }
        if scene.strikes("stream_not_found", odds.not_found) {
            return Err(SourceError::NotFound("simulated".into()));
        }
        let position = match from {
            From::TrimHorizon => StartingPosition::TrimHorizon,
            From::AtTimestamp(millis) => StartingPosition::AtTimestamp(*millis),
            From::At(number) => StartingPosition::AtSequenceNumber(number.as_str().to_owned()),
            From::After(number) => {
                StartingPosition::AfterSequenceNumber(number.as_str().to_owned())
            }
        };
        let now = scene.epoch_millis();
        let mut kinesis = scene.kinesis.lock();
        let iterator = kinesis.get_shard_iterator(STREAM, shard.as_str(), &position, now);
        let iterator = iterator.map_err(failed)?;
        Ok(ShardIterator(Bytes::from(iterator.to_string())))
    }

    async fn records(&self, iterator: &ShardIterator, limit: u32) -> Result<Page, SourceError> {
        self.travel().await?;
        let scene = &self.0;
        let odds = scene.stream_odds();
        if scene.strikes("stream_expired_iterator", odds.expired) {
            return Err(SourceError::ExpiredIterator);
        }
        if scene.strikes("stream_not_found", odds.not_found) {
            return Err(SourceError::NotFound("simulated".into()));
        }
        let text = std::str::from_utf8(&iterator.0).expect("an iterator of this stream is text");
        let iterator: model::ShardIterator = text.parse().map_err(failed)?;
        let now = scene.epoch_millis();
        let limit = usize::try_from(limit).expect("a page fits in memory");
        let answer = scene
            .kinesis
            .lock()
            .get_records(&iterator, Some(limit), now);
        let answer = answer.map_err(failed)?;
        if answer.next.is_none() {
            scene.note_shards();
        }
        let mut children: Vec<Shard> = answer.child_shards.iter().map(child).collect();
        if !children.is_empty() && scene.strikes("stream_childless_end", odds.childless) {
            children.clear();
        }
        Ok(Page {
            records: answer.records.iter().map(record).collect(),
            next: answer
                .next
                .map(|next| ShardIterator(Bytes::from(next.to_string()))),
            behind: Duration::from_millis(u64::try_from(answer.millis_behind_latest).unwrap_or(0)),
            children,
        })
    }
}

fn record(record: &model::Record) -> KinesisRecord {
    KinesisRecord {
        data: record.data(),
        partition_key: ByteStr::from(record.partition_key()),
        sequence: number(record.sequence_number()),
        arrival: Some(Millis(record.arrival_ms())),
        encryption: None,
    }
}

/// A sequence number in the worker's own type.
pub(crate) fn number(sequence: model::Sequence) -> SequenceNumber {
    let digits = sequence.digits().to_vec();
    SequenceNumber::from_bytes(Bytes::from(digits)).expect("Kinesis numbers by digits")
}

fn shard(info: &ShardInfo) -> Shard {
    Shard {
        id: ShardId::from(info.shard_id.as_str()),
        parents: parents(info),
        range: range(info.starting_hash_key, info.ending_hash_key),
        starting_sequence: Some(number(info.starting_sequence)),
        closed: info.ending_sequence.is_some(),
    }
}

/// The parents of a shard.
pub(crate) fn parents(info: &ShardInfo) -> BTreeSet<ShardId> {
    let parents = [&info.parent, &info.adjacent_parent];
    parents
        .into_iter()
        .flatten()
        .map(|id| ShardId::from(id.as_str()))
        .collect()
}

fn child(child: &ChildShard) -> Shard {
    Shard {
        id: ShardId::from(child.shard_id.as_str()),
        parents: child
            .parents
            .iter()
            .map(|id| ShardId::from(id.as_str()))
            .collect(),
        range: range(child.starting_hash_key, child.ending_hash_key),
        starting_sequence: None,
        closed: false,
    }
}

fn range(start: u128, end: u128) -> HashRange {
    HashRange {
        start: HashKey(start),
        end: HashKey(end),
    }
}

fn failed(error: model::Error) -> SourceError {
    let text = error.to_string();
    match error.code {
        Code::ProvisionedThroughputExceeded | Code::LimitExceeded => SourceError::Throttled(text),
        Code::ExpiredIterator => SourceError::ExpiredIterator,
        Code::InvalidArgument | Code::Validation => SourceError::Invalid(text),
        Code::ResourceNotFound => SourceError::NotFound(text),
        _ => SourceError::Failed(text),
    }
}
