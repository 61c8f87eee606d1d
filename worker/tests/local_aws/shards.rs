//! Shards: listing, resharding, and how a closed shard is read to its end.

use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::{
    ScalingType, ShardFilter, ShardFilterType, ShardIteratorType, StreamStatus,
};
use shardkeeper::local::model::ModelOptions;

use crate::world::{T0, code, payloads, shard, slow, start, status};

const HALF: u128 = 1 << 127;

#[tokio::test]
async fn shards_are_listed_by_page_and_by_filter() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    world.advance(1000);
    k.split_shard()
        .stream_name("s")
        .shard_to_split(shard(0))
        .new_starting_hash_key("5")
        .send()
        .await
        .expect("split");
    world.advance(1000);
    k.merge_shards()
        .stream_name("s")
        .shard_to_merge(shard(3))
        .adjacent_shard_to_merge(shard(1))
        .send()
        .await
        .expect("merged");
    world.advance(1000);

    let mut seen = Vec::new();
    let mut page = k
        .list_shards()
        .stream_name("s")
        .max_results(2)
        .send()
        .await
        .expect("listed");
    loop {
        seen.extend(page.shards().iter().map(|s| s.shard_id.clone()));
        let Some(token) = page.next_token else { break };
        page = k
            .list_shards()
            .next_token(token)
            .max_results(2)
            .send()
            .await
            .expect("listed");
    }
    assert_eq!(seen, (0..5).map(shard).collect::<Vec<_>>());
    let token = k
        .list_shards()
        .stream_name("s")
        .max_results(2)
        .send()
        .await
        .expect("listed")
        .next_token
        .expect("more");
    assert_eq!(
        code(
            k.list_shards()
                .stream_name("s")
                .next_token(&token)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
    world.advance(300_001);
    assert_eq!(
        code(k.list_shards().next_token(&token).send().await),
        "ExpiredNextTokenException"
    );
    let after = k
        .list_shards()
        .stream_name("s")
        .exclusive_start_shard_id(shard(2))
        .send()
        .await
        .expect("listed");
    assert_eq!(after.shards().len(), 2);

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
        let listed = k
            .list_shards()
            .stream_name("s")
            .shard_filter(filter.clone())
            .send()
            .await
            .expect("listed");
        let ids: Vec<_> = listed.shards().iter().map(|s| s.shard_id.clone()).collect();
        assert_eq!(
            ids,
            expect.into_iter().map(shard).collect::<Vec<_>>(),
            "{filter:?}"
        );
    }
    let no_time = filter(ShardFilterType::AtTimestamp)
        .build()
        .expect("complete");
    assert_eq!(
        code(
            k.list_shards()
                .stream_name("s")
                .shard_filter(no_time)
                .send()
                .await
        ),
        "InvalidArgumentException"
    );
}

