//! Wire: a Kinesis stream by the AWS SDK. Turns its answers and errors into ours; decides nothing.
//!
//! ```text
//! KinesisSource ─▶ KinesisClient (CBOR or JSON? speech) ─▶ SDK (sign, send) ─▶ CborProtocol ─▶ body ─▶ page: slices
//!               │                                                         └─▶ SDK's JSON ─▶ typed records
//!               └─▶ direct (GetRecords once it is known how, in CBOR) ─────▶ body ─▶ page: slices
//! ```

mod client;
mod codec;
mod direct;
mod error;
mod page;
mod protocol;
mod speech;

use std::{collections::BTreeSet, time::Duration};

use aws_sdk_kinesis::{
    operation::get_records::GetRecordsOutput,
    primitives::DateTime,
    types::{self, ShardFilter, ShardFilterType, ShardIteratorType},
};
use bytes::Bytes;
use checkpoint::{ByteStr, EncryptionType, HashRange, KinesisRecord, Millis, SequenceNumber};
use lease::{Shard, ShardId};

pub use client::{KinesisClient, Protocol};
pub(crate) use error::failed;

use direct::Question;

use crate::source::{From, Page, ShardIterator, Source, SourceError};

/// A stream of Kinesis. Its client must not retry by itself: the polling rule does.
#[derive(Clone, Debug)]
pub struct KinesisSource {
    client: KinesisClient,
    name: String,
    arn: Option<String>,
}

impl KinesisSource {
    /// The stream called `name`; requests carry the ARN as well, where it is known. A bare client of the SDK is used as
    /// it is; a [`KinesisClient`] speaks CBOR where it can.
    pub fn new(client: impl Into<KinesisClient>, name: String, arn: Option<String>) -> Self {
        KinesisSource {
            client: client.into(),
            name,
            arn,
        }
    }

    async fn list(&self, filter: Option<ShardFilter>) -> Result<Vec<types::Shard>, SourceError> {
        let mut shards = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let from = token.take();
            let ask = |client: &aws_sdk_kinesis::Client| match &from {
                // A page token stands for the stream and the filter.
                Some(token) => client.list_shards().next_token(token).send(),
                None => client
                    .list_shards()
                    .stream_name(&self.name)
                    .set_stream_arn(self.arn.clone())
                    .set_shard_filter(filter.clone())
                    .send(),
            };
            let page = self.client.call(ask).await.map_err(failed)?;
            shards.extend(page.shards.ok_or_else(|| nothing("ListShards"))?);
            match page.next_token {
                Some(next) => token = Some(next),
                None => return Ok(shards),
            }
        }
    }
}

impl Source for KinesisSource {
    async fn list_shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.list(None).await?.into_iter().map(shard).collect()
    }

    async fn open_at(&self, millis: i64) -> Result<BTreeSet<ShardId>, SourceError> {
        let filter = ShardFilter::builder()
            .r#type(ShardFilterType::AtTimestamp)
            .timestamp(DateTime::from_millis(millis))
            .build()
            .map_err(|error| SourceError::Failed(error.to_string()))?;
        let shards = self.list(Some(filter)).await?;
        Ok(shards
            .into_iter()
            .map(|shard| ShardId::from(shard.shard_id))
            .collect())
    }

    async fn iterator(&self, shard: &ShardId, from: &From) -> Result<ShardIterator, SourceError> {
        let ask = |client: &aws_sdk_kinesis::Client| {
            let request = client
                .get_shard_iterator()
                .stream_name(&self.name)
                .set_stream_arn(self.arn.clone())
                .shard_id(shard.as_str());
            let request = match from {
                From::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
                From::AtTimestamp(millis) => request
                    .shard_iterator_type(ShardIteratorType::AtTimestamp)
                    .timestamp(DateTime::from_millis(*millis)),
                From::At(sequence) => request
                    .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
                    .starting_sequence_number(sequence.as_str()),
                From::After(sequence) => request
                    .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
                    .starting_sequence_number(sequence.as_str()),
            };
            request.send()
        };
        let answer = self.client.call(ask).await.map_err(failed)?;
        answer
            .shard_iterator
            .map(|iterator| ShardIterator(Bytes::from(iterator)))
            .ok_or_else(|| SourceError::Failed("GetShardIterator answered without one".into()))
    }

    async fn records(&self, iterator: &ShardIterator, limit: u32) -> Result<Page, SourceError> {
        let text = String::from_utf8_lossy(&iterator.0);
        let question = Question {
            iterator: &text,
            stream_arn: self.arn.as_deref(),
            limit,
        };
        if let Some(page) = self.client.directly(question, read).await {
            return page;
        }
        let ask = |client: &aws_sdk_kinesis::Client| {
            let request = client
                .get_records()
                .shard_iterator(text.as_ref())
                .set_stream_arn(self.arn.clone())
                .limit(i32::try_from(limit).unwrap_or(i32::MAX));
            protocol::keeping_body(request.send())
        };
        match self.client.call(ask).await.map_err(failed)? {
            (_, Some(body)) => {
                self.client.adopt();
                read(&body)
            }
            (answer, None) => typed(answer),
        }
    }
}

