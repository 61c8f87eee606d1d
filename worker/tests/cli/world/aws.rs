//! What is in the embedded Kinesis and DynamoDB, by the real SDKs.

use std::{collections::BTreeMap, time::Duration};

use aws_config::{SdkConfig, retry::RetryConfig};
use aws_sdk_dynamodb::types::AttributeValue;
use checkpoint::{HashRange, KinesisRecord, UserRecord, deaggregate_range};
use shardkeeper::source::{From, Source as _, SourceError, kinesis::KinesisSource};

use super::World;
use crate::sdk;

impl World {
    /// Every Kinesis record of a stream as the SDK reads it, by shard.
    pub(crate) fn kinesis_records(
        &self,
        stream: &str,
    ) -> BTreeMap<String, (HashRange, Vec<KinesisRecord>)> {
        let source = KinesisSource::new(self.kinesis(), stream.to_owned(), None);
        self.runtime.block_on(async {
            let mut shards = BTreeMap::new();
            for shard in source.list_shards().await.expect("shards") {
                let mut records = Vec::new();
                let mut next = source.iterator(&shard.id, &From::TrimHorizon).await.ok();
                while let Some(iterator) = next {
                    let page = loop {
                        match source.records(&iterator, 10_000).await {
                            // A shard gives two megabytes a second, to a test as to anybody.
                            Err(SourceError::Throttled(_)) => {
                                tokio::time::sleep(Duration::from_millis(100)).await;
                            }
                            page => break page.expect("records"),
                        }
                    };
                    next = page.next.filter(|_| !page.records.is_empty());
                    records.extend(page.records);
                }
                shards.insert(shard.id.to_string(), (shard.range, records));
            }
            shards
        })
    }

    /// Every user record of a stream as a consumer gets it, by shard.
    pub(crate) fn user_records(&self, stream: &str) -> BTreeMap<String, Vec<UserRecord>> {
        let unpack = |(id, (range, records)): (String, (HashRange, Vec<KinesisRecord>))| {
            (id, deaggregate_range(records, range.start, range.end))
        };
        self.kinesis_records(stream)
            .into_iter()
            .map(unpack)
            .collect()
    }

    /// Retries: these clients look at what is there, and are no part of what is tested.
    fn sdk(&self, url: &str) -> SdkConfig {
        let config = sdk::config(url).into_builder();
        config.retry_config(RetryConfig::standard()).build()
    }

    pub(crate) fn kinesis(&self) -> aws_sdk_kinesis::Client {
        aws_sdk_kinesis::Client::new(&self.sdk(&self.aws.kinesis_url()))
    }

    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk(&self.aws.dynamodb_url()))
    }

    /// A table whose only key is `key`, a string.
    pub(crate) fn table(&self, name: &str, key: &str) {
        let client = self.dynamodb();
        self.runtime.block_on(sdk::create_table(&client, name, key));
    }

    pub(crate) fn row(
        &self,
        table: &str,
        attributes: impl IntoIterator<Item = (String, AttributeValue)>,
    ) {
        let item = attributes.into_iter().collect();
        let call = self
            .dynamodb()
            .put_item()
            .table_name(table)
            .set_item(Some(item));
        self.runtime.block_on(call.send()).expect("a row");
    }
}
