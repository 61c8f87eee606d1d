//! Consumers that end by themselves, hang, or cannot be cut off.

use std::collections::BTreeSet;

use lease::{
    LeaseKey, Write,
    leases::{Event, Halt, Loss},
    renew::Tenure,
};

use crate::{
    driver::World,
    fleet::{FAILOVER, open, seconds},
};

/// The workers `one`, whose number is told, and `two`.
fn two_workers_with_a_shard_each() -> (World, usize) {
    let mut world = World::new(open(2));
    let one = world.join("one");
    world.run(seconds(2));
    world.join("two");
    world.run(seconds(10));
    (world, one)
}

/// One of the rows a worker reads.
fn a_share(world: &World, worker: usize) -> (LeaseKey, Tenure) {
    let running = &world.machines[worker].running;
    let (key, tenure) = running.first_key_value().expect("a share");
    (key.clone(), *tenure)
}

#[test]
fn a_consumer_that_stops_by_itself_or_hangs_gives_its_shard_to_others() {
    for stuck in [false, true] {
        let (mut world, one) = two_workers_with_a_shard_each();
        let (key, tenure) = a_share(&world, one);
        let event = if stuck {
            Event::Stuck {
                key: key.clone(),
                tenure,
            }
        } else {
            world.machines[one].running.remove(&key);
            Event::Stopped {
                key: key.clone(),
                tenure,
            }
        };
        world.hear(one, event);
        world.run(seconds(5));
        assert_eq!(
            world.owner(key.as_str()).as_deref(),
            Some("two"),
            "stuck: {stuck}"
        );
    }
}

#[test]
fn a_consumer_that_cannot_be_cut_off_does_not_keep_its_shard() {
    let (mut world, one) = two_workers_with_a_shard_each();
    let (key, tenure) = a_share(&world, one);
    world.machines[one].deaf = true;
    world.machines[one].halts.clear();
    world.hear(
        one,
        Event::Stuck {
            key: key.clone(),
            tenure,
        },
    );
    world.run(FAILOVER * 3 + seconds(1));
    let machine = &world.machines[one];
    assert_eq!(machine.losses, [Loss::Stuck]);
    assert_eq!(machine.halts, [Halt::Cancel, Halt::Lost]);
    world.run(FAILOVER + seconds(3));
    assert_eq!(world.owner(key.as_str()).as_deref(), Some("two"));
    // Nor does it come back to a process whose former consumer still runs.
    world.run(seconds(60));
    let readers: BTreeSet<_> = world.machines[one].running.keys().collect();
    assert!(readers.contains(&key), "the test's consumer still runs");
    assert_eq!(world.owner(key.as_str()).as_deref(), Some("two"));
}

#[test]
fn a_consumer_that_cannot_be_cut_off_does_not_keep_its_shard_for_an_heir_that_never_answers() {
    let mut world = World::new(open(1));
    let one = world.join("one");
    world.run(seconds(2));
    let key = LeaseKey::from("shard-0");
    let tenure = world.machines[one].running[&key];
    let offer = Write::HandOff {
        key: key.clone(),
        from: "one".into(),
        to: "never-there".into(),
    };
    world.table.write_now(&offer).expect("it is held");
    world.run(seconds(5));
    world.machines[one].deaf = true;
    world.hear(one, Event::Stuck { key, tenure });
    world.run(FAILOVER * 3 + seconds(1));
    assert_eq!(world.machines[one].losses, [Loss::Stuck]);
}