fn read(body: &Bytes) -> Result<Page, SourceError> {
    page::read(body).map_err(|error| SourceError::Failed(error.to_string()))
}

/// A success that lacks what every answer has. The SDK reads even an empty body as one in which nothing is present, and
/// that must not pass for the end of a shard, nor for a list that is complete.
fn nothing(operation: &str) -> SourceError {
    SourceError::Failed(format!("{operation} answered nothing"))
}

/// An answer that the SDK has read.
fn typed(answer: GetRecordsOutput) -> Result<Page, SourceError> {
    // The SDK does not tell absent records from none; an answer of Kinesis always says how far it is behind.
    if answer.next_shard_iterator.is_none() && answer.millis_behind_latest.is_none() {
        return Err(nothing("GetRecords"));
    }
    let behind = answer.millis_behind_latest.unwrap_or_default();
    Ok(Page {
        records: answer
            .records
            .into_iter()
            .map(record)
            .collect::<Result<_, _>>()?,
        next: answer
            .next_shard_iterator
            .map(|iterator| ShardIterator(Bytes::from(iterator))),
        behind: Duration::from_millis(u64::try_from(behind).unwrap_or(0)),
        children: answer
            .child_shards
            .unwrap_or_default()
            .into_iter()
            .map(child)
            .collect::<Result<_, _>>()?,
    })
}

fn record(record: types::Record) -> Result<KinesisRecord, SourceError> {
    let sequence = Bytes::from(record.sequence_number);
    Ok(KinesisRecord {
        data: record.data.into_bytes(),
        partition_key: ByteStr::from_utf8_lossy(Bytes::from(
            record.partition_key.unwrap_or_default(),
        )),
        sequence: SequenceNumber::from_bytes(sequence)
            .map_err(|error| SourceError::Failed(format!("GetRecords: {error}")))?,
        arrival: record.approximate_arrival_timestamp.and_then(millis),
        encryption: record.encryption_type.and_then(|kind| match kind {
            types::EncryptionType::Kms => Some(EncryptionType::Kms),
            types::EncryptionType::None => Some(EncryptionType::None),
            _ => None,
        }),
    })
}

/// To the nearest millisecond: JSON has seconds with a fraction, which the SDK reads as a floating-point number and so
/// gets up to a microsecond too early.
fn millis(at: DateTime) -> Option<Millis> {
    let millis = (at.as_nanos() + 500_000).div_euclid(1_000_000);
    i64::try_from(millis).ok().map(Millis)
}

fn shard(shard: types::Shard) -> Result<Shard, SourceError> {
    let numbers = shard.sequence_number_range;
    Ok(Shard {
        range: range(&shard.shard_id, shard.hash_key_range.as_ref())?,
        parents: [shard.parent_shard_id, shard.adjacent_parent_shard_id]
            .into_iter()
            .flatten()
            .map(ShardId::from)
            .collect(),
        starting_sequence: numbers
            .as_ref()
            .and_then(|numbers| numbers.starting_sequence_number.parse().ok()),
        closed: numbers.is_some_and(|numbers| numbers.ending_sequence_number.is_some()),
        id: ShardId::from(shard.shard_id),
    })
}

fn child(child: types::ChildShard) -> Result<Shard, SourceError> {
    Ok(Shard {
        range: range(&child.shard_id, child.hash_key_range.as_ref())?,
        parents: child.parent_shards.into_iter().map(ShardId::from).collect(),
        starting_sequence: None,
        closed: false,
        id: ShardId::from(child.shard_id),
    })
}

fn range(shard: &str, range: Option<&types::HashKeyRange>) -> Result<HashRange, SourceError> {
    let range = range.ok_or_else(|| SourceError::Failed(format!("{shard} has no hash range")))?;
    HashRange::parse(&range.starting_hash_key, &range.ending_hash_key)
        .map_err(|error| SourceError::Failed(format!("{shard}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> aws_sdk_kinesis::operation::get_records::builders::GetRecordsOutputBuilder {
        GetRecordsOutput::builder().set_records(Some(Vec::new()))
    }

    #[test]
    fn an_answer_in_which_nothing_is_present_does_not_end_a_shard() {
        let empty = answer().build().expect("it has records");
        assert!(matches!(typed(empty), Err(SourceError::Failed(_))));
        let end = answer().millis_behind_latest(0).build().expect("as above");
        assert!(typed(end).expect("an end").next.is_none());
        let open = answer()
            .next_shard_iterator("next")
            .build()
            .expect("as above");
        assert!(typed(open).expect("a page").next.is_some());
    }
}
