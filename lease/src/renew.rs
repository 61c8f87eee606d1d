//! Rule: one held lease – what its holder writes next, what an answer means, and when the holder stops believing.
//!
//! * At most one write is under way; a renewal carries the newest watermark.
//! * A belief rests on the moment the last good write was **sent** (hazard H3).
//! * A refused write means lost, with two exceptions that the row itself proves: a hand-over was started (the counter
//!   did not move), or a write of this very tenure whose answer was unclear got through (one step further, and just
//!   what that write would leave) – hazard H21. The belief then rests on the moment **that** write was sent.
//! * A write without a clear answer is followed by a read of the row before anything else is written (hazard H22).
//!   A read that does not show it proves nothing for later: the write may still be on its way.
//! * The stored position never goes back: a tenure starts from the row it seized and only writes what is greater.

use checkpoint::Position;

use crate::{
    id::{LeaseKey, Session, ShardId, WorkerId},
    lease::Lease,
    table::TableError,
    time::Time,
    timing::Timing,
    write::{Assign, Renew, Write},
};

/// One worker's uninterrupted hold of one lease: the counter at acquisition. Greater than any counter a former holder
/// ever wrote, so it can fence whatever that holder still has under way (hazard H2).
pub type Tenure = u64;

/// A lease this process holds.
#[derive(Clone, Debug, Hash)]
pub struct Held {
    /// The row, as the last good answer showed it.
    pub lease: Lease,
    /// When this tenure began.
    pub tenure: Tenure,
    /// What the holder is about to do with it.
    pub phase: Phase,
    /// A consumer reads the shard.
    pub started: bool,
    me: WorkerId,
    session: Session,
    timing: Timing,
    /// When the last good write was sent.
    sent: Time,
    /// When `lease.checkpoint` was last looked after.
    checked: Time,
    in_flight: Option<InFlight>,
    /// Writes on the present counter without a clear answer. At most one of them can ever get through.
    unclear: Vec<InFlight>,
    doubt: Option<Doubt>,
    not_before: Time,
    failures: u32,
    /// A caller waits for a checkpoint, or a phase is ready for its last write.
    urgent: bool,
}

/// What a holder is about.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Phase {
    /// Parents are not at their end; nothing is read yet.
    Blocked,
    /// Reading.
    Running,
    /// The lease goes to another worker.
    HandOver {
        /// The heir.
        to: WorkerId,
        /// Since when.
        since: Time,
        /// How far.
        stage: Stage,
    },
    /// The lease goes back to nobody.
    Leaving {
        /// Since when.
        since: Time,
        /// How far.
        stage: Stage,
    },
    /// The shard is read to its end; these children get rows, then the end is written.
    Ended {
        /// Rows still to be made.
        todo: Vec<Lease>,
        /// All children.
        children: Vec<ShardId>,
    },
}

/// How far a lease on its way out is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The holder means to hand over, but the row does not say so yet; reading goes on.
    Offered,
    /// The row names the heir, who has not answered; reading goes on.
    Waiting,
    /// Reading has stopped, the batch in hand completes.
    Draining,
    /// The batch in hand is cut off.
    Cut,
    /// The last position is known.
    Drained,
}

#[derive(Clone, Debug, Hash)]
struct InFlight {
    sent: Time,
    checkpoint: Option<Position>,
    last: Last,
}

/// Whether a write ends the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Last {
    No,
    Release,
    HandOver,
    ShardEnd,
    Revert,
}

/// The row has to be read; since when it is asked for.
#[derive(Clone, Copy, Debug, Hash)]
struct Doubt {
    asked: Option<Time>,
}

/// What to do for a held lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Write.
    Write(Write),
    /// Read the row: the last write has no clear answer.
    Read,
}

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

impl Held {
    /// A lease just acquired by a write sent at `sent` that returned `lease`.
    pub fn new(lease: Lease, session: Session, sent: Time, blocked: bool, timing: Timing) -> Self {
        Held {
            tenure: lease.counter,
            phase: if blocked {
                Phase::Blocked
            } else {
                Phase::Running
            },
            started: false,
            me: lease
                .owner
                .clone()
                .expect("a row that was just acquired has an owner"),
            session,
            timing,
            sent,
            checked: sent,
            in_flight: None,
            unclear: Vec::new(),
            doubt: None,
            not_before: Time::ZERO,
            failures: 0,
            urgent: false,
            lease,
        }
    }

    /// The holder may act on the lease before this time.
    pub fn valid_until(&self) -> Time {
        self.timing.valid_until(self.sent)
    }

    /// When the last good write was sent.
    pub fn renewed(&self) -> Time {
        self.sent
    }

