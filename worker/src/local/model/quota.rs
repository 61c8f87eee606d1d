//! Per-shard rates. Rule: what is used counts against windows of one second; a use larger than a window fills as many
//! windows as it needs. So two pages of 1 MB fit in one second of 2 MB, and a page of 10 MB closes the next five seconds.

/// One rate of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    per_second: u64,
    window_start: i64,
    used: u64,
}

impl Quota {
    pub(crate) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            window_start: i64::MIN / 2,
            used: 0,
        }
    }

    /// How much may still be used at `now` (epoch milliseconds).
    pub(crate) fn room(&self, now: i64) -> u64 {
        if now >= self.frees_at() {
            self.per_second
        } else {
            self.per_second.saturating_sub(self.used)
        }
    }

    /// Counts a use; the caller decided with [`Quota::room`] that it may happen.
    pub(crate) fn charge(&mut self, amount: u64, now: i64) {
        if now >= self.frees_at() {
            self.window_start = now;
            self.used = 0;
        }
        self.used += amount;
    }

    fn frees_at(&self) -> i64 {
        let millis = (self.used.saturating_mul(1000) / self.per_second.max(1)).max(1000);
        self.window_start
            .saturating_add(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

/// The rates of a shard that the service publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardQuotas {
    /// GetRecords calls: 5 per second.
    pub read_calls: Quota,
    /// Bytes out by GetRecords: 2 MiB per second.
    pub read_bytes: Quota,
    /// GetShardIterator calls: 5 per second.
    pub iterator_calls: Quota,
    /// Bytes in: 1 MiB per second.
    pub write_bytes: Quota,
    /// Records in: 1,000 per second.
    pub write_records: Quota,
}

impl Default for ShardQuotas {
    fn default() -> Self {
        Self {
            read_calls: Quota::new(5),
            read_bytes: Quota::new(2 << 20),
            iterator_calls: Quota::new(5),
            write_bytes: Quota::new(1 << 20),
            write_records: Quota::new(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_fill_windows() {
        /// Capacity per second, uses as (at, amount), when it is asked, the room it has then.
        type Case = (u64, &'static [(i64, u64)], i64, u64);
        let cases: [Case; 7] = [
            (5, &[], 0, 5),
            (5, &[(0, 1), (200, 1), (400, 1), (600, 1), (800, 1)], 999, 0),
            (
                5,
                &[(0, 1), (200, 1), (400, 1), (600, 1), (800, 1)],
                1000,
                5,
            ),
            (2 << 20, &[(0, 1 << 20)], 200, 1 << 20),
            (2 << 20, &[(0, 10 << 20)], 4_999, 0),
            (2 << 20, &[(0, 10 << 20)], 5_000, 2 << 20),
            (1000, &[(0, 1000), (1000, 400)], 1999, 600),
        ];
        for (capacity, uses, at, room) in cases {
            let mut quota = Quota::new(capacity);
            for (when, amount) in uses {
                quota.charge(*amount, *when);
            }
            assert_eq!(quota.room(at), room, "{capacity}/s after {uses:?} at {at}");
        }
    }
}
