//! A worker that comes to lead knows the shards as they were when it asked last.

use checkpoint::Position;
use lease::{LeaseKey, leases::Event};

use crate::{
    driver::World,
    fleet::{open, seconds},
    rows::shard,
};

/// Two workers; shard-0 is split and read to its end, both children are read, and its row is removed.
fn reshard(world: &mut World) -> (usize, usize) {
    let leader = world.join("leader");
    // The leader asks for the shards every half minute: it will have asked after the split, and the other before it.
    world.run(seconds(20));
    let other = world.join("other");
    world.run(seconds(1));
    let children = [("shard-7", "shard-0"), ("shard-8", "shard-0")]
        .map(|(child, parent)| shard(child, &[parent], false))
        .to_vec();
    world.shards[0].closed = true;
    world.shards.extend(children.clone());
    let key = LeaseKey::from("shard-0");
    let tenure = world.machines[leader].running[&key];
    world.hear(
        leader,
        Event::ShardEnded {
            key: key.clone(),
            tenure,
            children,
        },
    );
    world.run_with(seconds(11), |world| {
        for machine in &mut world.machines {
            for (key, tenure) in &machine.running {
                let settled = Position::at(7.into(), 0);
                machine.settled.insert((key.clone(), *tenure), settled);
            }
        }
    });
    assert_eq!(world.table.row(&key), None, "its children are read");
    (leader, other)
}

#[test]
fn a_removed_row_is_not_taken_for_a_hole_by_a_new_leader() {
    let mut world = World::new(open(1));
    let (leader, other) = reshard(&mut world);
    world.hear(leader, Event::Leave);
    world.run_with(seconds(60), |world| {
        let row = world.table.row(&LeaseKey::from("shard-0"));
        assert_eq!(row, None, "it would be read once more");
    });
    assert_eq!(world.machines[other].running.len(), 2, "the children");
}

#[test]
fn a_hole_is_filled_by_a_new_leader_that_knows_the_shards_of_now() {
    let mut world = World::new(open(1));
    let (leader, other) = reshard(&mut world);
    world.hear(leader, Event::Leave);
    world.table.remove(&LeaseKey::from("shard-7"));
    world.run(seconds(5));
    let row = world.table.row(&LeaseKey::from("shard-7")).expect("made");
    assert_eq!(row.checkpoint, Position::TrimHorizon);
    assert_eq!(world.machines[other].running.len(), 2, "the children");
}
