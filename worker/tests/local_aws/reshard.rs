//! Resharding: who places records while it is under way, and how a closed shard is read to its end.

use aws_sdk_kinesis::types::{ScalingType, ShardIteratorType, StreamStatus};
use shardkeeper::local::model::ModelOptions;

use crate::world::{HALF, World, code, payloads, shard, slow, start};

/// A stream `s` whose shard 0 is split in halves, 1 and 2, with two records in the parent and one in each child.
/// Also an iterator that was made at the tip of the parent, before the second record.
async fn split_in_halves() -> (World, String) {
    let world = start(slow()).await;
    world.create("s", 1).await;
    world.advance(100);
    world.put("s", "before", 0).await;
    let tip = world.iterator("s", 0, ShardIteratorType::Latest).await;
    world.split("s", 0, HALF).await.expect("begun");
    world.put("s", "while updating", 0).await;
    world.advance(100);
    world.put("s", "after", 0).await;
    world.put("s", "after", HALF).await;
    (world, tip)
}

#[tokio::test]
async fn the_parent_takes_records_until_the_split_is_done() {
    let world = start(slow()).await;
    world.create("s", 1).await;
    world.advance(100);
    world.put("s", "before", 0).await;
    world.split("s", 0, HALF).await.expect("begun");
    assert_eq!(world.status("s").await, StreamStatus::Updating);
    assert_eq!(
        code(world.split("s", 0, HALF).await),
        "ResourceInUseException"
    );
    let (at, last) = world.put("s", "while updating", 0).await;
    assert_eq!(at, shard(0));
    world.advance(100);
    assert_eq!(world.status("s").await, StreamStatus::Active);
    assert_eq!(world.put("s", "after", 0).await.0, shard(1));
    assert_eq!(world.put("s", "after", HALF).await.0, shard(2));

    let described = world.kinesis.describe_stream().stream_name("s").send();
    let described = described.await.expect("described").stream_description;
    let parent = &described.expect("description").shards[0];
    let range = parent.sequence_number_range.clone().expect("range");
    assert!(range.ending_sequence_number.expect("closed") > last);
}

#[tokio::test]
async fn a_split_ends_its_parent_and_names_the_children() {
    let (world, tip) = split_in_halves().await;
    let (all, end) = world.drain("s", 0).await;
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

    let from_tip = world.page(&tip).await;
    assert_eq!(
        (payloads(&from_tip.records), from_tip.next_shard_iterator()),
        (vec!["while updating".to_owned()], None)
    );
    let on_closed = world.iterator("s", 0, ShardIteratorType::Latest).await;
    let on_closed = world.page(&on_closed).await;
    assert_eq!(
        (
            on_closed.records.len(),
            on_closed.next_shard_iterator(),
            on_closed.child_shards().len()
        ),
        (0, None, 2)
    );
}

#[tokio::test]
async fn a_merge_ends_both_parents() {
    let (world, _) = split_in_halves().await;
    world.advance(1000);
    world.merge("s", 1, 2).await.expect("begun");
    world.advance(100);
    for parent in [1, 2] {
        let (all, end) = world.drain("s", parent).await;
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
        code(world.merge("s", 1, 3).await),
        "InvalidArgumentException",
        "shard 1 is closed"
    );
}

#[tokio::test]
async fn the_shard_count_is_updated_by_splits_and_merges() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    let update = |count| {
        world
            .kinesis
            .update_shard_count()
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
    assert_eq!(parents, [0, 0, 1, 1].map(|i| Some(shard(i))));
    update(2).await.expect("updated");
    let family = world.family("s").await;
    assert_eq!(family.values().filter(|(_, _, open)| *open).count(), 2);
    assert_eq!(family[&shard(6)], (Some(shard(2)), Some(shard(3)), true));
    assert_eq!(family[&shard(7)], (Some(shard(4)), Some(shard(5)), true));
    assert_eq!(code(update(5).await), "InvalidArgumentException");
}

#[tokio::test]
async fn shards_that_do_not_touch_are_not_merged() {
    let world = start(ModelOptions::default()).await;
    world.create("t", 3).await;
    assert_eq!(
        code(world.merge("t", 0, 2).await),
        "InvalidArgumentException"
    );
}
