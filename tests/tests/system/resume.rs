//! Where reading goes on after a crash.

use std::time::Duration;

use bytes::Bytes;
use checkpoint::{Aggregator, Position, PutRecord};
use rustix::process::Signal;
use shardkeeper::{clock::system_wall, local::model::PutEntry};

use shardkeeper_tests::processes::World;

/// Aggregates of 40 user records, handed over in batches of 7: checkpoints lie inside aggregates nearly always.
const SETS: [&str; 2] = ["delivery.batch.records=7", "checkpoint.every=100ms"];

fn put_aggregate(world: &World, first: u64) {
    let mut aggregator = Aggregator::new(1 << 20);
    for number in first..first + 40 {
        aggregator
            .add(PutRecord {
                partition_key: format!("k{}", number % 5),
                explicit_hash_key: None,
                data: Bytes::from(number.to_string()),
            })
            .expect("there is room");
    }
    let aggregate = aggregator.finish().expect("not empty");
    let entry = PutEntry {
        partition_key: aggregate.partition_key,
        explicit_hash_key: None,
        data: aggregate.data,
    };
    world
        .aws
        .kinesis()
        .lock()
        .put_record("orders", &entry, system_wall())
        .expect("the shard is open");
}

#[test]
fn after_a_kill_the_next_user_record_comes_first_and_nothing_stored_comes_again() {
    let mut world = crate::world("resume", 1);
    for round in 0..400_u64 {
        put_aggregate(&world, round * 40);
    }
    let mut inside = 0;
    for _ in 0..4 {
        let before = world.deliveries.len();
        world.start("one", &SETS);
        world.until("deliveries", Duration::from_secs(10), |world| {
            // On a fast machine that many come before the first checkpoint is due.
            world.deliveries.len() > before + 300 && world.leases()[0].started()
        });
        world.signal("one", Signal::KILL);
        world.wait("one", Duration::from_secs(5));
        world.watch(Duration::from_millis(50));
        let stored = world.leases()[0].checkpoint.clone();
        let Position::At { sub_sequence, .. } = &stored else {
            panic!("nothing was stored: {stored}");
        };
        inside += usize::from(*sub_sequence != 39);
        let killed = world.deliveries.len();
        let put: Vec<Position> = positions(&world);
        world.start("one", &SETS);
        world.until("more deliveries", Duration::from_secs(10), |world| {
            world.deliveries.len() > killed + 20
        });
        let first = position(&world.deliveries[killed]);
        assert!(first > stored, "{first} comes again, {stored} is stored");
        // The next one after the stored position, in the order of the shard: nothing lies between them.
        let Position::At {
            sequence,
            sub_sequence,
        } = &stored
        else {
            unreachable!()
        };
        let next = if *sub_sequence == 39 {
            None
        } else {
            Some(Position::at(sequence.clone(), sub_sequence + 1))
        };
        match next {
            Some(next) => assert_eq!(first, next),
            None => assert_eq!(first.sub_sequence(), 0),
        }
        assert!(put.contains(&stored));
        world.signal("one", Signal::KILL);
        world.wait("one", Duration::from_secs(5));
    }
    assert!(
        inside > 0,
        "no checkpoint lay inside an aggregate: the test proves nothing"
    );
    world.assert_order();
}

fn position(delivery: &shardkeeper_tests::processes::Delivery) -> Position {
    Position::at(
        delivery.sequence.parse().expect("digits"),
        delivery.sub_sequence,
    )
}

fn positions(world: &World) -> Vec<Position> {
    world.deliveries.iter().map(position).collect()
}
