//! A simulated world: real workers ([`shardkeeper::run::Worker::run`]) on one paused runtime, around them an in-memory
//! Kinesis and lease table whose every call may fail, all drawn from one seed.
//!
//! ```text
//!   plan ─▶ stage ─┬─ producer ──▶ kinesis ──▶┐
//!                  ├─ workers (gate: freeze, crash) ──▶ processor ─┐
//!                  └─ table  ◀───────────────┘                    ▼
//!                        every put, applied write, hand-over, blow ─▶ history
//! ```
//! One thread, virtual time, ordered maps and seeded dice: the same seed gives the same history.

pub mod faults;
pub mod gate;
pub mod history;
pub mod kinesis;
pub mod plan;
mod play;
pub mod processor;
pub mod producer;
pub mod stage;
pub mod table;
pub mod workers;

use std::time::Duration;

pub use history::{Event, History};
pub use plan::Plan;

/// Runs a plan to its end and tells what happened.
///
/// # Panics
/// When the runtime cannot be built.
pub fn simulate(plan: &Plan) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(play::play(plan))
}

/// Milliseconds, as histories and Kinesis count.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
