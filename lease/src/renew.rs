//! Rule: one held lease – what its holder writes next, and when the holder stops believing. What an answer means is in
//! `renew/answer.rs`.
//!
//! * At most one write is under way; a renewal carries the newest watermark.
//! * A belief rests on the moment the last good write was **sent** (hazard H3).
//! * The stored position never goes back: a tenure starts from the row it seized and only writes what is greater.

mod answer;
mod phase;
mod throughput;

use checkpoint::Position;

use crate::{
    id::{LeaseKey, Session, WorkerId},
    lease::Lease,
    time::Time,
    timing::Timing,
    write::{Assign, Renew, Write},
};

pub use answer::Outcome;
pub use phase::{Phase, Stage};

use answer::Doubt;
use throughput::Throughput;

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
    throughput: Throughput,
    /// Handled in this tenure so far.
    bytes: u64,
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

/// What to do for a held lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Write.
    Write(Write),
    /// Read the row: the last write has no clear answer.
    Read,
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
            throughput: Throughput::new(lease.throughput_kbps, sent),
            bytes: 0,
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

    /// Notes that the consumer has handled so many bytes of payload in this tenure.
    pub fn handled(&mut self, bytes: u64) {
        self.bytes = bytes;
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
        let (write, last) = self.write(checkpoint.clone(), now);
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

    fn write(&mut self, checkpoint: Option<Position>, now: Time) -> (Write, Last) {
        let least = self.timing.renew_every() / 2;
        let renew = Renew {
            key: self.lease.key.clone(),
            me: self.me.clone(),
            counter: self.lease.counter,
            handing_over: self.lease.handing_over(),
            checkpoint,
            children: Default::default(),
            throughput_kbps: self.throughput.sample(self.bytes, least, now),
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
