//! AWS in trouble.

use std::time::{Duration, Instant};

use shardkeeper_tests::processes::{FAILOVER, Kind, World};

#[test]
fn a_throttled_table_and_a_throttled_stream_lose_nothing() {
    let mut world = crate::world("throttled", 4);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.start("two", &[]);
    world.balanced(&["one", "two"], 4);
    world.fault(r#"{"service":"dynamodb","action":"throttle","probability":0.4}"#);
    world.fault(
        r#"{"service":"kinesis","operation":"GetRecords","action":"throttle","probability":0.3}"#,
    );
    world.fault(
        r#"{"service":"kinesis","operation":"GetRecords","action":"internal","probability":0.1}"#,
    );
    world.watch(FAILOVER * 3);
    world.clear_faults();
    world.finish(Duration::from_secs(15));
    world.assert_order();
}

#[test]
fn expired_iterators_are_rebuilt_without_loss_or_repeat() {
    let mut world = crate::world("expired", 2);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 20
    });
    world.fault(
        r#"{"service":"kinesis","operation":"GetRecords","action":"error","code":"ExpiredIteratorException","probability":0.3}"#,
    );
    world.watch(Duration::from_secs(5));
    world.clear_faults();
    world.finish(Duration::from_secs(10));
    assert_eq!(world.repeats(), 0);
    world.assert_order();
}

#[test]
fn a_table_away_for_longer_than_the_failover_time_stops_the_work_and_nothing_else() {
    let mut world = crate::world("table-away", 4);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.start("two", &[]);
    world.balanced(&["one", "two"], 4);
    let away = Instant::now();
    world.fault(r#"{"service":"dynamodb","action":"cut"}"#);
    world.watch(FAILOVER * 2);
    // Nobody may believe in a lease that cannot be renewed for that long.
    let handed_over = |from: Instant, to: Instant| {
        move |world: &World| {
            world
                .deliveries
                .iter()
                .any(|delivery| delivery.seen > from && delivery.seen < to)
        }
    };
    let lapsed = away + FAILOVER + Duration::from_millis(500);
    assert!(
        !handed_over(lapsed, Instant::now())(&world),
        "records are handed over without a lease"
    );
    world.clear_faults();
    let back = Instant::now();
    world.until("reading again", Duration::from_secs(10), |world| {
        world.deliveries.iter().any(|delivery| delivery.seen > back)
    });
    assert!(
        back.elapsed() <= Duration::from_millis(2_500),
        "reading again after {:?}",
        back.elapsed()
    );
    world.finish(Duration::from_secs(10));
    world.assert_order();
}
