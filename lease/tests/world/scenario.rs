//! Single stories in fair weather, with bounds in virtual time. The failover time is 10 s.

use lease::{ShardId, leases::Event, sync::Start};

use crate::sim::{Ev, MILLI, Pid, SECOND, World};

/// A world with these workers that has run for a minute; consumers look at their shards each 100 ms.
fn settled(seed: u64, shards: usize, workers: usize) -> (World, Vec<Pid>) {
    let mut world = World::new(seed, shards, Start::TrimHorizon);
    world.tick = 100 * MILLI;
    let pids = (0..workers)
        .map(|n| world.join(&format!("worker-{n}")))
        .collect();
    world.run_until(61 * SECOND);
    let shards = all(&world);
    world.check.watch_gaps(shards.into_iter());
    (world, pids)
}

fn all(world: &World) -> Vec<ShardId> {
    world
        .stream
        .open_shards()
        .map(|shard| shard.id().clone())
        .collect()
}

fn unread(world: &World) -> bool {
    all(world)
        .iter()
        .any(|shard| world.readers(shard).len() != 1)
}

fn shares(world: &World) -> Vec<usize> {
    world
        .processes
        .values()
        .map(|process| process.consumers.len())
        .collect()
}

fn unbalanced(world: &World) -> bool {
    let shares = shares(world);
    let (least, most) = (shares.iter().min(), shares.iter().max());
    unread(world) || most.expect("somebody") - least.expect("somebody") > 1
}

fn leader(world: &World) -> Pid {
    let leads = |pid: &&Pid| {
        let process = &world.processes[pid];
        process.leases.leads(process.clock.now(world.now))
    };
    *world.processes.keys().find(leads).expect("somebody leads")
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / SECOND as f64
}

fn well(world: &World) {
    assert!(
        world.check.violations.is_empty(),
        "{:?}",
        world.check.violations
    );
}

#[test]
fn a_dead_worker_s_shards_are_read_again_two_seconds_after_the_failover_time() {
    for seed in 0..6 {
        let (mut world, pids) = settled(seed, 12, 3);
        let lead = leader(&world);
        let others: Vec<Pid> = pids.into_iter().filter(|pid| *pid != lead).collect();
        // In turn the leader, its deputy, and the third.
        let dead = [lead, others[0], others[1]][(seed % 3) as usize];
        world.run_until(world.now + world.rng.clone().u64(0..3 * SECOND));
        world.kill(dead);
        let limit = world.now + 30 * SECOND;
        world.run_while(limit, unread);
        world.run_until(world.now + SECOND);
        let gap = seconds(world.check.longest_gap(world.now));
        assert!(
            gap <= 12.0,
            "seed {seed}: {dead} (leader {lead}) is missed for {gap} s"
        );
        world.run_while(limit, unbalanced);
        assert!(!unbalanced(&world), "seed {seed}: {:?}", shares(&world));
        well(&world);
    }
}

#[test]
fn a_second_worker_has_its_share_within_five_seconds_and_nothing_stands_still() {
    for seed in 0..6 {
        let (mut world, _) = settled(seed, 12, 1);
        world.join("second");
        let since = world.now;
        let done = world.run_while(since + 30 * SECOND, unbalanced);
        let took = seconds(done - since);
        assert!(took <= 5.0, "seed {seed}: {took} s, {:?}", shares(&world));
        world.run_until(world.now + 20 * SECOND);
        assert_eq!(shares(&world), [6, 6], "seed {seed}");
        let gap = seconds(world.check.longest_gap(world.now));
        assert!(gap <= 1.0, "seed {seed}: {gap} s unread");
        well(&world);
    }
}

#[test]
fn who_leaves_hands_over_and_nothing_stands_still_for_more_than_a_second() {
    for seed in 0..6 {
        let (mut world, pids) = settled(seed, 12, 3);
        let lead = leader(&world);
        let goes = if seed % 2 == 0 {
            lead
        } else {
            *pids.iter().find(|pid| **pid != lead).expect("three")
        };
        let since = world.now;
        world.order(0, Ev::Hear(goes, Box::new(Event::Leave)));
        let left = world.run_while(since + 60 * SECOND, |world| {
            world.processes.contains_key(&goes)
        });
        assert!(
            seconds(left - since) <= 10.0,
            "seed {seed}: {} s to leave",
            seconds(left - since)
        );
        world.run_until(left + 20 * SECOND);
        assert!(!unbalanced(&world), "seed {seed}: {:?}", shares(&world));
        let gap = seconds(world.check.longest_gap(world.now));
        assert!(gap <= 1.0, "seed {seed}: {gap} s unread");
        well(&world);
    }
}

