//! From a seed to everything that will happen in a world, as far as it can be said beforehand.
//!
//! Each family of faults is absent from most plans and heavy in few, so that single faults are met alone as well as in
//! every company.

use std::time::Duration;

use checkpoint::HashRangePolicy;
use lease::{Timing, sync::Start};
use shardkeeper::{
    delivery::BatchLimits, limits, local::model::ModelOptions, run::Delivery, source::polling::Pace,
};

use super::{
    faults::{Dice, HandlerOdds, StreamOdds, TableOdds},
    millis,
};

/// Where the clock of Kinesis stands when a world begins, epoch milliseconds.
pub const EPOCH: i64 = 1_764_500_000_000;

/// A world to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names it, and feeds the dice of the run.
    pub seed: u64,
    /// The failover time; most other spans follow from it.
    pub failover: Duration,
    /// Checkpoints are stored this often.
    pub checkpoint_every: Duration,
    /// Where the application starts.
    pub start: Start,
    /// Shards in the beginning.
    pub shards: u32,
    /// Workers in the beginning.
    pub workers: usize,
    /// Processors say themselves when a record is done.
    pub manual: bool,
    /// How records are handed over.
    pub delivery: Delivery,
    /// Bytes that may be read ahead.
    pub budget: usize,
    /// How this Kinesis differs from the default.
    pub model: ModelOptions,
    /// The longest pause between two puts.
    pub put_every: Duration,
    /// The producer packs this share of its records.
    pub aggregated: f64,
    /// This share of the packed ones is malformed.
    pub malformed: f64,
    /// Faults of the table.
    pub table: TableOdds,
    /// Faults of Kinesis.
    pub stream: StreamOdds,
    /// Faults of handlers.
    pub handler: HandlerOdds,
    /// When the first workers start; records are put before.
    pub opening: Duration,
    /// What is done to the world, and when.
    pub steps: Vec<(Duration, Step)>,
    /// When faults end.
    pub quiet: Duration,
    /// When everything has come to rest, all workers leave and one comes back.
    pub encore: bool,
}

/// Something done to the world. Numbers choose among what is there at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A worker joins.
    Join,
    /// A worker joins under the id of one that crashed.
    Return(usize),
    /// A process starts under the id of one that runs.
    Twin(usize),
    /// A worker is told to leave.
    Drain(usize),
    /// A worker is killed.
    Crash(usize),
    /// A worker stands still for a while.
    Freeze(usize, Duration),
    /// A worker's wall clock jumps, milliseconds.
    Jump(usize, i64),
    /// A shard is split.
    Split(usize),
    /// A shard is merged with its neighbour.
    Merge(usize),
    /// The table answers nobody for a while.
    TableAway(Duration),
    /// Kinesis answers nobody for a while.
    StreamAway(Duration),
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let failover = Duration::from_secs(dice.one_of(&[1, 1, 2, 2, 4, 10]));
        let opening = dice.between(Duration::ZERO, Duration::from_secs(4));
        let quiet = opening + failover * u32::try_from(8 + dice.below(14)).unwrap_or(8);
        let start = start(&dice, opening);
        let mut plan = Plan {
            seed,
            failover,
            checkpoint_every: dice.between(failover / 20, failover),
            start,
            shards: u32::try_from(1 + dice.below(5)).unwrap_or(1),
            workers: 1 + dice.index(4),
            manual: dice.chance(0.35),
            delivery: delivery(&dice),
            budget: dice.one_of(&[20_000, 100_000, 1 << 20, 64 << 20]),
            model: model(&dice),
            put_every: quiet / u32::try_from(20 + dice.below(60)).unwrap_or(20),
            aggregated: dice.one_of(&[0.0, 0.3, 0.7]),
            malformed: dice.one_of(&[0.0, 0.1]),
            table: TableOdds::default(),
            stream: StreamOdds::default(),
            handler: HandlerOdds::default(),
            opening,
            steps: Vec::new(),
            quiet,
            encore: dice.chance(0.3),
        };
        if !dice.chance(0.08) {
            plan.odds(&dice);
            plan.steps(&dice);
        }
        plan
    }

    fn odds(&mut self, dice: &Dice) {
        let odds = || match dice.below(10) {
            0..6 => 0.0,
            6..9 => 0.02,
            _ => 0.15,
        };
        self.table = TableOdds {
            throttle: odds(),
            failed: odds(),
            lost_reply: odds(),
            late: odds(),
            hang: odds(),
            delay: odds(),
            stale: odds() * 4.0,
        };
        self.stream = StreamOdds {
            throttle: odds(),
            failed: odds(),
            expired: odds(),
            invalid: odds(),
            not_found: odds(),
            hang: odds() / 4.0,
            delay: odds(),
            childless: odds() * 4.0,
            stale: odds() * 4.0,
        };
        self.handler = HandlerOdds {
            failed: odds(),
            slow: odds(),
            hang: odds() / 8.0,
            panic: odds() / 8.0,
        };
    }

    fn steps(&mut self, dice: &Dice) {
        let count = dice.below(9);
        let weights = Weights::draw(dice, matches!(self.start, Start::Latest));
        for _ in 0..count {
            let at = dice.between(Duration::from_millis(1), self.quiet);
            let step = weights.step(dice, self.failover);
            self.steps.push((at, step));
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// The intervals of the workers.
    pub fn timing(&self) -> Timing {
        Timing::new(self.failover, self.checkpoint_every)
    }

    /// A shard without progress for this long is given up.
    pub fn stuck_after(&self) -> Duration {
        self.failover * 4
    }

    /// How long after the last fault everything must be at rest. The longest memory of a blow is a dead worker's row,
    /// which promises a successor within half a minute; reads that hang cost as much again.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(60) + limits::SDK_CALL_TIMEOUT + self.failover * 30
    }
}

