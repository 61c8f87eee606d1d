//! Whether this worker lives and is of use: what the probes ask.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use lease::Time;

/// Shared by the coordinator, who writes, and the admin server, who reads.
#[derive(Debug, Default)]
pub struct Health {
    /// The last turn of the control plane, milliseconds of the worker's clock.
    beat: AtomicU64,
    /// The last good answer of the table.
    table: AtomicU64,
    loaded: AtomicBool,
}

fn millis(at: Time) -> u64 {
    u64::try_from(at.since_origin().as_millis()).unwrap_or(u64::MAX)
}

impl Health {
    pub(crate) fn beat(&self, now: Time) {
        self.beat.store(millis(now), Ordering::Relaxed);
    }

    pub(crate) fn table_answered(&self, well: bool, now: Time) {
        if well {
            self.table.store(millis(now), Ordering::Relaxed);
            self.loaded.store(true, Ordering::Relaxed);
        }
    }

    /// How long ago the control plane last turned.
    pub fn silent_for(&self, now: Time) -> Duration {
        now.since(Time::new(Duration::from_millis(
            self.beat.load(Ordering::Relaxed),
        )))
    }

    /// How long ago the table last answered a list well.
    pub fn table_silent_for(&self, now: Time) -> Duration {
        now.since(Time::new(Duration::from_millis(
            self.table.load(Ordering::Relaxed),
        )))
    }

    /// The table was read at least once.
    pub fn loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }
}
