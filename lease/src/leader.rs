//! Rule: the leader lock.
//!
//! One worker leads: it makes missing rows, shares leases out and cleans up. The lock is the Java KCL's row, so a
//! mixed fleet has one leader. It holds for the failover time after each heartbeat, and whoever sees it lapse takes
//! it: no other worker has to notice. An observer counts from when **it** first saw a version; the holder from before
//! it **sent** the heartbeat – so the holder always stops believing first.

use std::{sync::Arc, time::Duration};

use crate::{
    id::{Session, WorkerId},
    table::{Lock, LockWrite, TableError},
    time::Time,
};

/// What this worker knows of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    me: WorkerId,
    session: Session,
    duration: Duration,
    margin: Duration,
    every: Duration,
    state: State,
    /// A write is under way since then.
    in_flight: Option<Time>,
    /// The lock is being given back: it may be somebody else's before the answer is here.
    giving_back: bool,
    /// Not before this: a failed write is not repeated at once.
    not_before: Time,
    /// The last belief of this run: when the write it rests on was answered, and its end.
    led_since: Time,
    led_until: Time,
    versions: u64,
}

/// What an observation of the lock says about this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Nothing out of order.
    Fine,
    /// Another run of the same worker id holds the lock that this run believes to hold (hazard H44) – if the list was
    /// consistent.
    Twin,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Never seen.
    Unknown,
    /// There is none.
    Absent,
    /// Somebody else holds this version, first seen then.
    Other {
        version: Arc<str>,
        owner: WorkerId,
        duration: Duration,
        seen: Time,
        released: bool,
    },
    /// Mine, by a write sent then.
    Mine { version: Arc<str>, sent: Time },
}

impl Leader {
    /// A worker that has not looked yet. The lock holds for `duration`; its holder stops believing `margin` earlier
    /// and sends a heartbeat each `every`.
    pub fn new(
        me: WorkerId,
        session: Session,
        duration: Duration,
        margin: Duration,
        every: Duration,
    ) -> Self {
        Leader {
            me,
            session,
            duration,
            margin,
            every,
            state: State::Unknown,
            in_flight: None,
            giving_back: false,
            not_before: Time::ZERO,
            led_since: Time::ZERO,
            led_until: Time::ZERO,
            versions: 0,
        }
    }

    /// Whether this worker may act as leader.
    pub fn leads(&self, now: Time) -> bool {
        self.holds(now) && !self.giving_back
    }

    /// Whether the lock is this worker's, as far as it knows: it leads, or has not given the lock back yet.
    pub fn holds(&self, now: Time) -> bool {
        matches!(&self.state, State::Mine { sent, .. } if now < *sent + self.duration.saturating_sub(self.margin))
    }

    /// A write is under way.
    pub fn writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Who leads, as far as is known: a lock that lapsed has no holder.
    pub fn holder(&self, now: Time) -> Option<&WorkerId> {
        match &self.state {
            State::Mine { .. } if self.leads(now) => Some(&self.me),
            State::Other {
                owner,
                duration,
                seen,
                released: false,
                ..
            } if now <= *seen + *duration => Some(owner),
            _ => None,
        }
    }

    /// The lock as a list showed it. `sent` is when the list was asked for.
    pub fn observed(&mut self, lock: Option<&Lock>, sent: Time, now: Time) -> Sighting {
        if self.in_flight.is_some() {
            return Sighting::Fine;
        }
        let Some(lock) = lock else {
            // A list that was asked before my own write was answered may not show it yet.
            if !matches!(&self.state, State::Mine { sent: mine, .. } if *mine >= sent) {
                self.state = State::Absent;
            }
            return Sighting::Fine;
        };
        let foreign = !lock.version.starts_with(self.session.as_str());
        if foreign && lock.owner == self.me && now < self.led_until && self.led_since < sent {
            return Sighting::Twin;
        }
        match &self.state {
            State::Mine {
                version,
                sent: mine,
            } if **version == *lock.version || *mine >= sent || lock.owner == self.me => {
                return Sighting::Fine;
            }
            State::Other {
                version, released, ..
            } if **version == *lock.version && *released == lock.released => {
                return Sighting::Fine;
            }
            _ => {}
        }
        self.state = State::Other {
            version: lock.version.as_str().into(),
            owner: lock.owner.clone(),
            duration: lock.duration,
            seen: now,
            released: lock.released,
        };
        Sighting::Fine
    }

    /// The write to do now, if any. `wanted`: this worker is willing to lead.
    pub fn poll(&mut self, wanted: bool, now: Time) -> Option<LockWrite> {
        if self.in_flight.is_some() || !wanted || now < self.due(wanted)? {
            return None;
        }
        let next = self.next_version();
        let write = match &self.state {
            State::Unknown => return None,
            State::Mine { version, .. } => LockWrite::Heartbeat {
                me: self.me.clone(),
                version: version.to_string(),
                next,
                duration: self.duration,
            },
            State::Absent => self.acquire(next, None),
            State::Other { version, .. } => self.acquire(next, Some(version.to_string())),
        };
        self.in_flight = Some(now);
        Some(write)
    }

    /// Give the lock back, if it is mine.
    pub fn release(&mut self, now: Time) -> Option<LockWrite> {
        let State::Mine { version, .. } = &self.state else {
            return None;
        };
        if self.in_flight.is_some() || now < self.not_before {
            return None;
        }
        self.in_flight = Some(now);
        self.giving_back = true;
        Some(LockWrite::Release {
            me: self.me.clone(),
            version: version.to_string(),
        })
    }

    fn acquire(&self, version: String, seen: Option<String>) -> LockWrite {
        LockWrite::Acquire {
            me: self.me.clone(),
            version,
            duration: self.duration,
            seen,
        }
    }

    fn next_version(&mut self) -> String {
        self.versions += 1;
        format!("{}-{}", self.session, self.versions)
    }

    /// When [`Leader::poll`] will have something to do. `None`: only after an observation.
    pub fn due(&self, wanted: bool) -> Option<Time> {
        if self.in_flight.is_some() || !wanted {
            return None;
        }
        let at = match &self.state {
            State::Unknown => return None,
            State::Absent => Time::ZERO,
            State::Mine { sent, .. } => *sent + self.every,
            // A former run of mine is dead: its lock is taken at once.
            State::Other { owner, .. } if *owner == self.me => Time::ZERO,
            State::Other { released: true, .. } => Time::ZERO,
            State::Other { seen, duration, .. } => *seen + *duration + Duration::from_millis(1),
        };
        Some(at.max(self.not_before))
    }

    /// The answer to the write that [`Leader::poll`] or [`Leader::release`] gave.
    pub fn answered(&mut self, result: Result<Option<Lock>, TableError>, now: Time) {
        let Some(sent) = self.in_flight.take() else {
            return;
        };
        match result {
            Ok(Some(lock)) => {
                self.state = State::Mine {
                    version: lock.version.as_str().into(),
                    sent,
                };
                self.giving_back = false;
                self.led_since = now;
                self.led_until = sent + self.duration.saturating_sub(self.margin);
            }
            Ok(None) => self.state = State::Absent,
            // Somebody was faster, or an earlier write of mine got through: the next list tells.
            Err(TableError::Changed(_)) => self.state = State::Unknown,
            Err(_) => {
                // What happened is unknown; while the old belief lasts, the next list or heartbeat clears it up.
                self.not_before = now + self.every / 4;
                if !self.holds(now) {
                    self.state = State::Unknown;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
