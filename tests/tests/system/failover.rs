//! A worker that dies without a word.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use shardkeeper_tests::processes::{AFTER_DEATH, Kind};

/// What the test itself adds: the sink's flush and the look at its file, on a machine that also compiles.
const SLACK: Duration = Duration::from_millis(500);

fn kill(leader: bool) {
    let mut world = crate::world(if leader { "kill-leader" } else { "kill" }, 8);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("the first lead", Duration::from_secs(10), |world| {
        world.leader().as_deref() == Some("one")
    });
    world.start("two", &[]);
    world.balanced(&["one", "two"], 8);
    world.watch(Duration::from_secs(1));
    let death = Instant::now();
    world.signal(if leader { "one" } else { "two" }, Signal::KILL);
    world.watch(AFTER_DEATH + SLACK * 2);
    world.finish(Duration::from_secs(10));
    let wait = world.longest_wait(death);
    assert!(wait <= AFTER_DEATH + SLACK, "a record waited {wait:?}");
    world.assert_order();
}

#[test]
fn the_shards_of_a_killed_worker_are_read_again_within_failover_and_two_seconds() {
    kill(false);
}

#[test]
fn the_shards_of_a_killed_leader_are_read_again_just_as_soon() {
    kill(true);
}

#[test]
fn a_restart_with_the_same_id_reads_on_at_once() {
    let mut world = crate::world("same-id", 4);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 50
    });
    world.signal("one", Signal::KILL);
    world.wait("one", Duration::from_secs(5));
    let restart = Instant::now();
    world.start("one", &[]);
    // Well before the failover time: the rows name this worker, so nobody is waited for.
    world.watch(Duration::from_secs(2));
    world.finish(Duration::from_secs(5));
    let wait = world.longest_wait(restart);
    assert!(wait < Duration::from_secs(2), "a record waited {wait:?}");
    world.assert_order();
}
