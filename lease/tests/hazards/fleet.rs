//! What workers do beside each other, and with rows that others left behind.

use std::{collections::BTreeMap, time::Duration};

use checkpoint::{HashRange, Position};
use lease::{
    Lease, LeaseKey, ShardId, StreamId, WorkerId, WorkerRow,
    assign::{self, Move, Role, Row, Worker},
    leases::{Event, Fatal},
};

use crate::{driver::World, rows::shard};

pub(crate) const FAILOVER: Duration = Duration::from_secs(10);

pub(crate) fn open(count: usize) -> Vec<lease::Shard> {
    (0..count)
        .map(|n| shard(&format!("shard-{n}"), &[], false))
        .collect()
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A Java worker's row, as it is written now.
fn java(world: &World, id: &str, lut: i64) {
    world.table.put_worker_now(&WorkerRow {
        id: id.into(),
        updated: lut,
        every: None,
        leaving: false,
    });
}

#[test]
fn the_owner_of_an_expired_lease_gets_nothing_whatever_its_own_row_says() {
    let mut world = World::new(open(4));
    for n in 0..4 {
        let mut lease = Lease::new(
            None,
            ShardId::from(format!("shard-{n}")),
            Position::TrimHorizon,
        );
        lease.owner = Some("dead".into());
        world.table.put(lease);
    }
    // It counts as alive for a minute by this row alone.
    java(&world, "dead", 0);
    world.join("living");
    world.run_with(seconds(40), |world| {
        for lease in world.table.view().leases {
            let given = lease.owner == Some("dead".into()) && lease.counter > 0;
            let handed = lease.checkpoint_owner == Some("living".into());
            assert!(!given && !handed, "given to the dead: {lease:?}");
        }
    });
    for n in 0..4 {
        assert_eq!(
            world.owner(&format!("shard-{n}")).as_deref(),
            Some("living")
        );
    }
}

#[test]
fn a_worker_is_alive_as_long_as_its_row_moves_whatever_time_the_row_tells() {
    for clock in [-4_000_000_000, 0, 4_000_000_000] {
        let mut world = World::new(open(4));
        world.join("living");
        world.run(seconds(2));
        let mut steps = 0;
        world.run_with(seconds(8), |world| {
            steps += 1;
            if steps % 100 == 0 {
                java(world, "java", clock + steps);
            }
        });
        let given = |lease: &&Lease| lease.owner == Some(WorkerId::from("java"));
        let rows = world.table.view().leases;
        assert_eq!(rows.iter().filter(given).count(), 2, "clock {clock}");
    }
}

#[test]
fn equal_workers_get_equal_shares_at_once() {
    let leases: Vec<Lease> = (0..30)
        .map(|n| {
            Lease::new(
                None,
                ShardId::from(format!("shard-{n:02}")),
                Position::TrimHorizon,
            )
        })
        .collect();
    let row = |lease| Row {
        lease,
        unread: Some(Duration::ZERO),
        going_to: None,
        startable: true,
        held: false,
        busy: false,
    };
    let me = WorkerId::from("b");
    let scene = assign::Scene {
        me: &me,
        role: Role::Leader,
        rows: leases.iter().map(row).collect(),
        workers: ["a", "b", "c"]
            .map(|id| (id.into(), Worker { quick: true }))
            .into(),
        max_leases: usize::MAX,
        entitled: &BTreeMap::new(),
        deputy_patience: FAILOVER,
    };
    let mut shares: BTreeMap<WorkerId, usize> = BTreeMap::new();
    for step in assign::plan(&scene) {
        match step {
            Move::Take(_) => *shares.entry(me.clone()).or_default() += 1,
            Move::Assign(_, to) => *shares.entry(to).or_default() += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shares.into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn finished_and_waiting_leases_count_for_nobody() {
    let owned = |id: &str, owner: &str, checkpoint| {
        let mut lease = Lease::new(None, id.into(), checkpoint);
        lease.owner = Some(owner.into());
        lease
    };
    // "a" has two finished leases, two that wait for a parent, and one to read; "b" has two to read.
    let at = || Position::at(1.into(), 0);
    let leases = [
        (owned("s0", "a", Position::ShardEnd), true),
        (owned("s1", "a", Position::ShardEnd), true),
        (owned("s2", "a", Position::TrimHorizon), false),
        (owned("s3", "a", Position::TrimHorizon), false),
        (owned("s4", "a", at()), true),
        (owned("s5", "b", at()), true),
        (owned("s6", "b", at()), true),
    ];
    let rows = leases.iter().map(|(lease, startable)| Row {
        lease,
        unread: None,
        going_to: None,
        startable: *startable,
        held: false,
        busy: false,
    });
    let me = WorkerId::from("c");
    let scene = assign::Scene {
        me: &me,
        role: Role::Leader,
        rows: rows.collect(),
        workers: ["a", "b"]
            .map(|id| (id.into(), Worker { quick: false }))
            .into(),
        max_leases: usize::MAX,
        entitled: &BTreeMap::new(),
        deputy_patience: FAILOVER,
    };
    assert_eq!(assign::plan(&scene), [], "one and two: nothing to even out");
}

#[test]
fn a_finished_lease_is_neither_taken_nor_renewed() {
    let mut world = World::new(vec![
        shard("parent", &[], true),
        shard("child", &["parent"], false),
    ]);
    let mut parent = Lease::new(None, "parent".into(), Position::ShardEnd);
    parent.owner = Some("gone".into());
    world.table.put(parent.clone());
    world.join("living");
    world.run(seconds(60));
    assert_eq!(world.table.row(&parent.key), Some(parent));
    assert_eq!(world.owner("child").as_deref(), Some("living"));
}

#[test]
fn a_row_that_cannot_be_read_is_left_alone_and_the_others_are_read() {
    let mut world = World::new(open(3));
    world.unreadable.insert("shard-0".into());
    world.table.put(Lease::new(
        None,
        "shard-1".into(),
        Position::at(1.into(), 0),
    ));
    world.join("one");
    world.run(seconds(60));
    assert_eq!(world.collisions, 0, "it is there, and is not made");
    assert_eq!(world.owner("shard-1").as_deref(), Some("one"));
    assert_eq!(world.owner("shard-2").as_deref(), Some("one"));
}

#[test]
fn a_stream_that_has_only_rows_that_cannot_be_read_is_not_taken_for_new() {
    let mut world = World::new(open(2));
    world.unreadable.insert("shard-0".into());
    world.join("one");
    world.run(seconds(60));
    assert_eq!((world.owner("shard-1"), world.collisions), (None, 0));
    // Once an operator has removed the row, the stream is new.
    world.unreadable.clear();
    world.run(seconds(60));
    assert_eq!(world.machines[0].running.len(), 2);
}

#[test]
fn a_child_whose_row_cannot_be_read_does_not_keep_its_parent_from_ending() {
    let child = shard("child", &["shard-0"], false);
    let mut world = World::new(open(1));
    let one = world.join("one");
    world.run(seconds(5));
    let key = LeaseKey::from("shard-0");
    let tenure = world.machines[one].running.remove(&key).expect("it reads");
    world.unreadable.insert("child".into());
    let children = vec![child];
    world.hear(
        one,
        Event::ShardEnded {
            key: key.clone(),
            tenure,
            children,
        },
    );
    world.run(seconds(10));
    let row = world.table.row(&key).expect("it stays");
    assert!(row.ended(), "{row:?}");
    assert_eq!(world.collisions, 1);
}

#[test]
fn of_two_processes_with_one_id_the_first_ends_when_it_sees_the_other() {
    let mut world = World::new(open(2));
    let first = world.join("same");
    world.run(seconds(5));
    let second = world.join("same");
    world.run(FAILOVER);
    assert_eq!(
        world.machines[first].fatal,
        Some(Fatal::DuplicateWorker("same".into()))
    );
    assert_eq!(world.machines[second].fatal, None);
    assert_eq!(world.machines[second].running.len(), 2);
}

#[test]
fn rows_of_streams_that_are_not_configured_are_left_alone() {
    let mut world = World::new(open(1));
    let other = Some(StreamId::from("1:other:2"));
    let mut free = Lease::new(other.clone(), "shard-0".into(), Position::TrimHorizon);
    let mut dead = Lease::new(other.clone(), "shard-1".into(), Position::TrimHorizon);
    let mut mine = Lease::new(other, "shard-2".into(), Position::TrimHorizon);
    free.counter = 5;
    dead.owner = Some("dead".into());
    mine.owner = Some("living".into());
    for row in [&free, &dead, &mine] {
        world.table.put(row.clone());
    }
    let number = world.join("living");
    world.run(seconds(90));
    for row in [free, dead, mine] {
        assert_eq!(world.table.row(&row.key), Some(row));
    }
    assert_eq!(world.machines[number].running.len(), 1, "its own stream's");
}

#[test]
fn a_row_without_a_hash_range_is_read_with_the_one_kinesis_lists() {
    let half = HashRange {
        start: checkpoint::HashKey(0),
        end: checkpoint::HashKey(u128::MAX / 2),
    };
    let mut listed = shard("shard-0", &[], false);
    listed.range = half;
    let mut world = World::new(vec![listed]);
    // As a KCL before 2.3 has left it.
    let row = Lease::new(None, "shard-0".into(), Position::at(7.into(), 0));
    assert_eq!(row.range, None);
    world.table.put(row);
    let number = world.join("living");
    world.run(seconds(5));
    let started: Vec<_> = world.machines[number]
        .started
        .iter()
        .map(|lease| lease.range)
        .collect();
    assert_eq!(started, [Some(half)]);
}

#[test]
fn what_a_former_tenure_had_settled_is_not_written_into_a_row_that_was_reset() {
    let mut world = World::new(open(1));
    let number = world.join("living");
    let key = LeaseKey::from("shard-0");
    world.run(seconds(2));
    let tenure = world.machines[number].running[&key];
    let settled = Position::at(500.into(), 0);
    world.machines[number]
        .settled
        .insert((key.clone(), tenure), settled.clone());
    world.run(seconds(10));
    assert_eq!(world.table.row(&key).expect("its row").checkpoint, settled);
    // Its consumer takes its time to end, so the next tenure has none of its own for a while, and is renewed meanwhile.
    world.machines[number].deaf = true;
    world.table.remove(&key);
    world.run(seconds(30));
    let row = world.table.row(&key).expect("made anew");
    assert_eq!(
        row.checkpoint,
        Position::TrimHorizon,
        "the operator's reset holds"
    );
    assert!(row.counter > tenure, "and the next tenure is greater");
}
