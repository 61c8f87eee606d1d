//! Rule: how much of a shard is handled, smoothed – what Java leaders balance by, and put down with each renewal.
//!
//! As in the KCL: the kibibytes per second since the last sample, half of that and half of what was (the row's own
//! number to begin with). Writes that follow each other too closely to tell a rate repeat the last number. A shard that
//! never had a record has none.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use crate::time::Time;

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Throughput {
    smoothed: Option<f64>,
    counted: u64,
    since: Time,
}

/// Takes no part: floating point has no hash, and nothing is decided by it here.
impl Hash for Throughput {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Throughput {
    /// `row`: what the row said, KiB/s.
    pub(super) fn new(row: Option<f64>, now: Time) -> Self {
        Throughput {
            smoothed: row.filter(|rate| rate.is_finite()),
            counted: 0,
            since: now,
        }
    }

    /// The number to write now. `bytes`: handled since the tenure began. `least`: the shortest time that tells a rate.
    pub(super) fn sample(&mut self, bytes: u64, least: Duration, now: Time) -> Option<f64> {
        if self.smoothed.is_none() && bytes == 0 {
            self.since = now;
            return None;
        }
        let time = now.since(self.since);
        if time < least {
            return self.smoothed;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate to six digits")]
        let rate = bytes.saturating_sub(self.counted) as f64 / 1024.0 / time.as_secs_f64();
        self.counted = bytes;
        self.since = now;
        self.smoothed = Some(self.smoothed.map_or(rate, |was| (rate + was) / 2.0));
        self.smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::new(Duration::from_secs(seconds))
    }

    /// Samples of (second, KiB so far, expected) by someone who needs two seconds to tell a rate.
    fn play(row: Option<f64>, samples: &[(u64, u64, Option<f64>)]) {
        let mut throughput = Throughput::new(row, at(0));
        for (second, kib, expected) in samples {
            let found = throughput.sample(kib * 1024, Duration::from_secs(2), at(*second));
            assert_eq!(found, *expected, "at {second} s");
        }
    }

    #[test]
    fn the_first_rate_is_taken_as_it_is_and_later_ones_by_half() {
        play(
            None,
            &[
                (4, 400, Some(100.0)),
                (8, 400, Some(50.0)),
                (12, 1_200, Some(125.0)),
            ],
        );
    }

    #[test]
    fn a_row_that_has_a_number_is_gone_on_from() {
        play(Some(60.0), &[(4, 400, Some(80.0)), (8, 400, Some(40.0))]);
        play(Some(f64::NAN), &[(4, 400, Some(100.0))]);
    }

    #[test]
    fn a_shard_without_records_has_none() {
        play(None, &[(4, 0, None), (8, 0, None), (12, 400, Some(100.0))]);
    }

    #[test]
    fn writes_that_follow_closely_repeat_the_number() {
        play(
            None,
            &[
                (1, 100, None),
                (2, 100, Some(50.0)),
                (3, 900, Some(50.0)),
                (4, 900, Some(225.0)),
            ],
        );
    }
}
