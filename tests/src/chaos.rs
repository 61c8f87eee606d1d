//! Loop: random faults on real workers, and the promises checked on what they wrote.
//!
//! What is checked: nothing is lost; per shard first deliveries are in order; a stored position never passes a record that
//! is not in a file yet – the table is read first and the files after it, so whatever a stored position covers must be
//! there. And what each kind of fault costs: the longest a record waited that was put while the fault was the latest one.
#![allow(clippy::disallowed_methods)] // real processes in real time are the point here

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;
use shardkeeper::clock::system_wall;

use crate::processes::{Kind, World};

/// What is done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long faults go on.
    pub seconds: f64,
    /// Draws them.
    pub seed: u64,
    /// Shards at the beginning.
    pub shards: u32,
    /// Workers that are kept running.
    pub workers: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    options: String,
    records: u64,
    faults: BTreeMap<&'static str, u64>,
    longest_wait: BTreeMap<&'static str, Duration>,
    lost: u64,
    repeated: u64,
    looks: u64,
    violations: Vec<String>,
}

impl Verdict {
    /// Every promise held.
    pub fn ok(&self) -> bool {
        self.violations.is_empty() && self.lost == 0 && self.records > 0 && self.looks > 0
    }

    /// One line.
    pub fn json(&self) -> String {
        let waits: BTreeMap<&str, u128> = self
            .longest_wait
            .iter()
            .map(|(kind, wait)| (*kind, wait.as_millis()))
            .collect();
        json!({
            "chaos": self.options,
            "records": self.records,
            "faults": self.faults,
            "longest_wait_ms": waits,
            "lost": self.lost,
            "repeated": self.repeated,
            "looks": self.looks,
            "violations": self.violations,
            "ok": self.ok(),
        })
        .to_string()
    }
}

/// Runs it. `program` and `env` are how a worker is started.
pub fn run(options: &Options, program: PathBuf, env: &[(&str, &str)]) -> Verdict {
    let mut world = World::new(program, "chaos", options.shards);
    for (key, value) in env {
        world.set_env(key, value);
    }
    let mut chaos = Chaos {
        random: fastrand::Rng::with_seed(options.seed),
        world,
        verdict: Verdict {
            options: format!("{options:?}"),
            ..Verdict::default()
        },
        log: Vec::new(),
        started: 0,
        frozen: BTreeMap::new(),
        checked: 0,
        delivered: BTreeSet::new(),
    };
    chaos.world.produce(Kind::Mixed);
    for _ in 0..options.workers {
        chaos.start();
    }
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while Instant::now() < end {
        let pause = Duration::from_millis(500 + chaos.random.u64(..2_500));
        chaos.watch(pause);
        chaos.strike(options.workers);
    }
    chaos.finish();
    chaos.verdict
}

struct Chaos {
    random: fastrand::Rng,
    world: World,
    verdict: Verdict,
    /// When which kind of fault struck.
    log: Vec<(Instant, &'static str)>,
    started: u32,
    frozen: BTreeMap<String, Instant>,
    /// How many deliveries are in `delivered`.
    checked: usize,
    delivered: BTreeSet<u64>,
}

impl Chaos {
    fn start(&mut self) {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        self.world.start(&name, &["shutdown.deadline=10s"]);
    }

    /// Reads what is written, wakes who was frozen long enough, and looks at stored positions.
    fn watch(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let now = Instant::now();
            let due: Vec<String> = self
                .frozen
                .iter()
                .filter(|(_, wake)| **wake <= now)
                .map(|(name, _)| name.clone())
                .collect();
            for name in due {
                self.frozen.remove(&name);
                self.world.signal(&name, Signal::CONT);
            }
            self.look();
            self.world.watch(Duration::from_millis(250));
        }
    }

    /// What a stored position covers must be in a file.
    fn look(&mut self) {
        let leases = self.world.leases();
        let put = self.world.put();
        self.world.watch(Duration::ZERO);
        let new = &self.world.deliveries[self.checked..];
        self.delivered.extend(
            new.iter()
                .filter_map(|delivery| delivery.data.parse::<u64>().ok()),
        );
        self.checked = self.world.deliveries.len();
        if leases.is_empty() {
            return;
        }
        self.verdict.looks += 1;
        for lease in leases.iter().filter(|lease| lease.started()) {
            let passed = put.iter().enumerate().find(|(number, record)| {
                record.shard == lease.shard.as_str()
                    && record.position <= lease.checkpoint
                    && !self.delivered.contains(&(*number as u64))
            });
            if let Some((number, record)) = passed {
                self.verdict.violations.push(format!(
                    "{} stores {}, but record {number} at {} is in no file",
                    lease.shard, lease.checkpoint, record.position
                ));
            }
        }
    }

