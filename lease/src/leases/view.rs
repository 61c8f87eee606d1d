//! What the table shows, and since when: whom this worker takes for alive, and which rows nobody reads.
//!
//! A row's counter is stamped when this process first **sees** it. Ages only count while the table is looked at
//! without long gaps: after a gap (table away, this process frozen) every stamp starts anew, since nobody can have
//! renewed, or been seen to renew, in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Action, Halt, Leases, Loss, News, Now, StreamState};
use crate::{
    assign::{Role, Worker},
    id::{LeaseKey, ShardId, WorkerId},
    lease::Lease,
    renew::{Outcome, Phase, Stage},
    shard::{Shard, Shards},
    sync,
    table::{Consistency, TableError, View, WorkerRow},
    time::Time,
};

/// The table as last seen.
#[derive(Debug)]
pub(super) struct Sight {
    rows: BTreeMap<LeaseKey, Seen>,
    workers: BTreeMap<WorkerId, SeenWorker>,
    /// Rows that were made or removed by this process, and when: a list asked for before does not know.
    touched: BTreeMap<LeaseKey, Time>,
    unreadable: BTreeSet<String>,
    asked: Option<(Time, Consistency)>,
    next: Time,
    last_good: Option<Time>,
    last_took: Duration,
    failures: u32,
    /// The last list did not show rows that were known: a strong one must say whether they are gone.
    missed_some: bool,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this counter was first seen here.
    changed: Time,
    /// When the row was last known to be so.
    known: Time,
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
            touched: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            asked: None,
            next: now,
            last_good: None,
            last_took: Duration::ZERO,
            failures: 0,
            missed_some: false,
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
        if seen.lease.owner.is_none() && seen.lease.checkpoint_owner.is_none() {
            return Some(age);
        }
        age.checked_sub(failover).filter(|over| !over.is_zero())
    }

    /// The row was as it is when a question was asked then.
    pub(super) fn unchanged_since(&self, key: &LeaseKey, asked: Time) -> bool {
        self.rows.get(key).is_some_and(|seen| seen.changed < asked)
    }

    /// Looks again as soon as possible.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
    }

    /// A write answered with the row as it is. At most one is under way per row, so this is the newest there is.
    pub(super) fn wrote(&mut self, row: &Lease, now: Time) {
        self.touched.insert(row.key.clone(), now);
        self.saw(row.clone(), true, now);
    }

    pub(super) fn deleted(&mut self, key: &LeaseKey, now: Time) {
        self.touched.insert(key.clone(), now);
        self.rows.remove(key);
    }

    /// A lower counter is an old answer, unless it is `newest`: then the row was removed and made anew.
    fn saw(&mut self, lease: Lease, newest: bool, now: Time) {
        match self.rows.get_mut(&lease.key) {
            Some(seen) if lease.counter < seen.lease.counter && !newest => {}
            Some(seen) if lease.counter == seen.lease.counter => {
                seen.lease = lease;
                seen.known = now;
            }
            _ => {
                let seen = Seen {
                    lease,
                    changed: now,
                    known: now,
                };
                self.rows.insert(seen.lease.key.clone(), seen);
            }
        }
    }

    /// Takes a list in. Returns the keys that are gone.
    fn update(
        &mut self,
        view: View,
        (sent, consistency): (Time, Consistency),
        now: Time,
        gap: Duration,
    ) -> Vec<LeaseKey> {
        if self.last_good.is_some_and(|last| now.since(last) > gap) {
            self.rows.values_mut().for_each(|seen| seen.changed = now);
            self.workers
                .values_mut()
                .for_each(|seen| seen.changed = now);
        }
        self.last_good = Some(now);
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
        // A list that may lag can miss a row that was just made: only a strong one says that a row is gone.
        self.missed_some = consistency == Consistency::Eventual && !gone.is_empty();
        if consistency == Consistency::Strong {
            for key in &gone {
                self.rows.remove(key);
            }
        }
        self.saw_workers(view.workers, now);
        gone
    }

    fn saw_workers(&mut self, rows: Vec<WorkerRow>, now: Time) {
        let mut before = std::mem::take(&mut self.workers);
        for row in rows {
            let seen = match before.remove(&row.id) {
                Some(seen) if seen.row == row => seen,
                Some(seen) => SeenWorker {
                    row,
                    changed: now,
                    ..seen
                },
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

impl Leases {
    /// Reads the table and the shards, when it is time.
    pub(super) fn look(&mut self, now: Now) {
        if now.mono >= self.list_due() {
            let consistency = if self.waits() || !self.sight.loaded() || self.sight.missed_some {
                Consistency::Strong
            } else {
                Consistency::Eventual
            };
            self.sight.asked = Some((now.mono, consistency));
            self.out.push(Action::List(consistency));
        }
        for number in 0..self.streams.len() {
            if now.mono >= self.list_shards_due(&self.streams[number]) {
                self.streams[number].asked = Some(now.mono);
                self.out.push(Action::ListShards(number));
            }
        }
    }

    pub(super) fn list_due(&self) -> Time {
        if self.sight.asked.is_some() {
            return Time::NEVER;
        }
        self.sight.next
    }

    /// The leader asks regularly; others once, and whenever a question is open.
    pub(super) fn list_shards_due(&self, stream: &StreamState) -> Time {
        let wanted = stream.shards.is_none()
            || self.led
            || self.held.values().any(|held| held.phase == Phase::Blocked);
        if stream.asked.is_some() || self.leaving || !wanted {
            return Time::NEVER;
        }
        stream.next
    }

    pub(super) fn shards_listed(
        &mut self,
        number: usize,
        shards: Option<(Vec<Shard>, Option<BTreeSet<ShardId>>)>,
        now: Now,
    ) {
        let timing = self.settings.timing;
        let Some(stream) = self.streams.get_mut(number) else {
            return;
        };
        let Some(asked) = stream.asked.take() else {
            return;
        };
        match shards {
            // A stream always has shards; an empty list is an answer about something else.
            Some((shards, open)) if !shards.is_empty() => {
                stream.shards = Some(Shards::new(shards));
                stream.open_at_start = open;
                stream.next = now.mono + timing.list_shards_every();
                self.replan = true;
                self.clean_up(number, asked);
            }
            _ => stream.next = now.mono + timing.request_timeout().min(Duration::from_secs(1)),
        }
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
                self.sight.next = now.mono + wait.min(Duration::from_secs(1));
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
        self.leader.observed(view.lock.as_ref(), sent, now.mono);
        let pace = self.look_every(now).max(self.look_pause()) + self.sight.last_took;
        let gap = (self.settings.timing.failover() / 2).max(pace * 2);
        let unreadable: BTreeSet<String> =
            view.unreadable.iter().map(|bad| bad.key.clone()).collect();
        let gone = self.sight.update(view, (sent, consistency), now.mono, gap);
        self.look_at_held(&gone, &unreadable, consistency, now);
        self.notice_old_shards(now);
        self.replan = true;
        self.sight.next = now.mono + self.look_every(now).max(self.look_pause());
    }

    /// A list of shards that is older than a row cannot judge it: it is asked for anew before its time.
    fn notice_old_shards(&mut self, now: Now) {
        let soon = now.mono
            + self
                .settings
                .timing
                .request_timeout()
                .min(Duration::from_secs(1));
        for stream in &mut self.streams {
            let old = stream.shards.as_ref().is_some_and(|shards| {
                let mut rows = self.sight.rows();
                rows.any(|row| row.stream == stream.spec.id && !shards.knows(&row.shard))
            });
            if old {
                stream.next = stream.next.min(soon);
            }
        }
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
            }
        }
        let keys: Vec<LeaseKey> = self.held.keys().cloned().collect();
        for key in keys {
            let Some(row) = self.sight.row(&key).cloned() else {
                continue;
            };
            let held = self.held.get_mut(&key).expect("its key was just listed");
            match held.observed(&row, now.mono) {
                Outcome::Lost(row) => self.lost_to(&key, row, now),
                Outcome::HandOver => self.hand_over_begun(&key),
                _ => {}
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
                .iter()
                .any(|key| self.sight.row(key).is_some_and(|row| self.startable(row)))
            || self.held.values().any(|held| {
                matches!(
                    held.phase,
                    Phase::HandOver {
                        stage: Stage::Waiting,
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
            .find(|worker| Some(worker) != holder);
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
            } else {
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
            if now.mono.since(seen.changed) <= patience {
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

    /// Whether a worker is a Java one: those never answer that they are ready to inherit.
    pub(super) fn is_java(&self, worker: &WorkerId) -> bool {
        self.sight
            .workers
            .get(worker)
            .is_some_and(|seen| seen.row.every.is_none())
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

    /// Whether the parents of a row are done.
    pub(super) fn startable(&self, lease: &Lease) -> bool {
        let shards = self
            .stream_of(lease)
            .and_then(|number| self.streams[number].shards.as_ref());
        let row_of = |shard: &ShardId| {
            self.sight
                .row(&LeaseKey::of(lease.stream.as_ref(), shard))
                .map(Lease::ended)
        };
        sync::startable(lease, row_of, shards)
    }

    pub(super) fn lose(&mut self, key: &LeaseKey, why: Loss, now: Now) {
        let Some(held) = self.held.remove(key) else {
            return;
        };
        self.wind_down(key, &held, Halt::Lost);
        self.answer_callers(key, None);
        self.out.push(Action::Tell(News::Lost {
            key: key.clone(),
            why,
        }));
        self.sight.hurry(now.mono);
        self.replan = true;
    }
}
