//! What the table shows, and since when: whom this worker takes for alive, and which rows nobody reads.
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

use super::{Action, Fatal, Halt, Leases, Loss, News, Now};
use crate::{
    assign::{Role, Worker},
    id::{LeaseKey, WorkerId},
    leader::Sighting,
    lease::Lease,
    renew::{Outcome, Phase, Stage},
    table::{Consistency, TableError, View, WorkerRow},
    time::Time,
};

/// The table as last seen.
#[derive(Debug)]
pub(super) struct Sight {
    rows: BTreeMap<LeaseKey, Seen>,
    workers: BTreeMap<WorkerId, SeenWorker>,
    /// Readers that let a row stand still, until they renew one or write their own row: what they hold besides, and
    /// what is still given to them, does not make them alive.
    presumed_dead: BTreeSet<WorkerId>,
    /// Rows that were made or removed by this process, and when: a list asked for before does not know.
    touched: BTreeMap<LeaseKey, Time>,
    unreadable: BTreeSet<String>,
    asked: Option<(Time, Consistency)>,
    next: Time,
    /// A failed list is not repeated at once, whatever is in a hurry.
    not_before: Time,
    last_good: Option<Time>,
    /// A pause between two lists that is longer than this is a gap.
    gap: Duration,
    /// Something does not fit: the next list must be consistent.
    doubtful: bool,
    /// Rows that lists did not show though they should be there, by the number of the first such list.
    missing: BTreeMap<LeaseKey, u64>,
    lists: u64,
    /// The next moment at which a row counts as unread, if it is not seen to move before.
    next_unread: Time,
    last_took: Duration,
    failures: u32,
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

#[derive(Debug)]
struct SeenWorker {
    row: WorkerRow,
    changed: Time,
    first: Time,
}

impl Sight {
    pub(super) fn new(now: Time) -> Self {
        Sight {
            rows: BTreeMap::new(),
            workers: BTreeMap::new(),
            presumed_dead: BTreeSet::new(),
            touched: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            asked: None,
            next: now,
            not_before: Time::ZERO,
            last_good: None,
            gap: Duration::ZERO,
            doubtful: false,
            missing: BTreeMap::new(),
            lists: 0,
            next_unread: Time::NEVER,
            last_took: Duration::ZERO,
            failures: 0,
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
    pub(super) fn unread(&self, key: &LeaseKey, failover: Duration, now: Time) -> Option<Duration> {
        let seen = self.rows.get(key)?;
        let age = now.since(seen.changed);
        if seen.lease.reader().is_none() {
            return Some(age);
        }
        if self.in_gap(now) {
            return None;
        }
        age.checked_sub(self.patience(seen, failover))
            .filter(|over| !over.is_zero())
    }

    /// How long a row may stand still. A Java worker looks for rows that were given to it once in a failover time and
    /// renews the first time a third of it later; its own leaders wait for twice the failover time.
    fn patience(&self, seen: &Seen, failover: Duration) -> Duration {
        let java = |reader| self.workers.get(reader).is_some_and(SeenWorker::is_java);
        if seen.given && seen.lease.reader().is_some_and(java) {
            failover * 2
        } else {
            failover
        }
    }

    /// The table was not looked at for too long to say that nothing moved.
    fn in_gap(&self, now: Time) -> bool {
        self.last_good
            .is_some_and(|last| now.since(last) > self.gap)
    }

    /// Orders a look at the moment when the next row will have stood still for the failover time.
    pub(super) fn expect_unread(&mut self, failover: Duration, now: Time) {
        self.next_unread = self
            .rows
            .values()
            .filter(|seen| seen.lease.reader().is_some() && !seen.lease.ended())
            .map(|seen| seen.changed + self.patience(seen, failover) + Duration::from_millis(1))
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
    pub(super) fn confirmed_missing(&mut self, keys: &BTreeSet<LeaseKey>) -> BTreeSet<LeaseKey> {
        let lists = self.lists;
        self.missing.retain(|key, _| keys.contains(key));
        for key in keys {
            self.missing.entry(key.clone()).or_insert(lists);
        }
        let certain = |since: &u64| *since < lists && !self.doubtful;
        let confirmed: BTreeSet<LeaseKey> = self
            .missing
            .iter()
            .filter(|(_, since)| certain(since))
            .map(|(key, _)| key.clone())
            .collect();
        self.doubtful |= confirmed.len() < keys.len();
        confirmed
    }

    pub(super) fn doubtful(&self) -> bool {
        self.doubtful
    }

    /// The next list must be consistent, and soon.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubtful = true;
        self.hurry(now);
    }

    /// The row was as it is when a question was asked then.
    pub(super) fn unchanged_since(&self, key: &LeaseKey, asked: Time) -> bool {
        self.rows.get(key).is_some_and(|seen| seen.changed < asked)
    }

    /// Looks again as soon as possible.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
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
                self.presumed_dead.remove(reader);
            }
        }
        seen.known = now;
        seen.lease = lease;
    }

