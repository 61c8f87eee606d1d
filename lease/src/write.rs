//! Word: every write a worker may do to a lease row – its condition and its effect.
//!
//! This is the one place that says what each conditional write means; [`crate::memory::MemoryTable`] runs it as it
//! stands, [`crate::dynamodb`] spells it as expressions. Conditions follow the KCL's (so that Java workers and ours
//! can share a table) and are stricter where a known hazard asks for it.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
};

use checkpoint::Position;

use crate::{
    id::{LeaseKey, Session, ShardId, WorkerId},
    lease::Lease,
};

/// A conditional write of one lease row.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Write {
    /// Put a new row; only if there is none.
    Create(Box<Lease>),
    /// The holder says that it lives, and how far it is.
    Renew(Renew),
    /// Take a row that is already assigned to me: by a leader, by a finished hand-over or by a former run of mine.
    /// Unlike the Java KCL this is a write, and work starts from the row it returns (hazards H4, H5).
    Acquire(Seize),
    /// Take a row that nobody holds or whose holder is dead.
    Take {
        /// The writer and the row as it was last seen; `seen_counter` makes a late renewal win (hazard H6).
        seize: Seize,
        /// The owner as last seen.
        owner: Option<WorkerId>,
    },
    /// Give a row to `to`: the leader to a free row, or the holder back to itself when an heir died.
    Assign(Assign),
    /// Start a hand-over from the owner to another worker. The counter stays, so that the owner's next renewal holds.
    HandOff {
        /// The row.
        key: LeaseKey,
        /// The owner, who goes on reading.
        from: WorkerId,
        /// The heir.
        to: WorkerId,
    },
    /// The heir says that it is awake. The counter stays.
    HeirReady {
        /// The row.
        key: LeaseKey,
        /// The heir.
        me: WorkerId,
    },
    /// The previous owner ends its part of a hand-over: last position and the row to the heir, in one write.
    Complete {
        /// Who writes what.
        renew: Renew,
        /// The heir.
        to: WorkerId,
    },
    /// The holder gives the row to nobody, with its last position. During a hand-over the heir loses it too.
    Release(Renew),
    /// Remove a finished row. Conditional, unlike the KCL's (hazard H32).
    Delete {
        /// The row.
        key: LeaseKey,
    },
}

/// What a holder writes about its own row.
#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    /// The row.
    pub key: LeaseKey,
    /// The holder.
    pub me: WorkerId,
    /// The counter the holder knows; it becomes one more.
    pub counter: u64,
    /// The holder knows that a hand-over is under way.
    pub handing_over: bool,
    /// New checkpoint, if it moved. Clears a pending one, as the KCL does.
    pub checkpoint: Option<Position>,
    /// Children of a shard whose end is written by this.
    pub children: BTreeSet<ShardId>,
    /// New throughput, if measured.
    pub throughput_kbps: Option<f64>,
}

/// Two equal renewals hash alike; `throughput_kbps` does not take part, since floating point has no hash.
impl Hash for Renew {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, &self.me, self.counter, self.handing_over).hash(state);
        (&self.checkpoint, &self.children).hash(state);
    }
}

/// Who seizes which version of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seize {
    /// The row.
    pub key: LeaseKey,
    /// The new holder.
    pub me: WorkerId,
    /// Its process run.
    pub session: Session,
    /// The counter as last seen; it becomes one more.
    pub seen_counter: u64,
    /// Pin for a `LATEST` row that has none yet (made by a Java worker), epoch milliseconds.
    pub pin: Option<i64>,
}

/// Who gives which version of a row to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assign {
    /// The row.
    pub key: LeaseKey,
    /// The new owner.
    pub to: WorkerId,
    /// The owner as last seen.
    pub owner: Option<WorkerId>,
    /// The checkpoint owner as last seen.
    pub checkpoint_owner: Option<WorkerId>,
    /// The counter as last seen.
    pub counter: u64,
}

impl Write {
    /// The row this writes.
    pub fn key(&self) -> &LeaseKey {
        match self {
            Write::Create(lease) => &lease.key,
            Write::Renew(renew) | Write::Release(renew) | Write::Complete { renew, .. } => {
                &renew.key
            }
            Write::Acquire(seize) | Write::Take { seize, .. } => &seize.key,
            Write::Assign(assign) => &assign.key,
            Write::HandOff { key, .. } | Write::HeirReady { key, .. } | Write::Delete { key } => {
                key
            }
        }
    }