#[tokio::test]
async fn a_split_ends_its_parent_and_a_merge_both() {
    let world = start(slow()).await;
    let k = &world.kinesis;
    world.create("s", 1).await;
    world.advance(100);
    world.put("s", "before", 0).await;
    let latest = world
        .iterator("s", &shard(0), ShardIteratorType::Latest)
        .await;
    let split = || {
        k.split_shard()
            .stream_name("s")
            .shard_to_split(shard(0))
            .new_starting_hash_key(HALF.to_string())
            .send()
    };
    split().await.expect("begun");
    assert_eq!(status(&world, "s").await, StreamStatus::Updating);
    assert_eq!(code(split().await), "ResourceInUseException");
    let (at, last) = world.put("s", "while updating", 0).await;
    assert_eq!(at, shard(0));
    world.advance(100);
    assert_eq!(status(&world, "s").await, StreamStatus::Active);
    assert_eq!(world.put("s", "after", 0).await.0, shard(1));
    assert_eq!(world.put("s", "after", HALF).await.0, shard(2));

    let described = k
        .describe_stream()
        .stream_name("s")
        .send()
        .await
        .expect("described")
        .stream_description
        .expect("description");
    let range = described.shards[0]
        .sequence_number_range
        .clone()
        .expect("range");
    assert!(range.ending_sequence_number.expect("closed") > last);
    let (all, end) = world.drain("s", &shard(0)).await;
    assert_eq!(
        (all, end.next_shard_iterator()),
        (vec!["before".to_owned(), "while updating".to_owned()], None)
    );
    let children: Vec<_> = end
        .child_shards()
        .iter()
        .map(|c| (c.shard_id.clone(), c.parent_shards.clone()))
        .collect();
    assert_eq!(
        children,
        [(shard(1), vec![shard(0)]), (shard(2), vec![shard(0)])]
    );
    let range = end.child_shards()[1].hash_key_range.clone().expect("range");
    assert_eq!(
        (range.starting_hash_key, range.ending_hash_key),
        (HALF.to_string(), u128::MAX.to_string())
    );
    let from_before = world.page(&latest).await;
    assert_eq!(
        (
            payloads(&from_before.records),
            from_before.next_shard_iterator()
        ),
        (vec!["while updating".to_owned()], None)
    );
    let on_closed = world
        .iterator("s", &shard(0), ShardIteratorType::Latest)
        .await;
    let on_closed = world.page(&on_closed).await;
    assert_eq!(
        (
            on_closed.records.len(),
            on_closed.next_shard_iterator(),
            on_closed.child_shards().len()
        ),
        (0, None, 2)
    );

    world.advance(1000);
    let merge = |a: u32, b: u32| {
        k.merge_shards()
            .stream_name("s")
            .shard_to_merge(shard(a))
            .adjacent_shard_to_merge(shard(b))
            .send()
    };
    merge(1, 2).await.expect("begun");
    world.advance(100);
    for parent in [1, 2] {
        let (all, end) = world.drain("s", &shard(parent)).await;
        assert_eq!(
            (all, end.next_shard_iterator()),
            (vec!["after".to_owned()], None)
        );
        assert_eq!(end.child_shards().len(), 1);
        assert_eq!(end.child_shards()[0].parent_shards, [shard(1), shard(2)]);
    }
    assert_eq!(
        world.family("s").await[&shard(3)],
        (Some(shard(1)), Some(shard(2)), true)
    );
    assert_eq!(
        code(merge(1, 3).await),
        "InvalidArgumentException",
        "shard 1 is closed"
    );
}

#[tokio::test]
async fn the_shard_count_is_updated_by_splits_and_merges() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    let update = |count| {
        k.update_shard_count()
            .stream_name("s")
            .target_shard_count(count)
            .scaling_type(ScalingType::UniformScaling)
            .send()
    };
    let up = update(4).await.expect("updated");
    assert_eq!(
        (up.current_shard_count, up.target_shard_count),
        (Some(2), Some(4))
    );
    let family = world.family("s").await;
    let parents: Vec<_> = (2..6).map(|i| family[&shard(i)].0.clone()).collect();
    assert_eq!(
        parents,
        [
            Some(shard(0)),
            Some(shard(0)),
            Some(shard(1)),
            Some(shard(1))
        ]
    );
    update(2).await.expect("updated");
    let family = world.family("s").await;
    assert_eq!(family.values().filter(|(_, _, open)| *open).count(), 2);
    assert_eq!(family[&shard(6)], (Some(shard(2)), Some(shard(3)), true));
    assert_eq!(family[&shard(7)], (Some(shard(4)), Some(shard(5)), true));
    assert_eq!(code(update(5).await), "InvalidArgumentException");
    world.create("t", 3).await;
    let strangers = k
        .merge_shards()
        .stream_name("t")
        .shard_to_merge(shard(0))
        .adjacent_shard_to_merge(shard(2));
    assert_eq!(code(strangers.send().await), "InvalidArgumentException");
}