    /// Takes a list in. Returns the keys that are gone.
    fn update(
        &mut self,
        view: View,
        (sent, consistency): (Time, Consistency),
        now: Time,
        gap: Duration,
    ) -> Vec<LeaseKey> {
        self.gap = gap;
        if self.in_gap(now) {
            self.rows.values_mut().for_each(|seen| seen.changed = now);
            self.workers
                .values_mut()
                .for_each(|seen| seen.changed = now);
        }
        self.last_good = Some(now);
        self.lists += 1;
        if consistency == Consistency::Strong {
            self.doubtful = false;
        }
        self.touched.retain(|_, at| *at >= sent);
        let shown: BTreeSet<LeaseKey> = view.leases.iter().map(|lease| lease.key.clone()).collect();
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
        self.saw_workers(view.workers, now);
        gone
    }

    fn saw_workers(&mut self, rows: Vec<WorkerRow>, now: Time) {
        let mut before = std::mem::take(&mut self.workers);
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
            self.workers.insert(seen.row.id.clone(), seen);
        }
    }
}

impl SeenWorker {
    fn is_java(&self) -> bool {
        self.row.every.is_none()
    }
}

/// A list that shows an older version of a row than one known for longer than this is not just late.
const STALE_AT_MOST: Duration = Duration::from_secs(2);

impl Leases {
    /// Reads the table, when it is time.
    pub(super) fn look(&mut self, now: Now) {
        if now.mono >= self.list_due() {
            let certain = self.sight.doubtful || !self.sight.loaded() || self.waits();
            let consistency = if certain {
                Consistency::Strong
            } else {
                Consistency::Eventual
            };
            self.sight.asked = Some((now.mono, consistency));
            self.out.push(Action::List(consistency));
        }
    }

    pub(super) fn list_due(&self) -> Time {
        if self.sight.asked.is_some() {
            return Time::NEVER;
        }
        self.sight.next.max(self.sight.not_before)
    }

    pub(super) fn listed(&mut self, result: Result<View, TableError>, now: Now) {
        let Some((sent, consistency)) = self.sight.asked.take() else {
            return;
        };
        self.sight.last_took = now.mono.since(sent);
        match result {
            Ok(view) => self.see(view, sent, consistency, now),
            Err(error) => {
                self.sight.failures += 1;
                let wait = self
                    .settings
                    .timing
                    .retry_after(self.sight.failures, u64::from(self.sight.failures));
                self.sight.not_before = now.mono + wait.min(Duration::from_secs(1));
                self.sight.next = self.sight.not_before;
                self.out.push(Action::Tell(News::ListFailed(error)));
            }
        }
    }

