//! Rule: the consumer behind a held row – when it starts, how it is stopped, what its end means.
//!
//! It starts when the parents of the shard are at their end and the former consumer of the same row is gone (hazard H8).
//! One that ends by itself, or makes no progress, gives its lease back, and this worker leaves the row alone for a while.

use checkpoint::Position;

use super::{Action, Halt, Leases, News, Now, writes::UnderWay};
use crate::{
    id::LeaseKey,
    lease::Lease,
    renew::{Held, Phase, Stage, Tenure},
    write::Write,
};

impl Leases {
    /// A row that was seized by a write.
    pub(super) fn seized(&mut self, row: Lease, UnderWay { write, sent, .. }: UnderWay, now: Now) {
        let key = row.key.clone();
        self.entitled.remove(&key);
        if row.ended() || now.mono >= self.settings.timing.valid_until(sent) {
            return;
        }
        let how = write.name();
        let from = match write {
            Write::Take { owner, .. } => owner.filter(|owner| *owner != self.settings.me),
            _ => None,
        };
        self.out.push(Action::Tell(News::Took {
            key: key.clone(),
            how,
            from,
        }));
        let held = Held::new(
            row,
            self.settings.session.clone(),
            sent,
            true,
            self.settings.timing,
        );
        self.held.insert(key.clone(), held);
        if self.leaving {
            self.let_nobody(&key, now);
        } else {
            self.start_if_possible(&key);
        }
    }

    /// Starts the consumers of rows whose parents are done by now.
    pub(super) fn start_blocked(&mut self) {
        for key in self.keys_of_held(|held| held.phase == Phase::Blocked) {
            self.start_if_possible(&key);
        }
    }

    fn start_if_possible(&mut self, key: &LeaseKey) {
        let Some(held) = self.held.get(key) else {
            return;
        };
        if self.winding_down.contains_key(key) || !self.startable(&held.lease) {
            return;
        }
        let no_timestamp =
            held.lease.checkpoint == Position::AtTimestamp && held.lease.pinned.is_none();
        let range = self.listed_range(&held.lease);
        let held = self.held.get_mut(key).expect("looked at above");
        held.phase = Phase::Running;
        held.started = true;
        let mut lease = Box::new(held.lease.clone());
        // Rows of old KCL versions lack it, and without it user records of a sibling would be handed over (hazard H36).
        lease.range = lease.range.or(range);
        self.out.push(Action::Start {
            lease,
            tenure: held.tenure,
            valid_until: held.valid_until(),
        });
        if no_timestamp {
            self.out.push(Action::Tell(News::NoTimestamp(key.clone())));
        }
    }

    /// Tells the consumer to stop; without one the row is ready at once.
    pub(super) fn halt(&mut self, key: &LeaseKey, halt: Halt) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        if self.winding_down.get(key) == Some(&held.tenure) || held.started {
            self.winding_down.insert(key.clone(), held.tenure);
            self.out.push(Action::Stop {
                key: key.clone(),
                halt,
            });
        } else {
            Self::drained(held);
        }
    }

    fn drained(held: &mut Held) {
        if let Phase::HandOver { stage, .. } | Phase::Leaving { stage, .. } = &mut held.phase {
            *stage = Stage::Drained;
        }
    }

    /// The consumer of a row that is no longer held goes too.
    pub(super) fn wind_down(&mut self, key: &LeaseKey, held: &Held, halt: Halt) {
        if held.started {
            self.winding_down.insert(key.clone(), held.tenure);
            self.out.push(Action::Stop {
                key: key.clone(),
                halt,
            });
        }
    }

    /// The consumer of this tenure is gone; the row, if it is still held in it.
    pub(super) fn consumer_gone(&mut self, key: &LeaseKey, tenure: Tenure) -> Option<&mut Held> {
        if self.winding_down.get(key) == Some(&tenure) {
            self.winding_down.remove(key);
        }
        self.replan = true;
        let held = self
            .held
            .get_mut(key)
            .filter(|held| held.tenure == tenure)?;
        held.started = false;
        Some(held)
    }

    /// A consumer is gone, told to or by itself.
    pub(super) fn stopped(&mut self, key: &LeaseKey, tenure: Tenure, now: Now) {
        let Some(held) = self.consumer_gone(key, tenure) else {
            return;
        };
        if held.phase == Phase::Running {
            // It ended by itself: the lease goes back, so that somebody else reads the shard.
            held.phase = Phase::Leaving {
                since: now.mono,
                stage: Stage::Drained,
            };
            self.leave_alone(key, now);
        } else {
            Self::drained(held);
        }
    }

    /// A row that did not go well here is for others.
    fn leave_alone(&mut self, key: &LeaseKey, now: Now) {
        let until = now.mono + self.settings.timing.avoid_for();
        self.avoid.insert(key.clone(), until);
    }

    /// A consumer makes no progress: it is cut off, and the row goes to nobody, or to the heir it names.
    pub(super) fn stuck(&mut self, key: &LeaseKey, tenure: Tenure, now: Now) {
        let Some(held) = self.held.get_mut(key).filter(|held| held.tenure == tenure) else {
            return;
        };
        let (since, stage) = (now.mono, Stage::Cut);
        match &held.phase {
            Phase::Running
            | Phase::Leaving {
                stage: Stage::Draining,
                ..
            } => held.phase = Phase::Leaving { since, stage },
            // Also for an heir that does not answer: the row would be taken back, and renewed for ever.
            Phase::HandOver {
                to,
                stage: Stage::Offered | Stage::Waiting | Stage::Draining,
                ..
            } => {
                let to = to.clone();
                held.phase = Phase::HandOver { to, since, stage };
            }
            Phase::Blocked
            | Phase::HandOver { .. }
            | Phase::Leaving { .. }
            | Phase::Ended { .. } => {}
        }
        self.leave_alone(key, now);
        self.out.push(Action::Tell(News::Stuck(key.clone())));
        self.halt(key, Halt::Cancel);
    }
}
