//! Rule: whom this worker takes for alive, and who does what.
//!
//! * A reader of a row that moves lives; a reader of a row that stands still is dead for this round (hazard H9). Neither
//!   its own row, which promises life for longer, nor rows that were given to it since speak for it until it renews one
//!   itself or writes its own.
//! * Without leases a worker's own row speaks for it, by the change of that row and never by the time in it (hazard H13).
//! * Who is on its way out is not counted.

use std::collections::{BTreeMap, BTreeSet};

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
            let patience = timing.worker_patience(seen.row.every);
            let quick = !seen.is_java() && now < seen.first + timing.quick_for();
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
        let kept = |seen: &SeenWorker| timing.worker_row_kept_for(seen.row.every);
        self.seen
            .values()
            .filter(|seen| now.since(seen.changed) > kept(seen))
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
            .readers(self.settings.timing, now.mono)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::new(Duration::from_secs(seconds))
    }

    /// Failover time ten seconds; our worker "ours" writes its row each three seconds, a Java one does not say.
    fn timing() -> Timing {
        Timing::new(Duration::from_secs(10), Duration::from_secs(5))
    }

    fn row(id: &str, updated: i64, every: Option<u64>) -> WorkerRow {
        WorkerRow {
            id: id.into(),
            updated,
            every: every.map(Duration::from_secs),
            leaving: false,
        }
    }

    fn living(workers: &Workers, readers: &[(&str, bool)], now: Time) -> Vec<String> {
        let readers: Vec<(WorkerId, bool)> = readers
            .iter()
            .map(|(id, stands_still)| (WorkerId::from(*id), *stands_still))
            .collect();
        let readers = readers.iter().map(|(id, still)| (id, *still));
        let living = workers.living(readers, &timing(), now);
        living.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_that_move_speak_for_their_reader_and_one_that_stands_still_against_it() {
        let mut workers = Workers::default();
        workers.saw(
            vec![row("idle", 1, Some(3)), row("reads", 1, Some(3))],
            at(0),
        );
        let moves = [("reads", false), ("reads", false)];
        assert_eq!(living(&workers, &moves, at(1)), ["idle", "reads"]);
        let one_stands_still = [("reads", false), ("reads", true)];
        assert_eq!(living(&workers, &one_stands_still, at(1)), ["idle"]);
    }

    #[test]
    fn without_leases_the_own_row_counts_by_its_change_and_not_by_its_time() {
        let mut workers = Workers::default();
        let rows = |updated| vec![row("java", updated, None), row("ours", updated, Some(3))];
        workers.saw(rows(1_000_000), at(0));
        assert_eq!(living(&workers, &[], at(8)), ["java", "ours"]);
        assert_eq!(living(&workers, &[], at(9)), ["java"]);
        assert_eq!(living(&workers, &[], at(61)), [""; 0]);
        // A clock that goes back is a change like any other.
        workers.saw(rows(1), at(70));
        assert_eq!(living(&workers, &[], at(70)), ["java", "ours"]);
        workers.saw(rows(1), at(80));
        assert_eq!(living(&workers, &[], at(80)), ["java"]);
        workers.stamp_anew(at(80));
        assert_eq!(living(&workers, &[], at(80)), ["java", "ours"]);
    }

    #[test]
    fn who_is_presumed_dead_is_so_until_it_renews_a_row_or_writes_its_own() {
        let mut workers = Workers::default();
        let ids: [WorkerId; 3] = ["a".into(), "b".into(), "gone".into()];
        let rows = |updated| vec![row("a", updated, Some(3)), row("b", 1, Some(3))];
        workers.saw(rows(1), at(0));
        workers.presume_dead(ids.to_vec(), &BTreeSet::new());
        assert_eq!(workers.presumed_dead.len(), 2, "nothing is left of `gone`");
        // What was given to them since does not speak for them.
        assert_eq!(
            living(&workers, &[("a", false), ("b", false)], at(1)),
            [""; 0]
        );
        workers.saw(rows(2), at(2));
        assert_eq!(living(&workers, &[], at(2)), ["a"]);
        workers.renewed(&ids[1]);
        assert_eq!(living(&workers, &[], at(2)), ["a", "b"]);
    }

    #[test]
    fn who_leaves_is_not_counted_and_rows_of_the_long_dead_go() {
        let mut workers = Workers::default();
        let leaves = WorkerRow {
            leaving: true,
            ..row("leaves", 7, Some(3))
        };
        workers.saw(vec![leaves, row("java", 8, None)], at(0));
        assert_eq!(living(&workers, &[("leaves", false)], at(1)), ["java"]);
        let stale = |now| workers.stale(&timing(), now);
        assert_eq!(stale(at(72)), []);
        assert_eq!(stale(at(73)), [("leaves".into(), 7)]);
        assert_eq!(stale(at(24 * 3600 + 1)).len(), 2);
    }
}