    /// A write is under way.
    pub fn writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Write as soon as possible, not at the next renewal.
    pub fn hurry(&mut self) {
        self.urgent = true;
    }

    /// When [`Held::next`] has something to do. `Time::NEVER` while an answer is awaited.
    pub fn due(&self) -> Time {
        if self.in_flight.is_some() || self.doubt.is_some_and(|doubt| doubt.asked.is_some()) {
            return Time::NEVER;
        }
        if self.doubt.is_some() || self.urgent || self.ready_for_last() {
            return self.not_before;
        }
        self.renewal_due()
            .min(self.checked + self.timing.checkpoint_every())
            .max(self.not_before)
    }

    /// The first renewal comes early, at a point that differs from row to row: renewals of one worker are spread over
    /// the interval (hazard H23).
    fn renewal_due(&self) -> Time {
        let every = self.timing.renew_every();
        if self.lease.counter > self.tenure {
            return self.sent + every;
        }
        let spread = (salt(&self.lease.key, 0) % 1024) as f64 / 1024.0;
        self.sent + every.mul_f64(0.5 + 0.5 * spread)
    }

    fn ready_for_last(&self) -> bool {
        match &self.phase {
            Phase::HandOver { stage, .. } | Phase::Leaving { stage, .. } => {
                *stage == Stage::Drained
            }
            Phase::Ended { todo, .. } => todo.is_empty(),
            Phase::Blocked | Phase::Running => false,
        }
    }

    /// What to do now, if it is time. `watermark`: everything up to there is settled.
    pub fn next(&mut self, watermark: Option<&Position>, now: Time) -> Option<Next> {
        if now < self.due() {
            return None;
        }
        if let Some(doubt) = &mut self.doubt {
            doubt.asked = Some(now);
            return Some(Next::Read);
        }
        let checkpoint = watermark
            .filter(|watermark| **watermark > self.lease.checkpoint)
            .cloned();
        if checkpoint.is_none() && now < self.renewal_due() && !self.ready_for_last() {
            // Nothing new to store: look again when a renewal or the next checkpoint is due.
            self.urgent = false;
            self.checked = now;
            return None;
        }
        let (write, last) = self.write(checkpoint.clone());
        let checkpoint = write.checkpoint().cloned();
        self.urgent = false;
        self.checked = now;
        self.in_flight = Some(InFlight {
            sent: now,
            checkpoint,
            last,
        });
        Some(Next::Write(write))
    }

    fn write(&self, checkpoint: Option<Position>) -> (Write, Last) {
        let renew = Renew {
            key: self.lease.key.clone(),
            me: self.me.clone(),
            counter: self.lease.counter,
            handing_over: self.lease.handing_over(),
            checkpoint,
            children: Default::default(),
            throughput_kbps: None,
        };
        match &self.phase {
            Phase::HandOver {
                to,
                stage: Stage::Drained,
                ..
            } if self.lease.handing_over() => (
                Write::Complete {
                    renew,
                    to: to.clone(),
                },
                Last::HandOver,
            ),
            Phase::Leaving {
                stage: Stage::Drained,
                ..
            }
            | Phase::HandOver {
                stage: Stage::Drained,
                ..
            } => (Write::Release(renew), Last::Release),
            Phase::Ended { todo, children } if todo.is_empty() => {
                let renew = Renew {
                    checkpoint: Some(Position::ShardEnd),
                    children: children.iter().cloned().collect(),
                    ..renew
                };
                match (&self.lease.owner, renew.handing_over) {
                    (Some(to), true) => {
                        let to = to.clone();
                        (Write::Complete { renew, to }, Last::ShardEnd)
                    }
                    _ => (Write::Renew(renew), Last::ShardEnd),
                }
            }
            _ => (Write::Renew(renew), Last::No),
        }
    }

    /// Takes the lease back from an heir that does not answer. `None` while another write is under way.
    pub fn revert(&mut self, now: Time) -> Option<Write> {
        let heir = self.lease.owner.clone()?;
        if self.in_flight.is_some() || self.doubt.is_some() || !self.lease.handing_over() {
            return None;
        }
        self.in_flight = Some(InFlight {
            sent: now,
            checkpoint: None,
            last: Last::Revert,
        });
        Some(Write::Assign(Assign {
            key: self.lease.key.clone(),
            to: self.me.clone(),
            owner: Some(heir),
            checkpoint_owner: Some(self.me.clone()),
            counter: self.lease.counter,
        }))
    }

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

/// A number that differs from row to row and from try to try (FNV-1a): spreads load without a source of randomness.
fn salt(key: &LeaseKey, attempt: u32) -> u64 {
    key.as_str()
        .bytes()
        .chain(attempt.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests;
