//! The only file that reads a clock.
#![allow(clippy::disallowed_methods)] // that is what this file is for

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lease::Time;

/// The clocks of one worker: the monotonic one (tokio's, which tests pause) as time since the worker's start, and a
/// wall clock that the caller may replace.
#[derive(Clone)]
pub struct Clock {
    origin: tokio::time::Instant,
    wall: Arc<dyn Fn() -> i64 + Send + Sync>,
    asleep: Arc<Asleep>,
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
            asleep: Arc::new(Asleep::since_now(Box::new(suspended))),
        }
    }

    /// Monotonic time since the start. It counts while the host is suspended, which tokio's clock does not: a lease
    /// runs out meanwhile, and who wakes up must not believe in it.
    pub fn mono(&self) -> Time {
        Time::new(self.origin.elapsed() + self.asleep.total())
    }

    /// The wall clock, epoch milliseconds. Never used to decide who holds what.
    pub fn wall(&self) -> i64 {
        (self.wall)()
    }

    /// Waits until `at`; for ever if that is [`Time::NEVER`].
    pub async fn sleep_until(&self, at: Time) {
        // A suspension while it waits delays it by as long: nobody waits for longer than a beat at a time.
        let awake = at.since_origin().saturating_sub(self.asleep.total());
        match self.origin.checked_add(awake) {
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

/// How long the host was suspended since the clock was started.
struct Asleep {
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    before: Duration,
    /// Microseconds that are known of: it never goes back.
    known: AtomicU64,
}

/// The two clocks are read one after the other: a smaller difference is no suspension.
const LEAST_SLEEP: Duration = Duration::from_millis(50);

impl Asleep {
    fn since_now(now: Box<dyn Fn() -> Duration + Send + Sync>) -> Self {
        Asleep {
            before: now(),
            now,
            known: AtomicU64::new(0),
        }
    }

    fn total(&self) -> Duration {
        let known = Duration::from_micros(self.known.load(Ordering::Relaxed));
        let total = (self.now)().saturating_sub(self.before);
        if total < known + LEAST_SLEEP {
            return known;
        }
        let micros = u64::try_from(total.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.known.fetch_max(micros, Ordering::Relaxed).max(micros))
    }
}

/// How long the host was suspended since it was started: one of its clocks counts that, the other does not.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let running = clock_gettime(ClockId::Monotonic);
    let whole = clock_gettime(ClockId::Boottime);
    let since_boot = |at: rustix::time::Timespec| {
        Duration::try_from(at).expect("time since the start is not negative")
    };
    since_boot(whole).saturating_sub(since_boot(running))
}

/// Not known here: a worker that was suspended may hand records over until its next renewal is refused.
#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock whose host sleeps as told, in milliseconds.
    fn sleepy(before: u64) -> (Clock, Arc<AtomicU64>) {
        let slept = Arc::new(AtomicU64::new(before));
        let told = slept.clone();
        let now = move || Duration::from_millis(told.load(Ordering::Relaxed));
        let clock = Clock {
            asleep: Arc::new(Asleep::since_now(Box::new(now))),
            ..Clock::start()
        };
        (clock, slept)
    }

    fn at(millis: u64) -> Time {
        Time::new(Duration::from_millis(millis))
    }

    #[tokio::test(start_paused = true)]
    async fn time_counts_while_the_host_is_suspended() {
        let (clock, slept) = sleepy(7_000);
        assert_eq!(
            clock.mono(),
            at(0),
            "what was before the start does not count"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        slept.fetch_add(30_000, Ordering::Relaxed);
        assert_eq!(clock.mono(), at(31_000));
        assert_eq!(clock.clone().mono(), at(31_000));
        let before = tokio::time::Instant::now();
        clock.sleep_until(at(33_000)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        assert_eq!(clock.mono(), at(33_000));
    }

    #[tokio::test(start_paused = true)]
    async fn two_clocks_that_are_read_one_after_the_other_make_no_time() {
        let (clock, slept) = sleepy(1_000);
        for reading in [1_049, 990, 1_000, 1_020] {
            slept.store(reading, Ordering::Relaxed);
            assert_eq!(clock.mono(), at(0), "{reading}");
        }
        slept.store(61_000, Ordering::Relaxed);
        assert_eq!(clock.mono(), at(60_000));
        for reading in [60_999, 61_049] {
            slept.store(reading, Ordering::Relaxed);
            assert_eq!(clock.mono(), at(60_000), "{reading}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_host_tells_how_long_it_was_suspended() {
        let first = suspended();
        assert!(suspended() < first + LEAST_SLEEP, "it is awake now");
    }
}
