//! A worker that is asked to stop.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use shardkeeper_tests::processes::Kind;

#[test]
fn a_worker_that_is_asked_to_stop_leaves_no_shard_unread_for_longer_than_a_second() {
    let mut world = crate::world("drain", 8);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.start("two", &[]);
    world.balanced(&["one", "two"], 8);
    world.watch(Duration::from_secs(1));
    for leaver in ["one", "two"] {
        let asked = Instant::now();
        world.signal(leaver, Signal::TERM);
        let status = world.wait_watching(leaver, Duration::from_secs(15));
        assert_eq!(status.code(), Some(0), "{}", world.log(leaver));
        world.watch(Duration::from_millis(1500));
        let wait = world.longest_wait(asked);
        assert!(
            wait <= Duration::from_millis(1_500),
            "a record waited {wait:?}"
        );
        if leaver == "one" {
            world.start("one", &[]);
            world.balanced(&["one", "two"], 8);
        }
    }
    world.finish(Duration::from_secs(10));
    // Positions were handed over exactly: nothing came twice.
    assert_eq!(world.repeats(), 0);
    world.assert_order();
}

#[test]
fn the_last_worker_releases_its_leases_and_the_next_one_reads_on_at_once() {
    let mut world = crate::world("drain-last", 4);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 50
    });
    world.signal("one", Signal::TERM);
    let status = world.wait_watching("one", Duration::from_secs(10));
    assert_eq!(status.code(), Some(0), "{}", world.log("one"));
    assert!(world.leases().iter().all(|lease| lease.owner.is_none()));
    let started = Instant::now();
    world.start("another", &[]);
    world.finish(Duration::from_secs(10));
    let wait = world.longest_wait(started);
    assert!(wait < Duration::from_secs(2), "a record waited {wait:?}");
    assert_eq!(world.repeats(), 0);
    world.assert_order();
}

#[test]
fn a_second_signal_ends_the_worker_at_once() {
    let mut world = crate::world("second-signal", 2);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 10
    });
    // The table hangs, so handing over takes its time.
    world.fault(r#"{"service":"dynamodb","action":"delay","delay_ms":60000}"#);
    world.signal("one", Signal::TERM);
    world.watch(Duration::from_millis(500));
    assert!(
        world
            .workers
            .get_mut("one")
            .expect("it")
            .child
            .try_wait()
            .expect("watched")
            .is_none()
    );
    world.signal("one", Signal::TERM);
    let status = world.wait("one", Duration::from_secs(3));
    assert_eq!(status.code(), Some(1), "{}", world.log("one"));
}

#[test]
fn the_deadline_ends_a_worker_that_cannot_hand_over() {
    let mut world = crate::world("deadline", 2);
    world.produce(Kind::Mixed);
    world.start("one", &["shutdown.deadline=2s"]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 10
    });
    world.fault(r#"{"service":"dynamodb","action":"delay","delay_ms":60000}"#);
    world.signal("one", Signal::TERM);
    let status = world.wait("one", Duration::from_secs(6));
    assert_eq!(status.code(), Some(1), "{}", world.log("one"));
    assert!(
        world.log("one").contains("deadline"),
        "{}",
        world.log("one")
    );
    world.clear_faults();
    // Nothing is lost.
    world.start("two", &[]);
    world.finish(Duration::from_secs(15));
    world.assert_order();
}
