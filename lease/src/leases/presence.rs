//! Rule: what a worker says of itself – its heartbeat on the leader lock, and its own row.
//!
//! Only who has looked at the table wants to lead; who leaves gives the lock back. The own row comes less often from
//! one who holds leases, since those speak for it; one that leaves says so in it at once.

use super::{Action, Leases, News, Now};
use crate::time::Time;

/// When this worker's row is written.
#[derive(Debug)]
pub(super) struct OwnRow {
    pub(super) next: Time,
    /// A write is under way.
    asked: bool,
}

impl OwnRow {
    pub(super) fn new(now: Time) -> Self {
        OwnRow {
            next: now,
            asked: false,
        }
    }

    pub(super) fn due(&self) -> Time {
        if self.asked { Time::NEVER } else { self.next }
    }
}

impl Leases {
    pub(super) fn wants_to_lead(&self) -> bool {
        !self.leaving && self.sight.loaded()
    }

    pub(super) fn leadership(&mut self, now: Now) {
        if self.leaving {
            if let Some(write) = self.leader.release(now.mono) {
                self.out.push(Action::Lock(write));
            }
        } else if let Some(write) = self.leader.poll(self.wants_to_lead(), now.mono) {
            self.out.push(Action::Lock(write));
        }
        let leads = self.leader.leads(now.mono);
        if leads != self.led {
            self.led = leads;
            self.replan = true;
            if leads {
                self.list_shards_anew();
            }
            self.out.push(Action::Tell(News::Leads(leads)));
        }
    }

    pub(super) fn write_own_row(&mut self, now: Now) {
        if now.mono < self.own_row.due() {
            return;
        }
        let every = if self.held.is_empty() {
            self.settings.timing.idle_worker_row_every()
        } else {
            self.settings.timing.worker_row_every()
        };
        self.own_row.asked = true;
        self.own_row.next = now.mono + every;
        self.out.push(Action::PutWorker {
            every,
            leaving: self.leaving,
        });
    }

    pub(super) fn worker_put(&mut self, ok: bool, now: Now) {
        self.own_row.asked = false;
        if !ok {
            self.own_row.next = now.mono + self.settings.timing.retry_after(4, 0);
        }
    }
}
