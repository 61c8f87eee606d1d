//! Rule: what an answer, or a row that a list shows, means for its holder.
//!
//! * A refused write means lost, with two exceptions that the row itself proves: a hand-over was started (the counter
//!   did not move), or a write of this very tenure whose answer was unclear got through (one step further, and just
//!   what that write would leave) – hazard H21. The belief then rests on the moment **that** write was sent.
//! * A write without a clear answer is followed by a read of the row before anything else is written (hazard H22).
//!   A read that does not show it proves nothing for later: the write may still be on its way.

use super::{Held, InFlight, Last, Phase, Stage, salt};
use crate::{lease::Lease, table::TableError, time::Time};

/// What an answer means.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Still held; belief and stored position may have moved.
    Held,
    /// Still held, and a hand-over by somebody else was noticed.
    HandOver,
    /// Nothing is known yet; a later try will tell.
    Open,
    /// Somebody else has it. The row as it stands, if known.
    Lost(Option<Box<Lease>>),
    /// Given back, as intended.
    Released(Box<Lease>),
    /// Given to the heir, as intended.
    HandedOver(Box<Lease>),
    /// The shard's end is stored.
    Finished(Box<Lease>),
}

/// The row has to be read; since when it is asked for.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Doubt {
    pub(super) asked: Option<Time>,
}

impl Held {
    /// The answer to the write under way.
    pub fn answered(&mut self, result: Result<Option<Lease>, TableError>, now: Time) -> Outcome {
        let Some(write) = self.in_flight.take() else {
            return Outcome::Open;
        };
        match result {
            Ok(Some(row)) => self.went_through(row, &write, now),
            Ok(None) => Outcome::Lost(None),
            Err(TableError::Changed(Some(row))) => {
                self.unclear.push(write);
                self.refused(*row, now)
            }
            Err(TableError::Changed(None) | TableError::Unknown(_) | TableError::Unreadable(_)) => {
                self.put_off(now);
                self.unclear.push(write);
                self.doubt = Some(Doubt { asked: None });
                Outcome::Open
            }
            Err(TableError::Throttled(_) | TableError::Missing(_) | TableError::Refused(_)) => {
                self.put_off(now);
                self.urgent = true;
                Outcome::Open
            }
        }
    }

    /// The answer to the read that settles a doubt.
    pub fn read(&mut self, result: Result<Option<Lease>, TableError>, now: Time) -> Outcome {
        let Some(Doubt { asked: Some(asked) }) = self.doubt.take() else {
            return Outcome::Open;
        };
        match result {
            Ok(None) => Outcome::Lost(None),
            Ok(Some(row)) => {
                if row.counter == self.lease.counter {
                    // Whatever is still on its way gets through after this read was asked for.
                    for write in &mut self.unclear {
                        write.sent = write.sent.max(asked);
                    }
                }
                self.refused(row, now)
            }
            Err(_) => {
                self.put_off(now);
                self.doubt = Some(Doubt { asked: None });
                Outcome::Open
            }
        }
    }

    fn went_through(&mut self, row: Lease, write: &InFlight, now: Time) -> Outcome {
        self.failures = 0;
        self.not_before = Time::ZERO;
        self.unclear.clear();
        self.sent = write.sent;
        let outcome = self.took_over(row, now);
        let row = || Box::new(self.lease.clone());
        match write.last {
            Last::No | Last::Revert => outcome,
            Last::Release => Outcome::Released(row()),
            Last::HandOver => Outcome::HandedOver(row()),
            Last::ShardEnd => Outcome::Finished(row()),
        }
    }

    /// The row is perhaps not as the last write expected.
    fn refused(&mut self, row: Lease, now: Time) -> Outcome {
        self.urgent = true;
        if row.counter == self.lease.counter && row.reader() == Some(&self.me) {
            return self.same_counter(row, now);
        }
        // If several writes of mine could have left the row so, the earliest may have.
        let explained = self
            .unclear
            .iter()
            .filter(|write| self.explains(write, &row))
            .min_by_key(|write| write.sent)
            .cloned();
        match explained {
            Some(write) => {
                let outcome = self.went_through(row, &write, now);
                self.urgent = true;
                outcome
            }
            None => Outcome::Lost(Some(Box::new(row))),
        }
    }

    /// Whether `write`, done on the row as it is known here, leaves `row`.
    fn explains(&self, write: &InFlight, row: &Lease) -> bool {
        let checkpoint = write.checkpoint.as_ref().unwrap_or(&self.lease.checkpoint);
        if row.counter != self.lease.counter + 1 || row.checkpoint != *checkpoint {
            return false;
        }
        let mine = row.session.as_ref() == Some(&self.session) && row.reader() == Some(&self.me);
        match write.last {
            Last::No => mine,
            Last::Revert => mine && !row.handing_over(),
            Last::ShardEnd => row.ended(),
            Last::Release => row.reader().is_none(),
            Last::HandOver => !row.handing_over() && row.owner == self.lease.owner,
        }
    }

    /// Looks at a row that a list showed. A hand-over that somebody started shows in it before the next renewal.
    pub fn observed(&mut self, row: &Lease, now: Time) -> Outcome {
        if self.in_flight.is_some() || self.doubt.is_some() {
            return Outcome::Open;
        }
        if row.counter > self.lease.counter {
            return self.refused(row.clone(), now);
        }
        if row.counter < self.lease.counter || row.reader() != Some(&self.me) {
            return Outcome::Open;
        }
        self.same_counter(row.clone(), now)
    }

    /// The counter has not moved, but a hand-over may have begun or been answered – or the row is an old sight.
    fn same_counter(&mut self, row: Lease, now: Time) -> Outcome {
        if row.version() <= self.lease.version() {
            return Outcome::Held;
        }
        self.took_over(row, now)
    }

    /// Makes `row` the one that is held, and the phase what the row says about a hand-over.
    fn took_over(&mut self, row: Lease, now: Time) -> Outcome {
        self.lease = row;
        let heir = self
            .lease
            .owner
            .clone()
            .filter(|_| self.lease.handing_over());
        let (phase, outcome) = match (&self.phase, heir) {
            (Phase::Ended { .. }, _) => return Outcome::Held,
            (Phase::HandOver { since, stage, .. }, Some(to)) if *stage != Stage::Offered => {
                let (since, stage) = (*since, *stage);
                (Phase::HandOver { to, since, stage }, Outcome::Held)
            }
            (phase, Some(to)) => {
                let stage = match phase {
                    Phase::Leaving { stage, .. } => *stage,
                    Phase::Blocked => Stage::Drained,
                    _ => Stage::Waiting,
                };
                let since = now;
                (Phase::HandOver { to, since, stage }, Outcome::HandOver)
            }
            // The hand-over was taken back.
            (Phase::HandOver { since, stage, .. }, None) => match stage {
                Stage::Offered => return Outcome::Held,
                Stage::Waiting => (Phase::Running, Outcome::Held),
                Stage::Draining | Stage::Cut | Stage::Drained => {
                    let (since, stage) = (*since, *stage);
                    (Phase::Leaving { since, stage }, Outcome::Held)
                }
            },
            (_, None) => return Outcome::Held,
        };
        self.phase = phase;
        outcome
    }

    fn put_off(&mut self, now: Time) {
        self.failures += 1;
        self.not_before = now
            + self
                .timing
                .retry_after(self.failures, salt(&self.lease.key, self.failures));
    }
}