    fn see(&mut self, view: View, sent: Time, consistency: Consistency, now: Now) {
        self.sight.failures = 0;
        for bad in &view.unreadable {
            if self.sight.unreadable.insert(bad.key.clone()) {
                self.out.push(Action::Tell(News::Unreadable(
                    bad.key.clone(),
                    bad.reason.clone(),
                )));
            }
        }
        let sighting = self.leader.observed(view.lock.as_ref(), sent, now.mono);
        if sighting == Sighting::Twin && consistency == Consistency::Strong {
            let me = self.settings.me.clone();
            self.out.push(Action::Fatal(Fatal::DuplicateWorker(me)));
        }
        self.sight
            .missing
            .retain(|key, _| !view.leases.iter().any(|row| row.key == *key));
        // An answer that took longer than any call may was held up by a pause of this process.
        let took = self
            .sight
            .last_took
            .min(self.settings.timing.request_timeout());
        let pace = self.look_every(now).max(self.look_pause()) + took;
        let gap = (self.settings.timing.failover() / 2).max(pace * 2);
        let unreadable: BTreeSet<String> =
            view.unreadable.iter().map(|bad| bad.key.clone()).collect();
        let gone = self.sight.update(view, (sent, consistency), now.mono, gap);
        self.look_at_held(&gone, &unreadable, consistency, now);
        self.replan = true;
        self.sight.doubtful |= sighting == Sighting::Twin;
        self.sight.next = now.mono + self.look_every(now).max(self.look_pause());
    }

    /// A list may show that a held row is lost or on its way, earlier than the next renewal.
    fn look_at_held(
        &mut self,
        gone: &[LeaseKey],
        unreadable: &BTreeSet<String>,
        consistency: Consistency,
        now: Now,
    ) {
        for key in gone {
            let certain = consistency == Consistency::Strong && !unreadable.contains(key.as_str());
            if certain && self.held.get(key).is_some_and(|held| !held.writing()) {
                self.lose(key, Loss::Deleted, now);
            } else if self.held.contains_key(key) {
                self.sight.doubtful = true;
            }
        }
        let keys: Vec<LeaseKey> = self.held.keys().cloned().collect();
        for key in keys {
            let Some(row) = self.sight.row(&key).cloned() else {
                continue;
            };
            let held = self.held.get_mut(&key).expect("its key was just listed");
            let before = held.lease.clone();
            let outcome = held.observed(&row, now.mono);
            if outcome != Outcome::Held || held.lease.counter != before.counter {
                self.turned_out(&key, before.checkpoint, outcome, now);
            }
        }
    }

    /// A large table takes time to read: at most two thirds of the time are spent on it.
    fn look_pause(&self) -> Duration {
        (self.sight.last_took / 2).min(self.settings.timing.request_timeout())
    }

    fn look_every(&self, now: Now) -> Duration {
        let timing = self.settings.timing;
        if self.waits() || (self.held.is_empty() && now.mono < self.joined + timing.join_patience())
        {
            return timing.wait_every();
        }
        match self.role(now) {
            Role::Leader | Role::Deputy => timing.watch_every(),
            Role::Follower => timing.follow_every(),
        }
    }

    /// News of its own is expected any moment.
    fn waits(&self) -> bool {
        let me = &self.settings.me;
        self.leaving
            || self
                .entitled
                .keys()
                .any(|key| self.sight.row(key).is_some_and(|row| self.startable(row)))
            || self.held.values().any(|held| {
                matches!(
                    held.phase,
                    Phase::HandOver {
                        stage: Stage::Offered | Stage::Waiting,
                        ..
                    }
                )
            })
            || self.sight.rows().any(|lease| {
                lease.owner.as_ref() == Some(me)
                    && lease.handing_over()
                    && lease.reader() != Some(me)
            })
    }

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

