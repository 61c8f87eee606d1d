//! A worker that is frozen past the failover time and wakes up.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use shardkeeper_tests::processes::{FAILOVER, Kind};

#[test]
fn a_zombie_hands_nothing_over_and_writes_nothing_until_it_holds_a_lease_again() {
    let mut world = crate::world("zombie", 6);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.start("two", &[]);
    world.balanced(&["one", "two"], 6);
    world.watch(Duration::from_secs(1));
    let before = world.leases();
    let of_zombie: Vec<String> = before
        .iter()
        .filter(|lease| {
            lease
                .reader()
                .is_some_and(|reader| reader.as_str() == "two")
        })
        .map(|lease| lease.shard.to_string())
        .collect();
    assert!(!of_zombie.is_empty());
    let frozen = Instant::now();
    world.signal("two", Signal::STOP);
    world.watch(FAILOVER + Duration::from_secs(3));
    let heirs = world.leases();
    for shard in &of_zombie {
        let lease = heirs
            .iter()
            .find(|lease| lease.shard.as_str() == shard)
            .expect("its row");
        assert_eq!(
            lease.reader().map(|reader| reader.as_str()),
            Some("one"),
            "{shard} is not taken over"
        );
    }
    let woken = Instant::now();
    world.signal("two", Signal::CONT);
    world.watch(Duration::from_secs(6));
    world.finish(Duration::from_secs(10));
    // Per shard, the files of both never interleave but by hand-overs: a record the zombie handed over after it woke
    // must not have been handed over by its heir before.
    for shard in &of_zombie {
        let heir_has: std::collections::BTreeSet<&str> = world
            .deliveries
            .iter()
            .filter(|delivery| delivery.worker == "one" && delivery.shard == *shard)
            .filter(|delivery| delivery.seen > frozen && delivery.seen <= woken)
            .map(|delivery| delivery.sequence.as_str())
            .collect();
        assert!(
            !heir_has.is_empty(),
            "{shard} was not read while its worker was frozen"
        );
        let late = world
            .deliveries
            .iter()
            .filter(|delivery| delivery.worker == "two" && delivery.shard == *shard)
            .filter(|delivery| {
                delivery.seen > woken && heir_has.contains(delivery.sequence.as_str())
            })
            .count();
        // A batch whose write was under way at the moment of the freeze cannot be called back: it is finished on waking. A
        // batch is a page of 200 ms here, about 30 records; seconds of records lay in between.
        assert!(
            late <= 60,
            "the zombie handed over {late} records of {shard} that its heir had"
        );
    }
    world.assert_order();
}
