//! The wall clock of the embedded AWS. The model never reads it; the fronts ask once per request.

use std::sync::Arc;

/// Tells the time in epoch milliseconds. A test may hand in its own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The clock of the host.
#[must_use]
pub fn system() -> Clock {
    Arc::new(crate::clock::system_wall)
}