    /// The name of the operation, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Write::Create(_) => "create",
            Write::Renew(_) => "renew",
            Write::Acquire(_) => "acquire",
            Write::Take { .. } => "take",
            Write::Assign(_) => "assign",
            Write::HandOff { .. } => "hand_off",
            Write::HeirReady { .. } => "heir_ready",
            Write::Complete { .. } => "complete",
            Write::Release(_) => "release",
            Write::Delete { .. } => "delete",
        }
    }

    /// The checkpoint this stores, if any.
    pub fn checkpoint(&self) -> Option<&Position> {
        match self {
            Write::Renew(renew) | Write::Release(renew) | Write::Complete { renew, .. } => {
                renew.checkpoint.as_ref()
            }
            _ => None,
        }
    }

    /// The condition, on the row as it stands.
    pub fn permitted(&self, row: Option<&Lease>) -> bool {
        let Some(row) = row else {
            return matches!(self, Write::Create(_));
        };
        match self {
            Write::Create(_) => false,
            Write::Renew(renew) | Write::Release(renew) => renew.permitted(row),
            Write::Acquire(seize) => {
                row.owner.as_ref() == Some(&seize.me)
                    && row.checkpoint_owner.is_none()
                    && row.counter == seize.seen_counter
            }
            Write::Take { seize, owner } => {
                row.counter == seize.seen_counter && row.owner == *owner
            }
            Write::Assign(assign) => {
                row.counter == assign.counter
                    && row.owner == assign.owner
                    && row.checkpoint_owner == assign.checkpoint_owner
            }
            Write::HandOff { from, .. } => {
                row.owner.as_ref() == Some(from) && row.checkpoint_owner.is_none()
            }
            Write::HeirReady { me, .. } => {
                row.owner.as_ref() == Some(me) && row.checkpoint_owner.is_some()
            }
            Write::Complete { renew, to } => row.owner.as_ref() == Some(to) && renew.permitted(row),
            Write::Delete { .. } => row.ended(),
        }
    }

    /// The row after the write, given the row before. `None`: the row is gone.
    pub fn apply(&self, row: Option<Lease>) -> Option<Lease> {
        let mut row = match (self, row) {
            (Write::Create(lease), _) => return Some((**lease).clone()),
            (Write::Delete { .. }, _) | (_, None) => return None,
            (_, Some(row)) => row,
        };
        match self {
            Write::Create(_) | Write::Delete { .. } => unreachable!("returned above"),
            Write::Renew(renew) => renew.apply(&mut row),
            Write::Acquire(seize) => seize.apply(&mut row),
            Write::Take { seize, .. } => {
                if row.owner.as_ref().is_some_and(|owner| *owner != seize.me)
                    || row.checkpoint_owner.as_ref() == Some(&seize.me)
                {
                    row.owner_switches += 1;
                }
                row.owner = Some(seize.me.clone());
                seize.apply(&mut row);
                row.leave_hand_over();
            }
            Write::Assign(assign) => {
                if row.owner.as_ref().is_some_and(|owner| *owner != assign.to)
                    || row.checkpoint_owner.as_ref() == Some(&assign.to)
                {
                    row.owner_switches += 1;
                }
                row.owner = Some(assign.to.clone());
                row.counter += 1;
                row.leave_hand_over();
            }
            Write::HandOff { from, to, .. } => {
                row.owner = Some(to.clone());
                row.checkpoint_owner = Some(from.clone());
                row.heir_ready = false;
            }
            Write::HeirReady { .. } => row.heir_ready = true,
            Write::Complete { renew, .. } => {
                renew.apply(&mut row);
                row.leave_hand_over();
                row.session = None;
            }
            Write::Release(renew) => {
                renew.apply(&mut row);
                row.leave_hand_over();
                row.session = None;
                row.owner = None;
            }
        }
        Some(row)
    }
}

impl Renew {
    fn permitted(&self, row: &Lease) -> bool {
        row.counter == self.counter
            && if self.handing_over {
                row.checkpoint_owner.as_ref() == Some(&self.me)
            } else {
                row.owner.as_ref() == Some(&self.me) && row.checkpoint_owner.is_none()
            }
    }

    fn apply(&self, row: &mut Lease) {
        row.counter += 1;
        if let Some(checkpoint) = &self.checkpoint {
            row.checkpoint = checkpoint.clone();
            row.pending = None;
            row.owner_switches = 0;
        }
        if !self.children.is_empty() {
            row.children = self.children.clone();
        }
        if self.throughput_kbps.is_some() {
            row.throughput_kbps = self.throughput_kbps;
        }
    }
}

impl Seize {
    fn apply(&self, row: &mut Lease) {
        row.counter += 1;
        row.session = Some(self.session.clone());
        if let Some(pin) = self.pin {
            row.pinned = Some(pin);
        }
    }
}

impl Lease {
    fn leave_hand_over(&mut self) {
        self.checkpoint_owner = None;
        self.heir_ready = false;
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.key())
    }
}

#[cfg(test)]
mod tests;
