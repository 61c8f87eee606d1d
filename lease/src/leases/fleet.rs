//! Rule: the fleet in numbers, as this worker sees it; for metrics.

use super::{Leases, Now};
use crate::{lease::Lease, renew::Phase};

/// The fleet, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Living workers.
    pub workers: usize,
    /// Leases that nobody holds and that could be read.
    pub unassigned: usize,
    /// Leases whose holder is dead.
    pub expired: usize,
    /// Leases that wait for a parent.
    pub blocked: usize,
}

impl Leases {
    /// The fleet as last seen.
    pub fn fleet(&self, now: Now) -> Fleet {
        let timing = self.settings.timing;
        let mut fleet = Fleet {
            workers: self.living_workers(now).len(),
            ..Fleet::default()
        };
        let ours = |lease: &&Lease| !lease.ended() && self.stream_of(lease).is_some();
        for lease in self.sight.rows().filter(ours) {
            let unread = self.sight.unread(&lease.key, timing, now.mono).is_some();
            if self.held.contains_key(&lease.key) || !unread {
                continue;
            }
            match (self.startable(lease), lease.owner.is_some()) {
                (false, _) => fleet.blocked += 1,
                (true, false) => fleet.unassigned += 1,
                (true, true) => fleet.expired += 1,
            }
        }
        fleet.blocked += self
            .held
            .values()
            .filter(|held| held.phase == Phase::Blocked)
            .count();
        fleet
    }
}
