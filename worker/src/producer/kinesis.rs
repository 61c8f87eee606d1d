//! Wire: PutRecords and ListShards, for the producer. Turns answers and errors into ours; decides nothing.

use aws_sdk_kinesis::{
    Client,
    primitives::Blob,
    types::{PutRecordsRequestEntry, PutRecordsResultEntry},
};
use lease::{Shard, ShardId};

use super::lanes::{Answer, Call, Outcome};
use crate::source::{
    Source as _, SourceError,
    kinesis::{KinesisSource, failed},
};

/// The stream that is written.
#[derive(Clone, Debug)]
pub(super) struct Target {
    client: Client,
    name: String,
    arn: Option<String>,
}

impl Target {
    pub(super) fn new(client: Client, name: &str, arn: Option<String>) -> Self {
        Target {
            client,
            name: name.to_owned(),
            arn,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        KinesisSource::new(self.client.clone(), self.name.clone(), self.arn.clone())
            .list_shards()
            .await
    }

    /// One attempt.
    pub(super) async fn put(&self, call: &Call) -> Answer {
        let entries = call.entries.iter().map(|entry| {
            PutRecordsRequestEntry::builder()
                .partition_key(&entry.partition_key)
                .set_explicit_hash_key(entry.explicit_hash_key.map(|key| key.to_string()))
                .data(Blob::new(entry.data.to_vec()))
                .build()
        });
        let entries = match entries.collect::<Result<Vec<_>, _>>() {
            Ok(entries) => entries,
            Err(error) => return Answer::Refused(SourceError::Invalid(error.to_string())),
        };
        let request = self
            .client
            .put_records()
            .stream_name(&self.name)
            .set_stream_arn(self.arn.clone())
            .set_records(Some(entries));
        match request.send().await {
            Ok(answer) if answer.records.len() == call.entries.len() => {
                Answer::Results(answer.records.into_iter().map(outcome).collect())
            }
            Ok(answer) => Answer::Refused(SourceError::Failed(format!(
                "PutRecords answered {} results to {} records",
                answer.records.len(),
                call.entries.len()
            ))),
            Err(error) => Answer::Refused(failed(error)),
        }
    }
}

fn outcome(result: PutRecordsResultEntry) -> Outcome {
    match (result.shard_id, result.error_code) {
        (Some(shard), None) => Outcome::Placed(ShardId::from(shard)),
        (_, code) => Outcome::Refused(format!(
            "{}: {}",
            code.as_deref().unwrap_or("no shard and no error code"),
            result.error_message.as_deref().unwrap_or("no message")
        )),
    }
}
