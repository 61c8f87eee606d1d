//! What the probes say, from what the coordinator reports.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The process should be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator has not beaten for {age:?}; its limit is {limit:?}")]
pub struct NotLive {
    /// Since the last beat.
    pub age: Duration,
    /// The age at which the coordinator counts as dead.
    pub limit: Duration,
}

/// The process works, or will, but takes no part now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The lease table does not answer.
    #[error("the lease table is not reachable")]
    TableUnreachable,
    /// The first view of the lease table is not complete.
    #[error("the leases are not loaded yet")]
    LeasesNotLoaded,
}

/// The health of the worker; clones share it. The coordinator writes, the admin server reads.
///
/// Not live means that only a restart helps, so it depends on nothing outside the process: a worker that cannot reach
/// its table is alive and not ready, for restarting it would not bring the table back.
#[derive(Clone)]
pub struct Health(Arc<State>);

struct State {
    beat_age: Box<dyn Fn() -> Duration + Send + Sync>,
    limit: Duration,
    table_reachable: AtomicBool,
    leases_loaded: AtomicBool,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("live", &self.live())
            .field("ready", &self.ready())
            .finish()
    }
}

impl Health {
    /// Live while `beat_age`, the time since the coordinator last went round, is at most `limit`. Not ready at first.
    pub fn new(limit: Duration, beat_age: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let (table_reachable, leases_loaded) = (AtomicBool::new(false), AtomicBool::new(false));
        Health(Arc::new(State {
            beat_age: Box::new(beat_age),
            limit,
            table_reachable,
            leases_loaded,
        }))
    }

    /// The lease table answered, or failed to.
    pub fn table_reachable(&self, reachable: bool) {
        self.0.table_reachable.store(reachable, Ordering::Relaxed);
    }

    /// The first view of the lease table is complete.
    pub fn leases_loaded(&self) {
        self.0.leases_loaded.store(true, Ordering::Relaxed);
    }

    /// What `/livez` says.
    ///
    /// # Errors
    /// If the coordinator has stopped beating.
    pub fn live(&self) -> Result<(), NotLive> {
        let (age, limit) = ((self.0.beat_age)(), self.0.limit);
        if age > limit {
            Err(NotLive { age, limit })
        } else {
            Ok(())
        }
    }

    /// What `/readyz` says.
    ///
    /// # Errors
    /// If the table does not answer or the leases are not loaded.
    pub fn ready(&self) -> Result<(), NotReady> {
        if !self.0.table_reachable.load(Ordering::Relaxed) {
            return Err(NotReady::TableUnreachable);
        }
        if !self.0.leases_loaded.load(Ordering::Relaxed) {
            return Err(NotReady::LeasesNotLoaded);
        }
        Ok(())
    }
}
