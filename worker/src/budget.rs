//! Bytes that may be read ahead of the handlers, over all shards of the process.
//!
//! A reader reserves what it expects before it asks, and corrects that by what came. A page that is larger than
//! expected puts the budget into debt, so that the next reader waits: the bound holds but for one page per shard whose
//! size nobody could know.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::sync::Notify;

/// The budget of one process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: i64,
    used: AtomicI64,
    freed: Notify,
}

/// Bytes that are taken from a budget; dropping gives them back.
#[derive(Debug)]
pub struct Reserved {
    budget: Budget,
    bytes: i64,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> Self {
        Budget(Arc::new(Inner {
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            used: AtomicI64::new(0),
            freed: Notify::new(),
        }))
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        u64::try_from(self.0.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        u64::try_from(self.0.limit).unwrap_or(0)
    }

    /// Waits until `bytes` fit, and takes them. More than the whole budget fits once nothing else is in use.
    pub async fn reserve(&self, bytes: usize) -> Reserved {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).min(self.0.limit);
        loop {
            let freed = self.0.freed.notified();
            let taken = self
                .0
                .used
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                    (used + bytes <= self.0.limit).then_some(used + bytes)
                });
            if taken.is_ok() {
                // Others may fit beside it.
                self.0.freed.notify_one();
                return Reserved {
                    budget: self.clone(),
                    bytes,
                };
            }
            freed.await;
        }
    }
}

impl Reserved {
    /// Corrects the reservation by what is really held.
    pub fn set(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let more = bytes - self.bytes;
        self.bytes = bytes;
        self.budget.0.used.fetch_add(more, Ordering::AcqRel);
        if more < 0 {
            self.budget.0.freed.notify_one();
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::AcqRel);
        self.budget.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn a_reader_waits_for_room_and_gets_it_when_another_gives_back() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(60).now_or_never().expect("fits");
        let mut second = Box::pin(budget.reserve(60));
        assert!(second.as_mut().now_or_never().is_none());
        first.set(40);
        assert_eq!(budget.used(), 40);
        let second = second.now_or_never().expect("fits now");
        assert_eq!(budget.used(), 100);
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_page_larger_than_expected_makes_the_next_reader_wait() {
        let budget = Budget::new(100);
        let mut large = budget.reserve(10).now_or_never().expect("fits");
        large.set(500);
        assert!(budget.reserve(1).now_or_never().is_none());
        drop(large);
        // One that is larger than the whole budget is served when nothing else is in use.
        assert!(budget.reserve(1_000).now_or_never().is_some());
    }
}
