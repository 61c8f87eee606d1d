//! Rule: what the table shows, and since when – which rows nobody reads.
//!
//! A row's counter is stamped when this process first **sees** it. Ages only count while the table is looked at
//! without long gaps: during a gap (table away, this process frozen) no row counts as unread, and after it every stamp
//! starts anew, since nobody can have renewed, or been seen to renew, in between.
//!
//! A row may be removed and made anew (an operator, a restored backup), and its counter starts again. A counter that
//! is lower than the known one is therefore either an old sight or a new life: the stamp starts anew in both cases, and
//! a consistent list tells which it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::workers::Workers;
use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    table::{Consistency, Unreadable, View},
    time::Time,
    timing::Timing,
};

/// A list that shows an older version of a row than one known for longer than this is not just late.
const STALE_AT_MOST: Duration = Duration::from_secs(2);

/// The table as last seen.
#[derive(Debug, Default)]
pub(super) struct Sight {
    rows: BTreeMap<LeaseKey, Seen>,
    pub(super) workers: Workers,
    /// Rows that were made or removed by this process, and when: a list asked for before does not know.
    touched: BTreeMap<LeaseKey, Time>,
    /// Rows of the last list that cannot be read.
    unreadable: BTreeSet<String>,
    last_good: Option<Time>,
    /// A pause between two lists that is longer than this is a gap.
    gap: Duration,
    /// Something does not fit: the next list must be consistent.
    doubtful: bool,
    /// Rows that lists did not show though they should be there: the number of the first such list, and when that was seen.
    missing: BTreeMap<LeaseKey, (u64, Time)>,
    lists: u64,
    /// The next moment at which a row counts as unread, if it is not seen to move before.
    next_unread: Time,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this life of the row was first seen here.
    first: Time,
    /// When this counter was first seen here.
    changed: Time,
    /// When the row was last known to be so.
    known: Time,
    /// It came to its reader from another, and the reader was not yet seen to renew it.
    given: bool,
}

impl Sight {
    pub(super) fn new() -> Self {
        Sight {
            next_unread: Time::NEVER,
            ..Sight::default()
        }
    }

