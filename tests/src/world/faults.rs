//! What can go wrong with a call, how likely, and the dice that decide.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use shardkeeper::backoff::Random;

/// How likely, from 0 to 1, each fault of a call to the table is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableOdds {
    /// Refused for lack of throughput; nothing is written.
    pub throttle: f64,
    /// Nothing is written, and the caller does not learn that.
    pub failed: f64,
    /// Written, but the caller is told that there is no clear answer.
    pub lost_reply: f64,
    /// The caller is told that there is no clear answer; the write happens later.
    pub late: f64,
    /// Written or not, and never answered.
    pub hang: f64,
    /// Takes longer, up to one and a half failover times.
    pub delay: f64,
    /// A list shows rows as they were a while ago.
    pub stale: f64,
}

/// How likely, from 0 to 1, each fault of a call to Kinesis is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamOdds {
    /// Refused for lack of throughput.
    pub throttle: f64,
    /// No connection, or an internal error.
    pub failed: f64,
    /// The iterator is said to have expired.
    pub expired: f64,
    /// The request is said to be invalid.
    pub invalid: f64,
    /// The shard is said not to exist.
    pub not_found: f64,
    /// Answered after the time-out of the client.
    pub hang: f64,
    /// Takes longer, up to two seconds.
    pub delay: f64,
    /// The end of a shard is told without its children.
    pub childless: f64,
    /// ListShards does not know the latest reshards yet.
    pub stale: f64,
}

/// How likely, from 0 to 1, each fault of a handler is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HandlerOdds {
    /// Fails.
    pub failed: f64,
    /// Takes up to one and a half failover times.
    pub slow: f64,
    /// Does not return.
    pub hang: f64,
    /// Panics.
    pub panic: f64,
}

/// Seeded dice. Rolled from one thread, so the same seed falls the same way.
#[derive(Debug)]
pub struct Dice(Mutex<Random>);

impl Dice {
    /// Dice of their own.
    pub fn new(seed: u64) -> Self {
        Dice(Mutex::new(Random::seeded(seed)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Random) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Any number.
    pub fn number(&self) -> u64 {
        self.with(Random::number)
    }

    /// True with this probability.
    pub fn chance(&self, probability: f64) -> bool {
        probability > 0.0 && self.with(Random::fraction) < probability
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.number() % end
    }

    /// One of some values.
    pub fn one_of<T: Clone>(&self, values: &[T]) -> T {
        values[self.index(values.len())].clone()
    }

    /// An index below `length`, which is not 0.
    pub fn index(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a usize")
    }

    /// A duration of whole milliseconds from `least` to `most`.
    pub fn between(&self, least: Duration, most: Duration) -> Duration {
        let (least, most) = (least.as_millis(), most.as_millis());
        let span = u64::try_from(most.saturating_sub(least)).unwrap_or(u64::MAX - 1);
        Duration::from_millis(u64::try_from(least).unwrap_or(0) + self.below(span + 1))
    }
}

/// Which faults struck, and how often.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// One more of this kind.
    pub fn count(&self, kind: &'static str) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.entry(kind).or_default() += 1;
    }

    /// All of them.
    pub fn take(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
