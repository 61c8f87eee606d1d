//! The model behind a lock, for the HTTP front and for use in the same process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::model::Kinesis;

/// A handle to the in-memory Kinesis; clones share it. Operations take microseconds, so a plain lock does; hold it across no `await`.
#[derive(Debug, Clone)]
pub struct SharedKinesis(Arc<Mutex<Kinesis>>);

impl SharedKinesis {
    /// Shares a Kinesis.
    #[must_use]
    pub fn new(kinesis: Kinesis) -> Self {
        Self(Arc::new(Mutex::new(kinesis)))
    }

    /// The model itself.
    pub fn lock(&self) -> MutexGuard<'_, Kinesis> {
        // A panic in one operation leaves at worst that operation half done; the emulator goes on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