    fn strike(&mut self, workers: usize) {
        let alive: Vec<String> = self.world.alive();
        let awake: Vec<&String> = alive
            .iter()
            .filter(|name| !self.frozen.contains_key(*name))
            .collect();
        if alive.len() < workers {
            self.start();
            return self.note("start");
        }
        let victim = awake
            .get(self.random.usize(..awake.len().max(1)))
            .map(|name| (*name).clone());
        match (self.random.u32(..12), victim) {
            (0 | 1, Some(victim)) => {
                self.world.signal(&victim, Signal::KILL);
                self.note("kill");
            }
            (2 | 3, Some(victim)) => {
                self.world.signal(&victim, Signal::TERM);
                self.note("term");
            }
            (4, Some(victim)) => {
                self.world.signal(&victim, Signal::STOP);
                let wake = Instant::now() + Duration::from_millis(500 + self.random.u64(..8_000));
                self.frozen.insert(victim, wake);
                self.note("freeze");
            }
            (5 | 6, _) => self.reshard(),
            (7, _) => self.fault("kinesis_throttled", "kinesis", "throttle", 0.4),
            (8, _) => self.fault("kinesis_fails", "kinesis", "internal", 0.3),
            (9, _) => self.fault("table_throttled", "dynamodb", "throttle", 0.3),
            (10, _) => self.fault("table_fails", "dynamodb", "internal", 0.3),
            _ => {
                let service = if self.random.bool() {
                    "kinesis"
                } else {
                    "dynamodb"
                };
                let action = if self.random.bool() { "cut" } else { "lost" };
                self.fault("cut", service, action, 0.3);
            }
        }
    }

    fn fault(&mut self, kind: &'static str, service: &str, action: &str, probability: f64) {
        let millis = 500 + self.random.u64(..5_000);
        let rule = json!({
            "service": service, "action": action, "probability": probability, "for_ms": millis,
        });
        self.world.fault(&rule.to_string());
        self.note(kind);
    }

    fn reshard(&mut self) {
        let shards = self.world.open_shards();
        let at = self.random.usize(..shards.len());
        let split = shards.len() < 12 || (self.random.bool() && shards.len() < 24);
        let kinesis = self.world.aws.kinesis();
        let mut kinesis = kinesis.lock();
        if split {
            let shard = &shards[at];
            let middle =
                shard.starting_hash_key + (shard.ending_hash_key - shard.starting_hash_key) / 2 + 1;
            // A shard of a single hash key cannot be split; that is as good as a quiet moment.
            let _ = kinesis.split_shard("orders", &shard.shard_id, middle, system_wall());
            drop(kinesis);
            self.note("split");
        } else if let [first, second] = &shards[at.min(shards.len() - 2)..][..2] {
            let _ =
                kinesis.merge_shards("orders", &first.shard_id, &second.shard_id, system_wall());
            drop(kinesis);
            self.note("merge");
        }
    }

    fn note(&mut self, kind: &'static str) {
        self.log.push((Instant::now(), kind));
        *self.verdict.faults.entry(kind).or_default() += 1;
    }

    /// Everything is well again: what is on its way must arrive, and everybody stops politely.
    fn finish(&mut self) {
        self.world.clear_faults();
        for (name, _) in std::mem::take(&mut self.frozen) {
            self.world.signal(&name, Signal::CONT);
        }
        self.world.stop_producing();
        let patience = Instant::now() + Duration::from_secs(40);
        while !self.world.missing().is_empty() && Instant::now() < patience {
            if self.world.alive().is_empty() {
                self.start();
            }
            self.watch(Duration::from_millis(500));
        }
        for name in self.world.alive() {
            self.world.signal(&name, Signal::TERM);
        }
        for name in self.world.alive() {
            let status = self.world.wait_watching(&name, Duration::from_secs(20));
            if status.code() != Some(0) {
                self.verdict
                    .violations
                    .push(format!("{name} stopped with {status}"));
            }
        }
        self.look();
        self.judge();
    }

    fn judge(&mut self) {
        self.verdict.records = self.world.put().len() as u64;
        self.verdict.lost = self.world.missing().len() as u64;
        self.verdict.repeated = self.world.repeats() as u64;
        self.verdict.violations.extend(self.world.disorder());
        self.verdict.violations.truncate(20);
        for (at, (moment, kind)) in self.log.iter().enumerate() {
            let until = self
                .log
                .get(at + 1)
                .map_or_else(Instant::now, |(next, _)| *next);
            let wait = self.world.longest_wait_between(*moment, until);
            let longest = self.verdict.longest_wait.entry(kind).or_default();
            *longest = (*longest).max(wait);
        }
    }
}