fn start(dice: &Dice, opening: Duration) -> Start {
    match dice.below(8) {
        0 => Start::Latest,
        1 => Start::AtTimestamp(EPOCH + millis(dice.between(Duration::ZERO, opening))),
        _ => Start::TrimHorizon,
    }
}

fn delivery(dice: &Dice) -> Delivery {
    let ms = Duration::from_millis;
    Delivery {
        pace: Pace {
            min: ms(200),
            max: dice.one_of(&[ms(200), ms(500), ms(1_000)]),
            limit: dice.one_of(&[1, 3, 10, 10_000]),
        },
        batch: BatchLimits {
            records: dice.one_of(&[1, 3, 10, 500]),
            bytes: dice.one_of(&[1, 60, 4 << 20]),
            wait: dice.one_of(&[ms(0), ms(0), ms(700)]),
        },
        retry: (ms(50), ms(1_000)),
        hash_range: HashRangePolicy::DropRecord,
        retention: None,
    }
}

fn model(dice: &Dice) -> ModelOptions {
    ModelOptions {
        update_ms: dice.one_of(&[0, 0, 300]),
        iterator_ttl_ms: dice.one_of(&[300_000, 300_000, 1_500]),
        enforce_throughput: dice.chance(0.2),
        empty_page_every: dice.one_of(&[0, 0, 3]),
        page_bytes: dice.one_of(&[10 << 20, 200]),
        ..ModelOptions::default()
    }
}

/// How often each kind of step is drawn in one plan.
struct Weights([u64; 11]);

impl Weights {
    fn draw(dice: &Dice, keeps_time: bool) -> Self {
        let mut weights = [0; 11];
        for weight in &mut weights {
            *weight = dice.one_of(&[0, 0, 1, 1, 4]);
        }
        weights[0] += 1;
        if keeps_time {
            // LATEST means the moment by the worker's own clock.
            weights[6] = 0;
        }
        Weights(weights)
    }

    fn step(&self, dice: &Dice, failover: Duration) -> Step {
        let mut left = dice.below(self.0.iter().sum());
        let mut kind = 0;
        while left >= self.0[kind] {
            left -= self.0[kind];
            kind += 1;
        }
        let which = dice.index(64);
        let span = dice.between(failover / 10, failover * 3);
        match kind {
            0 => Step::Join,
            1 => Step::Return(which),
            2 => Step::Twin(which),
            3 => Step::Drain(which),
            4 => Step::Crash(which),
            5 => Step::Freeze(which, span),
            6 => {
                let most = 600_000;
                let by = i64::try_from(dice.below(2 * most)).unwrap_or(0);
                Step::Jump(which, by - 600_000)
            }
            7 => Step::Split(which),
            8 => Step::Merge(which),
            9 => Step::TableAway(span),
            _ => Step::StreamAway(span),
        }
    }
}
