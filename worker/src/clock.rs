//! The only file that reads a clock.
#![allow(clippy::disallowed_methods)] // that is what this file is for

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lease::Time;

/// The clocks of one worker: the monotonic one (tokio's, which tests pause) as time since the worker's start, and a
/// wall clock that the caller may replace.
#[derive(Clone)]
pub struct Clock {
    origin: tokio::time::Instant,
    wall: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// Starts now, with the system's wall clock.
    pub fn start() -> Self {
        Self::with_wall(Arc::new(system_wall))
    }

    /// Starts now, with this wall clock (epoch milliseconds).
    pub fn with_wall(wall: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        Clock {
            origin: tokio::time::Instant::now(),
            wall,
        }
    }

    /// Monotonic time since the start.
    pub fn mono(&self) -> Time {
        Time::new(self.origin.elapsed())
    }

    /// The wall clock, epoch milliseconds. Never used to decide who holds what.
    pub fn wall(&self) -> i64 {
        (self.wall)()
    }

    /// Waits until `at`; for ever if that is [`Time::NEVER`].
    pub async fn sleep_until(&self, at: Time) {
        match self.origin.checked_add(at.since_origin()) {
            Some(at) if at.duration_since(self.origin) < Duration::from_secs(86_400 * 365) => {
                tokio::time::sleep_until(at).await;
            }
            _ => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// The system's wall clock, epoch milliseconds.
pub fn system_wall() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The clock that paces `backoff`'s policies, in the form that crate wants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PolicyClock;

impl PolicyClock {
    /// Tokio's clock, so that paused time counts.
    pub(crate) fn now(self) -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
}
