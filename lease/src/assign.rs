//! Rule: who should read what – by count.
//!
//! * A row that is assigned to me and that I do not hold is mine to acquire, at once.
//! * **Rescue first, balance later.** A shard that nobody reads is taken by whoever notices it first: the leader; its
//!   deputy a moment later, if the leader does not act; the worker that finished the parent. Shards do not wait for a
//!   fair heir; hand-overs between living workers cost no gap, so fairness can come afterwards.
//! * The leader evens out: while two workers differ by more than one lease, one is handed over.
//! * The reader of an expired lease is dead for this round and gets nothing (hazard H9). Ties go to the fewest leases,
//!   then to the smallest id (hazard H10).
//! * Finished leases and those that wait for their parents count for nobody (hazard H33).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    time::Time,
};

/// What this worker may do for the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds the lock: shares out.
    Leader,
    /// First in line: rescues shards that the leader leaves alone.
    Deputy,
    /// Looks after its own rows.
    Follower,
}

/// One row, with what is known about it besides.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The row.
    pub lease: &'a Lease,
    /// How long nobody reads it: its counter stands still beyond the failover time, or it has no owner.
    /// `None`: somebody does.
    pub unread: Option<Duration>,
    /// Whose it will be by a write of this process that is queued or under way.
    pub going_to: Option<&'a WorkerId>,
    /// Its parents are done.
    pub startable: bool,
    /// This process holds it.
    pub held: bool,
    /// This process is about to write it, still winds down a reader of it, or has just given it up.
    pub busy: bool,
}

/// A living worker that wants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// It has just joined and looks at the table several times a second.
    pub quick: bool,
}

/// Everything a plan looks at.
#[derive(Debug)]
pub struct Scene<'a> {
    /// This worker.
    pub me: &'a WorkerId,
    /// What it may do for others.
    pub role: Role,
    /// The rows.
    pub rows: Vec<Row<'a>>,
    /// The living workers that want leases, this one among them unless it is leaving.
    pub workers: BTreeMap<WorkerId, Worker>,
    /// No worker takes more leases than this.
    pub max_leases: usize,
    /// Rows whose parents this worker has just finished, and until when that counts.
    pub entitled: &'a BTreeMap<LeaseKey, Time>,
    /// How long the deputy waits for the leader.
    pub deputy_patience: Duration,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Acquire a row that is assigned to me.
    Acquire(LeaseKey),
    /// Tell the previous owner that I am awake.
    Ready(LeaseKey),
    /// Take a row that nobody reads.
    Take(LeaseKey),
    /// Give a row that nobody reads to somebody who will look at once.
    Assign(LeaseKey, WorkerId),
    /// Start a hand-over.
    HandOff {
        /// The row.
        key: LeaseKey,
        /// Its owner.
        from: WorkerId,
        /// The heir.
        to: WorkerId,
    },
}

/// The moves for this moment.
pub fn plan(scene: &Scene<'_>) -> Vec<Move> {
    let mut plan = Plan::new(scene);
    for row in &scene.rows {
        plan.own(row);
    }
    for row in &scene.rows {
        plan.rescue(row);
    }
    if scene.role == Role::Leader {
        plan.balance();
    }
    plan.moves
}

/// Who inherits what when this worker leaves: every row in `keys` goes to the worker with the fewest leases.
/// Empty if nobody else is there.
pub fn heirs(
    scene: &Scene<'_>,
    keys: impl IntoIterator<Item = LeaseKey>,
) -> Vec<(LeaseKey, WorkerId)> {
    let mut plan = Plan::new(scene);
    plan.counts.remove(scene.me);
    let mut heirs = Vec::new();
    for key in keys {
        let Some(heir) = plan.fewest(|_| true) else {
            return heirs;
        };
        plan.add(&heir, 1);
        heirs.push((key, heir));
    }
    heirs
}

struct Plan<'a> {
    scene: &'a Scene<'a>,
    counts: BTreeMap<WorkerId, usize>,
    /// Rows that are mine by name and dealt with.
    own: BTreeSet<&'a LeaseKey>,
    moves: Vec<Move>,
}

impl<'a> Plan<'a> {
    fn new(scene: &'a Scene<'a>) -> Self {
        let mut counts: BTreeMap<WorkerId, usize> = scene
            .workers
            .keys()
            .map(|worker| (worker.clone(), 0))
            .collect();
        for row in &scene.rows {
            let owner = row.going_to.or(row.lease.owner.as_ref());
            if (row.counts() || row.going_to.is_some())
                && let Some(count) = owner.and_then(|owner| counts.get_mut(owner))
            {
                *count += 1;
            }
        }
        Plan {
            scene,
            counts,
            own: BTreeSet::new(),
            moves: Vec::new(),
        }
    }

