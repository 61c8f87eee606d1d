//! The wall clock of the embedded AWS. The model never reads it; the fronts ask once per request.
#![allow(clippy::disallowed_methods)] // the one file of `local` that may read the wall clock

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time in epoch milliseconds. A test may hand in its own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The clock of the host.
#[must_use]
pub fn system() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