#[test]
fn the_last_worker_leaves_at_once() {
    for seed in 0..4 {
        let (mut world, pids) = settled(seed, 4, 1);
        let since = world.now;
        world.order(0, Ev::Hear(pids[0], Box::new(Event::Leave)));
        let left = world.run_while(since + 60 * SECOND, |world| !world.processes.is_empty());
        assert!(
            seconds(left - since) <= 1.0,
            "seed {seed}: {} s",
            seconds(left - since)
        );
        let free = world.table.rows.view().leases;
        assert!(free.iter().all(|row| row.reader().is_none()), "{free:?}");
        well(&world);
    }
}

#[test]
fn a_table_that_was_away_is_used_again_two_seconds_after_it_is_back() {
    for seed in 0..6 {
        let (mut world, _) = settled(seed, 12, 1 + seed as usize % 3);
        world.hangs = seed % 2 == 1;
        world.change(crate::sim::Scene::TableAway(30 * SECOND));
        let back = world.now + 30 * SECOND;
        world.run_until(back);
        assert!(unread(&world), "beliefs end while nothing can be renewed");
        let again = world.run_while(back + 30 * SECOND, unread);
        // A call that hangs when the table comes back is only given up after the request timeout, 2.5 s.
        let most = if world.hangs { 4.5 } else { 2.0 };
        assert!(
            seconds(again - back) <= most,
            "seed {seed}: {} s",
            seconds(again - back)
        );
        well(&world);
    }
}

#[test]
fn a_worker_that_restarts_under_its_id_reads_again_within_a_second() {
    for seed in 0..6 {
        let (mut world, pids) = settled(seed, 6, 2);
        world.kill(pids[(seed % 2) as usize]);
        let since = world.now;
        world.join(&format!("worker-{}", seed % 2));
        let again = world.run_while(since + 30 * SECOND, unread);
        assert!(
            seconds(again - since) <= 1.0,
            "seed {seed}: {} s",
            seconds(again - since)
        );
        well(&world);
    }
}

#[test]
fn a_first_start_takes_a_handful_of_round_trips() {
    for (shards, most_seconds) in [(1, 0.4), (500, 2.0)] {
        let mut world = World::new(1, shards, Start::Latest);
        let since = world.now;
        world.join("first");
        let done = world.run_while(since + 30 * SECOND, unread);
        let took = seconds(done - since);
        assert!(
            took <= most_seconds,
            "{shards} shards: {took} s, {:?}",
            world.check.calls()
        );
        let calls: u64 = world.check.calls().values().sum();
        assert!(
            calls <= 2 * shards as u64 + 20,
            "{shards} shards: {:?}",
            world.check.calls()
        );
        well(&world);
    }
}

/// Calls to the table per shard and hour when nothing happens: what an idle application costs.
#[test]
fn an_idle_shard_costs_no_more_than_1099_calls_an_hour() {
    for workers in [1, 2] {
        let mut world = World::new(3, 100, Start::Latest);
        world.stream.fall_silent();
        world.tick = 60 * SECOND;
        for n in 0..workers {
            world.join(&format!("worker-{n}"));
        }
        world.run_until(121 * SECOND);
        let before: u64 = world.check.calls().values().sum();
        world.run_until(world.now + 900 * SECOND);
        let calls: u64 = world.check.calls().values().sum();
        let per_shard_hour = (calls - before) as f64 * 4.0 / 100.0;
        println!("{workers} workers, 100 shards: {per_shard_hour:.0} calls per idle shard-hour");
        assert!(
            per_shard_hour <= 1099.0,
            "{workers} workers: {per_shard_hour}, {:?}",
            world.check.calls()
        );
        well(&world);
    }
}
