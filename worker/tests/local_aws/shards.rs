//! Listing shards: by page, and by each filter.

use aws_sdk_kinesis::operation::list_shards::ListShardsOutput;
use aws_sdk_kinesis::operation::list_shards::builders::ListShardsFluentBuilder;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::{ShardFilter, ShardFilterType};
use shardkeeper::local::model::ModelOptions;

use crate::world::{T0, World, code, ids, shard, start};

/// Two shards in `s`; a second later 0 is split into 2 and 3, and a second after that 3 and 1 are merged into 4.
async fn resharded() -> World {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    world.advance(1000);
    world.split("s", 0, 5).await.expect("split");
    world.advance(1000);
    world.merge("s", 3, 1).await.expect("merged");
    world.advance(1000);
    world
}

async fn listed(request: ListShardsFluentBuilder) -> ListShardsOutput {
    request.send().await.expect("listed")
}

#[tokio::test]
async fn shards_are_listed_by_page() {
    let world = resharded().await;
    let list = || world.kinesis.list_shards();
    let mut seen = Vec::new();
    let mut page = listed(list().stream_name("s").max_results(2)).await;
    loop {
        seen.extend(ids(page.shards()));
        let Some(token) = page.next_token else { break };
        page = listed(list().next_token(token).max_results(2)).await;
    }
    assert_eq!(seen, (0..5).map(shard).collect::<Vec<_>>());

    let after = list().stream_name("s").exclusive_start_shard_id(shard(2));
    assert_eq!(listed(after).await.shards().len(), 2);
}

#[tokio::test]
async fn a_token_names_the_stream_and_expires() {
    let world = resharded().await;
    let list = || world.kinesis.list_shards();
    let page = listed(list().stream_name("s").max_results(2)).await;
    let token = page.next_token.expect("more");
    assert_eq!(
        code(list().stream_name("s").next_token(&token).send().await),
        "InvalidArgumentException"
    );
    world.advance(300_001);
    assert_eq!(
        code(list().next_token(&token).send().await),
        "ExpiredNextTokenException"
    );
}

#[tokio::test]
async fn shards_are_listed_by_filter() {
    let world = resharded().await;
    let list = || world.kinesis.list_shards().stream_name("s");
    let filter = |kind| ShardFilter::builder().r#type(kind);
    let at = |millis| DateTime::from_millis(T0 + millis);
    let cases = [
        (filter(ShardFilterType::AtLatest), vec![2, 4]),
        (filter(ShardFilterType::AtTrimHorizon), vec![0, 1]),
        (
            filter(ShardFilterType::FromTrimHorizon),
            vec![0, 1, 2, 3, 4],
        ),
        (
            filter(ShardFilterType::AfterShardId).shard_id(shard(2)),
            vec![3, 4],
        ),
        (
            filter(ShardFilterType::AtTimestamp).timestamp(at(500)),
            vec![0, 1],
        ),
        (
            filter(ShardFilterType::AtTimestamp).timestamp(at(1500)),
            vec![1, 2, 3],
        ),
        (
            filter(ShardFilterType::FromTimestamp).timestamp(at(1500)),
            vec![1, 2, 3, 4],
        ),
        (
            filter(ShardFilterType::FromTimestamp).timestamp(at(2500)),
            vec![2, 4],
        ),
    ];
    for (filter, expect) in cases {
        let filter = filter.build().expect("complete");
        let page = listed(list().shard_filter(filter.clone())).await;
        let expect: Vec<_> = expect.into_iter().map(shard).collect();
        assert_eq!(ids(page.shards()), expect, "{filter:?}");
    }
    let no_time = filter(ShardFilterType::AtTimestamp).build();
    let no_time = list().shard_filter(no_time.expect("complete"));
    assert_eq!(code(no_time.send().await), "InvalidArgumentException");
}
