//! One process: the machine under test, its clock, and the consumers it runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use checkpoint::Position;
use lease::{
    LeaseKey, ShardId, Time, WorkerId,
    leases::{Action, Halt, Leases, Now},
    renew::Tenure,
};

use crate::stream::FakeStream;

/// A reader of one shard.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) shard: ShardId,
    pub(crate) tenure: Tenure,
    pub(crate) valid_until: Time,
    /// Everything up to here was handed over.
    pub(crate) read: u64,
    /// The last record that is settled with all before it.
    pub(crate) settled: Option<u64>,
    pub(crate) halt: Option<Halt>,
    /// How long it takes to drain, in micros.
    pub(crate) drains_in: u64,
    /// Its handler hangs.
    pub(crate) stuck: bool,
}

/// One run of a worker.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: WorkerId,
    pub(crate) leases: Leases,
    pub(crate) consumers: BTreeMap<LeaseKey, Consumer>,
    /// The watermarks of consumers that are gone, until their rows are.
    pub(crate) last_words: BTreeMap<LeaseKey, (Tenure, Position)>,
    /// Rows the machine says it holds.
    pub(crate) holds: BTreeSet<LeaseKey>,
    pub(crate) frozen: bool,
    pub(crate) leaving_since: Option<u64>,
    /// What the machine last wrote as `lut`.
    pub(crate) lut: i64,
    /// Invalidates wake-ups that were ordered earlier.
    pub(crate) wake: u64,
    /// Steps in the current second, to notice busy loops.
    pub(crate) steps: (u64, u32),
    pub(crate) clock: Clock,
}

/// The clocks of one process: an origin of its own, and a rate that is a little off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) born: u64,
    pub(crate) origin: u64,
    /// Micros of this clock per million true ones.
    pub(crate) rate: u64,
}

impl Clock {
    /// This clock at the true time `now`.
    pub(crate) fn mono(&self, now: u64) -> Time {
        let run = u128::from(now - self.born) * u128::from(self.rate) / 1_000_000;
        Time::new(Duration::from_micros(
            self.origin + u64::try_from(run).expect("short runs"),
        ))
    }

    /// Both clocks.
    pub(crate) fn now(&self, now: u64) -> Now {
        Now {
            mono: self.mono(now),
            wall: i64::try_from(now / 1000).expect("short runs"),
        }
    }

    /// The first true time at which this clock shows `time`; `None` for never.
    pub(crate) fn when(&self, time: Time) -> Option<u64> {
        if time == Time::NEVER {
            return None;
        }
        let target = u64::try_from(time.since_origin().as_micros()).ok()?;
        let run = u128::from(target.saturating_sub(self.origin)) * 1_000_000;
        let run = run.div_ceil(u128::from(self.rate));
        let sub_micro = u64::from(!time.since_origin().subsec_nanos().is_multiple_of(1000));
        u64::try_from(run)
            .ok()
            .map(|run| self.born + run + 2 * sub_micro)
    }
}

impl Process {
    /// The consumer of a row, if it is of this tenure.
    pub(crate) fn consumer(&mut self, key: &LeaseKey, tenure: Tenure) -> Option<&mut Consumer> {
        let consumer = self.consumers.get_mut(key)?;
        (consumer.tenure == tenure).then_some(consumer)
    }

    /// Lets the machine act, with the watermarks of the consumers.
    pub(crate) fn step(&mut self, now: Now) -> Vec<Action> {
        let (consumers, last_words) = (&self.consumers, &self.last_words);
        let watermark = |key: &LeaseKey, tenure: Tenure| match consumers.get(key) {
            Some(consumer) if consumer.tenure == tenure => {
                consumer.settled.map(super::stream::position)
            }
            Some(_) => None,
            None => {
                let (of, position) = last_words.get(key)?;
                (*of == tenure).then(|| position.clone())
            }
        };
        self.leases.step(watermark, now)
    }

    /// Whether the consumer of `key` would hand a record over at the true time `now`.
    pub(crate) fn believes(&self, key: &LeaseKey, now: u64) -> bool {
        self.consumers
            .get(key)
            .is_some_and(|consumer| self.clock.mono(now) < consumer.valid_until)
    }
}

impl Consumer {
    /// Settles the records it has read. Returns the newest, if that is news.
    pub(crate) fn settle(&mut self, stream: &FakeStream) -> Option<u64> {
        let newest = stream.newest(&self.shard, self.read);
        if newest == 0 || self.settled.is_some_and(|settled| settled >= newest) {
            return None;
        }
        self.settled = Some(newest);
        Some(newest)
    }
}
