//! Rule: whom this worker takes for alive, and who does what.
//!
//! * A reader of a row that moves lives; a reader of a row that stands still is dead for this round (hazard H9). Neither
//!   its own row, which promises life for longer, nor rows that were given to it since speak for it until it renews one
//!   itself or writes its own.
//! * Without leases a worker's own row speaks for it, by the change of that row and never by the time in it (hazard H13).
//! * Who is on its way out is not counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Action, Leases, Now};
use crate::{
    assign::{Role, Worker},
    id::{LeaseKey, WorkerId},
    table::WorkerRow,
    time::Time,
    timing::Timing,
};

/// The rows of the workers as last seen, and who is presumed dead.
#[derive(Debug, Default)]
pub(super) struct Workers {
    seen: BTreeMap<WorkerId, SeenWorker>,
    /// Readers that let a row stand still, until they renew one or write their own row: what they hold besides, and
    /// what is still given to them, does not make them alive.
    presumed_dead: BTreeSet<WorkerId>,
}

#[derive(Debug)]
struct SeenWorker {
    row: WorkerRow,
    changed: Time,
    first: Time,
}

impl Workers {
    /// Takes the rows of a list in.
    pub(super) fn saw(&mut self, rows: Vec<WorkerRow>, now: Time) {
        let mut before = std::mem::take(&mut self.seen);
        for row in rows {
            let seen = match before.remove(&row.id) {
                Some(seen) if seen.row == row => seen,
                Some(seen) => {
                    self.presumed_dead.remove(&row.id);
                    SeenWorker {
                        row,
                        changed: now,
                        ..seen
                    }
                }
                None => SeenWorker {
                    row,
                    changed: now,
                    first: now,
                },
            };
            self.seen.insert(seen.row.id.clone(), seen);
        }
    }

    /// After a gap: nobody can have been seen to write in between.
    pub(super) fn stamp_anew(&mut self, now: Time) {
        for seen in self.seen.values_mut() {
            seen.changed = now;
        }
    }

    /// A worker was seen to renew a row.
    pub(super) fn renewed(&mut self, reader: &WorkerId) {
        self.presumed_dead.remove(reader);
    }

    /// Presumes workers dead; forgets those who neither read a row (`readers`) nor have one of their own.
    pub(super) fn presume_dead(&mut self, dead: Vec<WorkerId>, readers: &BTreeSet<&WorkerId>) {
        self.presumed_dead.extend(dead);
        let seen = &self.seen;
        self.presumed_dead
            .retain(|id| readers.contains(id) || seen.contains_key(id));
    }

    /// Whether a worker is a Java one: those never answer that they are ready to inherit.
    pub(super) fn is_java(&self, worker: &WorkerId) -> bool {
        self.seen.get(worker).is_some_and(SeenWorker::is_java)
    }

    /// Whether a worker is known as one of ours.
    fn is_ours(&self, worker: &WorkerId) -> bool {
        self.seen.get(worker).is_some_and(|seen| !seen.is_java())
    }

    /// The workers that live and want leases, by the rows with a reader and whether they stand still.
    fn living<'a>(
        &self,
        readers: impl Iterator<Item = (&'a WorkerId, bool)>,
        timing: &Timing,
        now: Time,
    ) -> BTreeMap<WorkerId, Worker> {
        let mut living = BTreeMap::new();
        let mut dead = BTreeSet::new();
        for (reader, stands_still) in readers {
            if stands_still {
                dead.insert(reader);
            } else if !self.presumed_dead.contains(reader) {
                living
                    .entry(reader.clone())
                    .or_insert(Worker { quick: false });
            }
        }
        for (id, seen) in &self.seen {
            let patience = match seen.row.every {
                Some(every) => every + timing.failover() / 2,
                None => timing.java_worker_patience(),
            };
            let quick = seen.row.every.is_some() && now < seen.first + timing.join_patience() / 2;
            if now.since(seen.changed) <= patience && !self.presumed_dead.contains(id) {
                living.insert(id.clone(), Worker { quick });
            }
        }
        let leaves = |id: &WorkerId| self.seen.get(id).is_some_and(|seen| seen.row.leaving);
        living.retain(|id, _| !dead.contains(id) && !leaves(id));
        living
    }

    /// Rows of workers that died long ago, with the time in each.
    fn stale(&self, timing: &Timing, now: Time) -> Vec<(WorkerId, i64)> {
        const STALE: Duration = Duration::from_secs(24 * 3600);
        let patience = |seen: &SeenWorker| match seen.row.every {
            Some(every) => every * 4 + timing.failover() * 6,
            None => STALE,
        };
        self.seen
            .values()
            .filter(|seen| now.since(seen.changed) > patience(seen))
            .map(|seen| (seen.row.id.clone(), seen.row.updated))
            .collect()
    }

    fn forget(&mut self, id: &WorkerId) {
        self.seen.remove(id);
    }
}

impl SeenWorker {
    fn is_java(&self) -> bool {
        self.row.every.is_none()
    }
}

impl Leases {
    pub(super) fn role(&self, now: Now) -> Role {
        if self.leaving {
            return Role::Follower;
        }
        if self.leader.leads(now.mono) {
            return Role::Leader;
        }
        let holder = self.leader.holder(now.mono);
        let first = self
            .living_workers(now)
            .into_keys()
            .find(|worker| Some(worker) != holder && self.can_be_deputy(worker));
        if first.as_ref() == Some(&self.settings.me) {
            Role::Deputy
        } else {
            Role::Follower
        }
    }

    /// Whether a worker rescues shards while it does not lead: ours do, Java ones never.
    fn can_be_deputy(&self, worker: &WorkerId) -> bool {
        *worker == self.settings.me || self.sight.workers.is_ours(worker)
    }

    /// The workers that live and want leases; this one too, unless it leaves.
    pub(super) fn living_workers(&self, now: Now) -> BTreeMap<WorkerId, Worker> {
        let timing = &self.settings.timing;
        let others = self.rows_of_others(now).map(|(_, id, still)| (id, still));
        let mut living = self.sight.workers.living(others, timing, now.mono);
        living.remove(&self.settings.me);
        if !self.leaving {
            living.insert(self.settings.me.clone(), Worker { quick: false });
        }
        living
    }

    /// Presumes the readers of rows that stand still dead.
    pub(super) fn presume_dead(&mut self, now: Now) {
        let dead = self
            .rows_of_others(now)
            .filter(|(_, _, stands_still)| *stands_still)
            .map(|(_, reader, _)| reader.clone())
            .collect();
        self.sight.presume_dead(dead);
    }

    /// Rows with a reader that are not held here, and whether they stand still.
    fn rows_of_others(&self, now: Now) -> impl Iterator<Item = (&LeaseKey, &WorkerId, bool)> {
        self.sight
            .readers(self.settings.timing.failover(), now.mono)
            .filter(|(key, _, _)| !self.held.contains_key(key))
    }

    /// Removes the rows of workers that died long ago.
    pub(super) fn remove_stale_workers(&mut self, now: Now) {
        let stale = self.sight.workers.stale(&self.settings.timing, now.mono);
        for (id, updated) in stale {
            if id == self.settings.me {
                continue;
            }
            self.sight.workers.forget(&id);
            self.out.push(Action::RemoveWorker {
                id,
                updated: Some(updated),
            });
        }
    }
}