    /// Rows that are mine by name.
    fn own(&mut self, row: &Row<'a>) {
        let lease = row.lease;
        let me = Some(self.scene.me);
        if row.held || row.busy || row.going_to.is_some() || lease.ended() {
            return;
        }
        if lease.checkpoint_owner.as_ref() == me && self.room_for_me() {
            // A former run of mine was handing it over, or I lost it on the way: the heir waits in vain.
            self.add(self.scene.me, 1);
            self.own.insert(&lease.key);
            self.moves.push(Move::Take(lease.key.clone()));
            return;
        }
        if lease.owner.as_ref() != me {
            return;
        }
        match &lease.checkpoint_owner {
            None if row.unread.is_none() || self.room_for_me() => {
                if row.unread.is_some() {
                    self.add(self.scene.me, 1);
                }
                self.own.insert(&lease.key);
                self.moves.push(Move::Acquire(lease.key.clone()));
            }
            Some(from) if from != self.scene.me && row.unread.is_none() && !lease.heir_ready => {
                self.moves.push(Move::Ready(lease.key.clone()));
            }
            _ => {}
        }
    }

    /// Rows that nobody reads.
    fn rescue(&mut self, row: &Row<'_>) {
        let lease = row.lease;
        let Some(unread) = row.unread else { return };
        let dealt_with = row.going_to.is_some() || self.own.contains(&lease.key);
        if row.held || lease.ended() || !row.startable || dealt_with {
            return;
        }
        let key = lease.key.clone();
        let act = match self.scene.role {
            _ if self.scene.entitled.contains_key(&key) => true,
            Role::Leader => true,
            Role::Deputy => unread >= self.scene.deputy_patience,
            Role::Follower => false,
        };
        if !act {
            return;
        }
        let me = self.scene.me;
        let quick = self.fewest(|worker| worker.quick).filter(|heir| heir != me);
        let mine = self.counts.get(me).copied();
        let room = !row.busy && self.room_for_me();
        match quick {
            Some(heir)
                if lease.owner.is_none()
                    && self.scene.role == Role::Leader
                    && (!room || self.counts.get(&heir).copied() < mine) =>
            {
                self.give(key, heir);
            }
            _ if room => {
                self.add(me, 1);
                self.moves.push(Move::Take(key));
            }
            _ if self.scene.role == Role::Leader => {
                if let Some(heir) = self.fewest(|_| true).filter(|heir| heir != me) {
                    self.give(key, heir);
                }
            }
            _ => {}
        }
    }

    fn give(&mut self, key: LeaseKey, heir: WorkerId) {
        self.add(&heir, 1);
        self.moves.push(Move::Assign(key, heir));
    }

    /// Hand-overs until no two workers differ by more than one.
    fn balance(&mut self) {
        let mut movable: BTreeMap<&WorkerId, Vec<&LeaseKey>> = BTreeMap::new();
        for row in &self.scene.rows {
            if let Some(owner) = &row.lease.owner
                && row.counts()
                && !row.busy
                && row.going_to.is_none()
                && !row.lease.handing_over()
            {
                movable.entry(owner).or_default().push(&row.lease.key);
            }
        }
        loop {
            let Some(to) = self.fewest(|_| true) else {
                return;
            };
            let low = self.counts[&to];
            let from = movable
                .iter()
                .filter(|(worker, keys)| {
                    !keys.is_empty() && self.counts.contains_key::<WorkerId>(worker)
                })
                .max_by_key(|(worker, _)| (self.counts[**worker], std::cmp::Reverse(*worker)))
                .map(|(worker, _)| (*worker).clone());
            let Some(from) = from.filter(|from| self.counts[from] > low + 1) else {
                return;
            };
            let key = movable
                .get_mut(&from)
                .and_then(Vec::pop)
                .expect("not empty, see the filter");
            self.add(&from, -1);
            self.add(&to, 1);
            self.moves.push(Move::HandOff {
                key: key.clone(),
                from,
                to,
            });
        }
    }

    fn room_for_me(&self) -> bool {
        self.counts
            .get(self.scene.me)
            .is_some_and(|count| *count < self.scene.max_leases)
    }

    /// The worker with the fewest leases that has room; ties go to the smallest id.
    fn fewest(&self, which: impl Fn(&Worker) -> bool) -> Option<WorkerId> {
        self.counts
            .iter()
            .filter(|(id, count)| {
                **count < self.scene.max_leases && self.scene.workers.get(*id).is_some_and(&which)
            })
            .min_by_key(|(id, count)| (**count, *id))
            .map(|(id, _)| id.clone())
    }

    fn add(&mut self, worker: &WorkerId, by: isize) {
        if let Some(count) = self.counts.get_mut(worker) {
            *count = count.saturating_add_signed(by);
        }
    }
}

impl Row<'_> {
    /// Whether the row is work that somebody does.
    fn counts(&self) -> bool {
        !self.lease.ended() && self.unread.is_none() && (self.startable || self.held)
    }
}

#[cfg(test)]
mod tests;
