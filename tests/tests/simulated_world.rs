//! A thousand simulated worlds, and the seeds that once broke a promise.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use shardkeeper_tests::{Plan, check, simulate};

/// What a seed breaks, with the command that replays it.
fn verdict(seed: u64) -> Option<String> {
    let violations = check(&simulate(&Plan::of(seed)));
    let mut text = String::new();
    for violation in &violations {
        let _ = writeln!(text, "{violation}");
    }
    (!violations.is_empty()).then(|| {
        format!(
            "{text}replay it with: cargo run -p shardkeeper-tests --bin simulate -- --seed {seed} --verbose"
        )
    })
}

#[test]
fn a_thousand_worlds_keep_every_promise() {
    const WORLDS: u64 = 1_000;
    let next = AtomicU64::new(1);
    let work = || {
        let mut broken = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > WORLDS {
                return broken;
            }
            broken.extend(verdict(seed));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let broken: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().expect("a world does not panic"));
        ended.flatten().collect()
    });
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [3, 7, 42, 96] {
        let plan = Plan::of(seed);
        let (first, second) = (simulate(&plan), simulate(&plan));
        let differ = first
            .events
            .iter()
            .zip(&second.events)
            .position(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_histories() {
    assert_ne!(simulate(&Plan::of(1)), simulate(&Plan::of(2)));
}
