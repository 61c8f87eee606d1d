//! Generated records, alone and in aggregates.

use std::{collections::BTreeSet, time::Duration};

use shardkeeper::{clock::system_wall, local::model::Kinesis};

use super::{number, numbers, numbers_put, only_shard};
use crate::world::{World, text};

#[test]
fn the_same_seed_makes_the_same_records() {
    let world = World::new();
    let mut streams = Vec::new();
    for (stream, seed) in [("first", "3"), ("second", "3"), ("third", "4")] {
        world.stream(stream, 1);
        let twenty = format!("--generate 20 --size 64 --seed {seed}");
        world.put(stream, &twenty, b"").exits(0);
        let records = only_shard(&world, stream);
        // Calls of several lanes arrive in any order.
        let found: BTreeSet<_> = records
            .iter()
            .map(|record| (record.partition_key.as_str().to_owned(), text(&record.data)))
            .collect();
        assert_eq!(found.len(), 20);
        streams.push(found);
    }
    assert_eq!(streams[0], streams[1]);
    assert_ne!(streams[0], streams[2]);
}

#[test]
fn aggregates_hold_what_belongs_to_their_shard_and_lose_nothing() {
    let world = World::new();
    world.stream("orders", 4);
    let generate =
        "--generate 5000 --size 100 --seed 7 --aggregate=8KiB --linger 1h --key sequence --json";
    let summary = world.put("orders", generate, b"").exits(0).summary();
    assert_eq!(
        (&summary["records"], &summary["misplaced"]),
        (&5_000.into(), &0.into())
    );
    let kinesis_records = summary["kinesis_records"].as_u64().expect("a number");
    assert!(
        (60..120).contains(&kinesis_records),
        "8 KiB hold about 70 of them: {kinesis_records}"
    );

    let raw = world.kinesis_records("orders");
    let count: usize = raw.values().map(|(_, records)| records.len()).sum();
    assert_eq!(count as u64, kinesis_records);
    let sizes = raw
        .values()
        .flat_map(|(_, records)| records)
        .map(|record| record.data.len());
    assert!(sizes.max() <= Some(8 << 10));

    // Unpacked with each shard's range: a record in the wrong shard would be missing here.
    let shards = world.user_records("orders");
    let all: Vec<_> = shards.values().flatten().collect();
    assert_eq!(all.len(), 5_000);
    assert_eq!(numbers_put(&world), numbers(5_000));
    for records in shards.values() {
        assert!(
            records
                .iter()
                .all(|record| record.aggregated && record.data.len() == 100)
        );
        let order: Vec<u64> = records.iter().map(number).collect();
        assert!(order.is_sorted(), "each shard in the order of the input");
    }
    for record in all {
        assert_eq!(record.partition_key, number(record).to_string().as_str());
    }
}

/// The shards of the aggregates' records change while they are put, twice.
#[test]
fn aggregates_survive_a_split_and_a_merge() {
    let world = World::new();
    world.stream("orders", 2);
    let three_seconds =
        "--generate 6000 --size 50 --rate 2000/s --aggregate=16KiB --key sequence --json";
    let put = world.spawn(world.put_command("orders", three_seconds));
    let reshard = |what: &dyn Fn(&mut Kinesis)| {
        std::thread::sleep(Duration::from_millis(900));
        what(&mut world.aws.kinesis().lock());
    };
    reshard(&|kinesis| {
        let middle = (1 << 126) + 1;
        kinesis
            .split_shard("orders", "shardId-000000000000", middle, system_wall())
            .expect("a split");
    });
    reshard(&|kinesis| {
        let (one, other) = ("shardId-000000000003", "shardId-000000000001");
        kinesis
            .merge_shards("orders", one, other, system_wall())
            .expect("a merge");
    });
    let summary = world.ended(put).exits(0).summary();
    assert_eq!(summary["records"], 6_000);
    assert!(
        summary["misplaced"].as_u64() > Some(0),
        "the split met an aggregate: {summary}"
    );
    let shards = world.user_records("orders");
    let children = shards
        .iter()
        .filter(|(id, records)| id.as_str() > "shardId-000000000001" && !records.is_empty());
    assert!(children.count() >= 2, "it went on in the children");
    assert_eq!(numbers_put(&world), numbers(6_000));
}