    /// At least one list succeeded.
    pub(super) fn loaded(&self) -> bool {
        self.last_good.is_some()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Lease> {
        self.rows.values().map(|seen| &seen.lease)
    }

    pub(super) fn row(&self, key: &LeaseKey) -> Option<&Lease> {
        self.rows.get(key).map(|seen| &seen.lease)
    }

    /// How long nobody reads the row, if so.
    pub(super) fn unread(&self, key: &LeaseKey, timing: Timing, now: Time) -> Option<Duration> {
        let seen = self.rows.get(key)?;
        let age = now.since(seen.changed);
        if seen.lease.reader().is_none() {
            return Some(age);
        }
        if self.in_gap(now) {
            return None;
        }
        age.checked_sub(self.patience(seen, timing))
            .filter(|over| !over.is_zero())
    }

    /// How long a row may stand still.
    fn patience(&self, seen: &Seen, timing: Timing) -> Duration {
        let java = |reader| self.workers.is_java(reader);
        if seen.given && seen.lease.reader().is_some_and(java) {
            timing.java_heir_patience()
        } else {
            timing.failover()
        }
    }

    /// The table was not looked at for too long to say that nothing moved.
    fn in_gap(&self, now: Time) -> bool {
        self.last_good
            .is_some_and(|last| now.since(last) > self.gap)
    }

    /// Orders a look at the moment when the next row will have stood still for too long.
    pub(super) fn expect_unread(&mut self, timing: Timing, now: Time) {
        self.next_unread = self
            .rows
            .values()
            .filter(|seen| seen.lease.reader().is_some() && !seen.lease.ended())
            .map(|seen| seen.changed + self.patience(seen, timing) + Duration::from_millis(1))
            .filter(|at| *at > now)
            .min()
            .unwrap_or(Time::NEVER);
    }

    pub(super) fn next_unread(&self) -> Time {
        self.next_unread
    }

    /// Whether this life of the row was seen before `asked`.
    pub(super) fn known_before(&self, key: &LeaseKey, asked: Time) -> bool {
        self.rows.get(key).is_some_and(|seen| seen.first < asked)
    }

    /// Of the rows that the table seems to lack, those that two lists did not show, the latter of them consistent: a
    /// list is no snapshot, so one alone may miss a row whose removal had its reasons in rows it showed in an older state.
    pub(super) fn confirmed_missing(
        &mut self,
        keys: &BTreeSet<LeaseKey>,
        now: Time,
    ) -> BTreeSet<LeaseKey> {
        let lists = self.lists;
        self.missing.retain(|key, _| keys.contains(key));
        for key in keys {
            self.missing.entry(key.clone()).or_insert((lists, now));
        }
        let certain = |since: u64| since < lists && !self.doubtful;
        let confirmed: BTreeSet<LeaseKey> = self
            .missing
            .iter()
            .filter(|(_, (since, _))| certain(*since))
            .map(|(key, _)| key.clone())
            .collect();
        self.doubtful |= confirmed.len() < keys.len();
        confirmed
    }

    /// Whether the row seemed to be missing already at that time.
    pub(super) fn missing_before(&self, key: &LeaseKey, asked: Time) -> bool {
        self.missing.get(key).is_some_and(|(_, at)| *at <= asked)
    }

    pub(super) fn doubtful(&self) -> bool {
        self.doubtful
    }

    /// The next list must be consistent.
    pub(super) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// The row was as it is when a question was asked then.
    pub(super) fn unchanged_since(&self, key: &LeaseKey, asked: Time) -> bool {
        self.rows.get(key).is_some_and(|seen| seen.changed < asked)
    }

    /// A question asked at `sent` was answered with the row as it is.
    pub(super) fn wrote(&mut self, row: &Lease, sent: Time, now: Time) {
        self.touched.insert(row.key.clone(), now);
        let newest = self.rows.get(&row.key).is_none_or(|seen| seen.known < sent);
        self.saw(row.clone(), newest, now);
    }

    pub(super) fn deleted(&mut self, key: &LeaseKey, now: Time) {
        self.touched.insert(key.clone(), now);
        self.rows.remove(key);
    }

    /// `newest`: the answer is younger than what is known, so a lower version is a new life.
    fn saw(&mut self, lease: Lease, newest: bool, now: Time) {
        let Some(seen) = self.rows.get_mut(&lease.key) else {
            let seen = Seen {
                lease,
                first: now,
                changed: now,
                known: now,
                given: false,
            };
            self.rows.insert(seen.lease.key.clone(), seen);
            return;
        };
        let same_counter = lease.counter == seen.lease.counter;
        let same_life =
            lease.session == seen.lease.session && lease.checkpoint == seen.lease.checkpoint;
        if lease.version() < seen.lease.version() && !newest {
            if !same_counter {
                seen.changed = now;
                // An old sight, unless what is known is old itself.
                self.doubtful |= now.since(seen.known) > STALE_AT_MOST;
            }
            return;
        }
        if lease.counter < seen.lease.counter || same_counter && !same_life {
            seen.first = now;
        }
        if !same_counter || !same_life {
            seen.changed = now;
        }
        if lease.reader() != seen.lease.reader() {
            seen.given = true;
        } else if lease.counter > seen.lease.counter {
            seen.given = false;
            if let Some(reader) = lease.reader() {
                self.workers.renewed(reader);
            }
        }
        seen.known = now;
        seen.lease = lease;
    }

    /// Takes in which rows of a list cannot be read. Returns those that the list before did not show so.
    pub(super) fn saw_unreadable(&mut self, rows: &[Unreadable]) -> Vec<Unreadable> {
        let now = rows.iter().map(|row| row.key.clone()).collect();
        let before = std::mem::replace(&mut self.unreadable, now);
        rows.iter()
            .filter(|row| !before.contains(&row.key))
            .cloned()
            .collect()
    }

    /// The row is there, but cannot be read.
    pub(super) fn unreadable(&self, key: &LeaseKey) -> bool {
        self.unreadable.contains(key.as_str())
    }

    /// Rows with a reader, and whether they stand still. Rows at their end have none.
    pub(super) fn readers(
        &self,
        timing: Timing,
        now: Time,
    ) -> impl Iterator<Item = (&LeaseKey, &WorkerId, bool)> {
        self.rows
            .iter()
            .filter(|(_, seen)| !seen.lease.ended())
            .filter_map(move |(key, seen)| {
                let reader = seen.lease.reader()?;
                Some((key, reader, self.unread(key, timing, now).is_some()))
            })
    }

    /// Presumes workers dead. Of whom nothing is left in the table nothing is remembered.
    pub(super) fn presume_dead(&mut self, dead: Vec<WorkerId>) {
        let readers = self.rows.values().filter_map(|seen| seen.lease.reader());
        self.workers.presume_dead(dead, &readers.collect());
    }

    /// Takes a list in. Returns the keys that are gone.
    pub(super) fn update(
        &mut self,
        view: View,
        (sent, consistency): (Time, Consistency),
        now: Time,
        gap: Duration,
    ) -> Vec<LeaseKey> {
        self.gap = gap;
        if self.in_gap(now) {
            self.rows.values_mut().for_each(|seen| seen.changed = now);
            self.workers.stamp_anew(now);
        }
        self.last_good = Some(now);
        self.lists += 1;
        if consistency == Consistency::Strong {
            self.doubtful = false;
        }
        self.touched.retain(|_, at| *at >= sent);
        let shown: BTreeSet<LeaseKey> = view.leases.iter().map(|lease| lease.key.clone()).collect();
        self.missing.retain(|key, _| !shown.contains(key));
        for lease in view.leases {
            let known = self.rows.get(&lease.key).map(|seen| seen.known);
            if known.is_none() && self.touched.contains_key(&lease.key) {
                continue;
            }
            let newest =
                consistency == Consistency::Strong && known.is_some_and(|known| known < sent);
            self.saw(lease, newest, now);
        }
        let gone: Vec<LeaseKey> = self
            .rows
            .keys()
            .filter(|key| !shown.contains(*key) && !self.touched.contains_key(*key))
            .cloned()
            .collect();
        for key in &gone {
            self.rows.remove(key);
        }
        self.workers.saw(view.workers, now);
        gone
    }
}
