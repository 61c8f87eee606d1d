//! The SDK alone, in JSON: what ours is measured beside.

use aws_sdk_kinesis::{Client, types::ShardIteratorType};

/// A client of the server.
pub fn client(url: &str) -> Client {
    Client::from_conf(super::client_config(url).build())
}

/// The ids of a stream's shards.
pub async fn shards(client: &Client, stream: &str) -> Vec<String> {
    let listed = client.list_shards().stream_name(stream).send().await;
    let shards = listed.expect("listed").shards.expect("shards");
    shards.into_iter().map(|shard| shard.shard_id).collect()
}

/// An iterator at the trim horizon of a shard.
pub async fn iterator(client: &Client, stream: &str, shard: String) -> Option<String> {
    let iterator = client
        .get_shard_iterator()
        .stream_name(stream)
        .shard_id(shard)
        .shard_iterator_type(ShardIteratorType::TrimHorizon);
    iterator.send().await.expect("an iterator").shard_iterator
}
