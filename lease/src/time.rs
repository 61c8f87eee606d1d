//! Word: a point on one process's monotonic clock.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// Time since an arbitrary origin of **this** process, on its monotonic clock.
///
/// Rules take it as `now` and never read a clock. Values of two processes are never compared: the lease protocol
/// needs no agreement between clocks, only that each of them runs at about the same rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(Duration::ZERO);
    /// Later than every time that will ever be reached.
    pub const NEVER: Time = Time(Duration::MAX);

    /// A point `since_origin` after the origin.
    pub const fn new(since_origin: Duration) -> Self {
        Time(since_origin)
    }

    /// How long after the origin this is.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long `self` lies after `earlier`; zero if it does not.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, by: Duration) -> Time {
        Time(self.0.saturating_add(by))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    /// Saturates at the origin.
    fn sub(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(by))
    }
}
