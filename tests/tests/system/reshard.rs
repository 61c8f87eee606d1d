//! Splits and merges under load.

use std::time::{Duration, Instant};

use shardkeeper::{clock::system_wall, local::model::ShardFilter};

use shardkeeper_tests::processes::Kind;

use crate::World;

#[test]
fn splits_and_merges_under_load_lose_nothing_and_keep_the_order() {
    let mut world = crate::world("reshard", 4);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.start("two", &[]);
    world.balanced(&["one", "two"], 4);
    for _ in 0..2 {
        let at = Instant::now();
        world.split_the_first();
        world.watch(Duration::from_millis(2500));
        merge_the_last(&world);
        world.watch(Duration::from_millis(2500));
        let wait = world.longest_wait(at);
        assert!(
            wait <= Duration::from_millis(2_500),
            "a record of a child waited {wait:?}"
        );
    }
    world.finish(Duration::from_secs(10));
    world.assert_order();
    assert_eq!(world.repeats(), 0);
    children_come_after_their_parents(&world);
}

fn merge_the_last(world: &World) {
    let shards = world.open_shards();
    let (a, b) = (&shards[shards.len() - 2], &shards[shards.len() - 1]);
    world
        .aws
        .kinesis()
        .lock()
        .merge_shards("orders", &a.shard_id, &b.shard_id, system_wall())
        .expect("two adjacent open shards");
}

/// In the order of first sight.
fn children_come_after_their_parents(world: &World) {
    let all = &ShardFilter::FromTrimHorizon;
    let shards = world
        .aws
        .kinesis()
        .lock()
        .list_shards("orders", all, None, 1_000, system_wall())
        .expect("lists")
        .shards;
    for shard in &shards {
        let mut deliveries = world.deliveries.iter();
        let first = deliveries.find(|delivery| delivery.shard == shard.shard_id);
        for parent in shard.parent.iter().chain(&shard.adjacent_parent) {
            let mut deliveries = world.deliveries.iter();
            let last = deliveries.rfind(|delivery| delivery.shard == *parent);
            // Both in one look at two files: the order within it says nothing.
            if let (Some(first), Some(last)) = (first, last) {
                assert!(
                    last.seen <= first.seen,
                    "{} begins before {parent} is through",
                    shard.shard_id
                );
            }
        }
    }
}
