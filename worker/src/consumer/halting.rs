//! Word: what a consumer was told, and why it ends.
//!
//! Told to drain, the batch in hand completes and nothing more is read; told that the lease is lost or given up, whatever
//! runs is dropped where it stands. One who drains may still be told so.

use lease::{Shard, leases::Halt};
use tokio::sync::watch;

/// Why the loop ended.
pub(super) enum End {
    Ended(Vec<Shard>),
    Drained,
    Lost,
    Cancelled,
}

/// What the consumer was told.
pub(super) struct Halting(pub(super) watch::Receiver<Option<Halt>>);

impl Halting {
    pub(super) fn told(&self) -> Option<Halt> {
        *self.0.borrow()
    }

    /// Whether everything that runs is to be cut off.
    pub(super) fn cuts(&self) -> bool {
        matches!(self.told(), Some(Halt::Lost | Halt::Cancel))
    }

    pub(super) fn drains(&self) -> bool {
        self.told().is_some()
    }

    /// Waits until told something new. A coordinator that is gone says nothing more; it aborts this task.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn until_cut(&mut self) {
        while !self.cuts() {
            self.changed().await;
        }
    }

    /// Runs a call of the processor until it is done or cut off (`None`).
    pub(super) async fn cut_off<T>(&mut self, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.until_cut() => None,
            result = call => Some(result),
        }
    }
}