    /// The workers that live and want leases.
    ///
    /// A reader of a row that moves lives; a reader of a row that stands still is dead for this round (hazard H9);
    /// without leases its own row speaks for it, by the change of that row and never by the time in it (hazard H13).
    pub(super) fn living_workers(&self, now: Now) -> BTreeMap<WorkerId, Worker> {
        let timing = self.settings.timing;
        let mut living = BTreeMap::new();
        let mut dead = BTreeSet::new();
        for (key, seen) in &self.sight.rows {
            let Some(reader) = seen.lease.reader() else {
                continue;
            };
            if self.held.contains_key(key) || seen.lease.ended() {
                continue;
            }
            if self
                .sight
                .unread(key, timing.failover(), now.mono)
                .is_some()
            {
                dead.insert(reader);
            } else if !self.sight.presumed_dead.contains(reader) {
                living
                    .entry(reader.clone())
                    .or_insert(Worker { quick: false });
            }
        }
        for (id, seen) in &self.sight.workers {
            let patience = match seen.row.every {
                Some(every) => every + timing.failover() / 2,
                None => timing.java_worker_patience(),
            };
            let quick =
                seen.row.every.is_some() && now.mono < seen.first + timing.join_patience() / 2;
            if now.mono.since(seen.changed) <= patience && !self.sight.presumed_dead.contains(id) {
                living.insert(id.clone(), Worker { quick });
            }
        }
        living.retain(|id, _| {
            !dead.contains(id)
                && !self
                    .sight
                    .workers
                    .get(id)
                    .is_some_and(|seen| seen.row.leaving)
        });
        living.remove(&self.settings.me);
        if !self.leaving {
            living.insert(self.settings.me.clone(), Worker { quick: false });
        }
        living
    }

    /// Readers of rows that stand still: neither their own rows, which promise life for longer, nor rows that were given
    /// to them since speak for them until they renew one themselves or write their own.
    pub(super) fn presume_dead(&mut self, now: Now) {
        let failover = self.settings.timing.failover();
        let dead: Vec<WorkerId> = self
            .sight
            .rows
            .iter()
            .filter(|(key, seen)| !self.held.contains_key(*key) && !seen.lease.ended())
            .filter(|(key, _)| self.sight.unread(key, failover, now.mono).is_some())
            .filter_map(|(_, seen)| seen.lease.reader().cloned())
            .collect();
        let sight = &mut self.sight;
        sight.presumed_dead.extend(dead);
        // Of whom nothing is left in the table nothing needs to be remembered.
        let readers: BTreeSet<&WorkerId> = sight
            .rows
            .values()
            .filter_map(|seen| seen.lease.reader())
            .collect();
        sight
            .presumed_dead
            .retain(|id| readers.contains(id) || sight.workers.contains_key(id));
    }

    /// Whether a worker is a Java one: those never answer that they are ready to inherit.
    pub(super) fn is_java(&self, worker: &WorkerId) -> bool {
        self.sight
            .workers
            .get(worker)
            .is_some_and(SeenWorker::is_java)
    }

    /// Whether a worker rescues shards while it does not lead: ours do, Java ones never.
    pub(super) fn can_be_deputy(&self, worker: &WorkerId) -> bool {
        let ours = |seen: &SeenWorker| !seen.is_java();
        *worker == self.settings.me || self.sight.workers.get(worker).is_some_and(ours)
    }

    /// Rows of workers that died long ago.
    pub(super) fn stale_workers(&self, now: Now) -> Vec<(WorkerId, i64)> {
        const STALE: Duration = Duration::from_secs(24 * 3600);
        self.sight
            .workers
            .values()
            .filter(|seen| {
                let patience = seen.row.every.map_or(STALE, |every| {
                    every * 4 + self.settings.timing.failover() * 6
                });
                now.mono.since(seen.changed) > patience && seen.row.id != self.settings.me
            })
            .map(|seen| (seen.row.id.clone(), seen.row.updated))
            .collect()
    }

    pub(super) fn forget_worker(&mut self, id: &WorkerId) {
        self.sight.workers.remove(id);
    }

    pub(super) fn lose(&mut self, key: &LeaseKey, why: Loss, now: Now) {
        let Some(held) = self.held.remove(key) else {
            return;
        };
        self.wind_down(key, &held, Halt::Lost);
        self.fail_callers(key);
        self.out.push(Action::Tell(News::Lost {
            key: key.clone(),
            why,
        }));
        self.sight.hurry(now.mono);
        self.replan = true;
    }
}
