//! Runs simulated worlds and says whether every promise was kept.
//!
//! `simulate --from 1 --seeds 1000` runs many and ends with one line of JSON; `simulate --seed 7 --verbose` runs one and
//! prints its history. The exit code is 1 when a promise was broken.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use clap::Parser;
use shardkeeper_tests::{History, Plan, Violation, check, simulate};

/// Runs simulated worlds.
#[derive(Parser)]
struct Args {
    /// Runs this one seed.
    #[arg(long, conflicts_with_all = ["from", "seeds"])]
    seed: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// Worlds at a time; 0: as many as there are cores.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Prints the plan, the history and the log of the workers.
    #[arg(long, requires = "seed")]
    verbose: bool,
}

/// What many worlds came to.
#[derive(Default)]
struct Sum {
    records: u64,
    hand_overs: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<(u64, Violation)>,
}

impl Sum {
    fn add(&mut self, seed: u64, history: &History) {
        self.records += history.records() as u64;
        self.hand_overs += history.hand_overs() as u64;
        for (kind, count) in &history.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for violation in check(history) {
            eprintln!("seed {seed}: {violation}");
            self.violations.push((seed, violation));
        }
    }

    fn merge(&mut self, other: Sum) {
        self.records += other.records;
        self.hand_overs += other.hand_overs;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    fn print(&mut self, seeds: u64) {
        self.violations
            .sort_by_key(|(seed, violation)| (*seed, violation.at));
        let violations: Vec<serde_json::Value> = self
            .violations
            .iter()
            .map(|(seed, violation)| {
                serde_json::json!({
                    "seed": seed,
                    "property": format!("{:?}", violation.property),
                    "event": violation.at,
                    "what": violation.what,
                })
            })
            .collect();
        let line = serde_json::json!({
            "seeds": seeds,
            "records": self.records,
            "hand_overs": self.hand_overs,
            "faults": self.faults,
            "ok": violations.is_empty(),
            "violations": violations,
        });
        println!("{line}");
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut sum = match args.seed {
        Some(seed) => one(seed, args.verbose),
        None => many(&args),
    };
    sum.print(args.seed.map_or(args.seeds, |_| 1));
    ExitCode::from(u8::from(!sum.violations.is_empty()))
}

fn one(seed: u64, verbose: bool) -> Sum {
    let plan = Plan::of(seed);
    if verbose {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter("shardkeeper=debug,lease=debug")
            .without_time()
            .init();
        println!("{plan:#?}");
    }
    let history = simulate(&plan);
    if verbose {
        print!("{history}");
    }
    let mut sum = Sum::default();
    sum.add(seed, &history);
    sum
}

fn many(args: &Args) -> Sum {
    let next = AtomicU64::new(args.from);
    let end = args.from.saturating_add(args.seeds);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = if args.jobs == 0 { cores } else { args.jobs };
    let work = || {
        let mut sum = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return sum;
            }
            sum.add(seed, &simulate(&Plan::of(seed)));
        }
    };
    let mut sum = Sum::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            sum.merge(worker.join().expect("a world does not panic"));
        }
    });
    sum
}
