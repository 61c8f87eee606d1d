//! Waiting longer after each failure, with jitter. The only file that knows the `backoff` crate (unmaintained
//! upstream), and the only one that draws randomness: from generators seeded by the caller.
#![allow(clippy::disallowed_methods)] // that is what this file is for

use std::time::Duration;

use backoff::{backoff::Backoff as _, exponential::ExponentialBackoff};

use crate::clock::PolicyClock;

impl backoff::Clock for PolicyClock {
    fn now(&self) -> std::time::Instant {
        PolicyClock::now(*self)
    }
}

/// A seeded generator. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// From a seed.
    pub fn seeded(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// A seed that differs from run to run, for the binary.
    pub fn fresh_seed() -> u64 {
        fastrand::Rng::new().u64(..)
    }

    /// Another generator, independent of the further course of this one.
    pub fn fork(&mut self) -> Self {
        Random(self.0.fork())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number from 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }

    /// A word of 16 letters and digits.
    pub fn word(&mut self) -> String {
        std::iter::repeat_with(|| self.0.alphanumeric().to_ascii_lowercase())
            .take(16)
            .collect()
    }
}

/// Exponential waits with jitter: from `min`, doubling up to `max`, each drawn from its upper half.
#[derive(Debug)]
pub struct Backoff {
    policy: ExponentialBackoff<PolicyClock>,
    random: Random,
    failures: u32,
}

impl Backoff {
    /// Waits between `min` and `max`, for ever.
    pub fn new(min: Duration, max: Duration, random: Random) -> Self {
        Backoff {
            policy: ExponentialBackoff {
                current_interval: min,
                initial_interval: min,
                // Jitter is drawn here, from the seeded generator; the crate would use the thread's.
                randomization_factor: 0.0,
                multiplier: 2.0,
                max_interval: max,
                max_elapsed_time: None,
                ..ExponentialBackoff::default()
            },
            random,
            failures: 0,
        }
    }

    /// How long to wait after one more failure.
    pub fn next_wait(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let most = self
            .policy
            .next_backoff()
            .unwrap_or(self.policy.max_interval);
        most.mul_f64(0.5 + self.random.fraction() / 2.0)
    }

    /// It worked: the next wait is short again.
    pub fn succeeded(&mut self) {
        if self.failures > 0 {
            self.failures = 0;
            self.policy.reset();
        }
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_anew_after_a_success() {
        let (min, max) = (Duration::from_millis(100), Duration::from_millis(450));
        let mut backoff = Backoff::new(min, max, Random::seeded(7));
        for most in [100, 200, 400, 450, 450] {
            let wait = backoff.next_wait();
            let most = Duration::from_millis(most);
            assert!(wait >= most / 2 && wait <= most, "{wait:?} beside {most:?}");
        }
        backoff.succeeded();
        assert!(backoff.next_wait() <= min);
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        let waits = |seed| {
            let mut backoff = Backoff::new(
                Duration::from_millis(10),
                Duration::from_secs(1),
                Random::seeded(seed),
            );
            (0..8).map(|_| backoff.next_wait()).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
