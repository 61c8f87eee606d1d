//! Word: how many records a time takes.

use std::{str::FromStr, time::Duration};

/// Records per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, seconds) = match text.split_once('/') {
            None | Some((_, "s")) => (text.trim_end_matches("/s"), 1.0),
            Some((number, "m")) => (number, 60.0),
            Some((number, "h")) => (number, 3_600.0),
            Some(_) => (text, 1.0),
        };
        let number: Option<u32> = number.parse().ok().filter(|number| *number > 0);
        number
            .map(|number| Rate(f64::from(number) / seconds))
            .ok_or_else(|| "write a whole number and /s, /m or /h, e.g. 500/s".to_owned())
    }
}

impl Rate {
    /// When record `number` (from 0) is due, after the start.
    pub(super) fn due(self, number: u64) -> Duration {
        Duration::try_from_secs_f64(number as f64 / self.0).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_spread_evenly() {
        for (text, per_second) in [
            ("500/s", 500.0),
            ("500", 500.0),
            ("30/m", 0.5),
            ("36/h", 0.01),
        ] {
            assert_eq!(text.parse(), Ok(Rate(per_second)), "{text}");
        }
        for text in ["", "0/s", "/s", "5/d", "1.5/s", "-1/s", "5/s/s", "x"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!(Rate(500.0).due(0), Duration::ZERO);
        assert_eq!(Rate(500.0).due(250), Duration::from_millis(500));
    }
}
