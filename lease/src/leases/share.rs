//! Rows that are not held: made, taken, given, cleaned up.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;

use super::{
    Action, Leases, Made, News, Now, StreamState,
    writes::{Purpose, UnderWay},
};
use crate::{
    assign::{self, Move, Role, Row, Scene},
    id::{LeaseKey, ShardId},
    lease::Lease,
    renew::Phase,
    shard::{Shard, Shards},
    sync::{self, Start},
    table::TableError,
    time::Time,
    write::{Assign, Seize, Write},
};

impl Leases {
    /// Looks at everything anew and writes what follows from it.
    pub(super) fn share(&mut self, now: Now) {
        if !self.sight.loaded() {
            return;
        }
        self.avoid.retain(|_, until| now.mono < *until);
        self.forget_entitled(now);
        // Before anything is taken: what is taken stands still no more, and nothing shows that its reader was dead.
        self.presume_dead(now);
        self.sight.expect_unread(self.settings.timing, now.mono);
        self.notice_outdated_shards(now);
        self.start_blocked();
        self.drain_for_ready_heirs();
        self.ask_for_children();
        if self.leaving {
            return self.offer();
        }
        let role = self.role(now);
        if role == Role::Leader {
            self.make_missing(now);
            self.remove_stale_workers(now);
        } else {
            // Whoever leads now goes on from what the table shows.
            self.streams.iter_mut().for_each(StreamState::forget_first);
        }
        let moves = assign::plan(&self.scene(role, now));
        for step in moves {
            self.make(step, now);
        }
    }

    /// What the sharing rule looks at.
    pub(super) fn scene(&self, role: Role, now: Now) -> Scene<'_> {
        let timing = self.settings.timing;
        let heirs = self.writes.heirs();
        let rows = self
            .sight
            .rows()
            // A stream that is not configured here is not read here, nor shared out.
            .filter(|lease| self.stream_of(lease).is_some())
            .map(|lease| {
                let held = self.held.contains_key(&lease.key);
                Row {
                    lease: self.held.get(&lease.key).map_or(lease, |held| &held.lease),
                    unread: if held {
                        None
                    } else {
                        self.sight.unread(&lease.key, timing, now.mono)
                    },
                    going_to: heirs.get(&lease.key).copied(),
                    startable: self.startable(lease),
                    held,
                    busy: self.busy(&lease.key),
                }
            })
            .collect();
        Scene {
            me: &self.settings.me,
            role,
            rows,
            workers: self.living_workers(now),
            max_leases: self.settings.max_leases,
            entitled: &self.entitled,
            deputy_patience: timing.deputy_patience(),
        }
    }

    fn busy(&self, key: &LeaseKey) -> bool {
        self.winding_down.contains_key(key) && !self.held.contains_key(key)
            || self.avoid.contains_key(key)
            || self.writes.waits(key)
            || self.writes.under_way(key) && !self.held.contains_key(key)
            || self.reads.contains_key(key) && !self.held.contains_key(key)
            || self
                .held
                .get(key)
                .is_some_and(|held| !matches!(held.phase, Phase::Running | Phase::Blocked))
    }

    /// Rows of every stream that the table lacks.
    fn make_missing(&mut self, now: Now) {
        let mut made = Vec::new();
        let mut first = BTreeSet::new();
        for number in 0..self.streams.len() {
            if let Some(rows) = self.first_rows(number, now) {
                first.extend(rows.iter().map(|lease| lease.key.clone()));
                made.extend(rows.into_iter().map(|lease| (number, Made::First, lease)));
            } else {
                let rows = self.lacking(number, now).into_iter();
                made.extend(rows.map(|lease| (number, Made::Repair, lease)));
            }
        }
        let keys = made.iter().map(|(.., lease)| lease.key.clone()).collect();
        let confirmed = self.sight.confirmed_missing(&keys, now.mono);
        if !keys
            .iter()
            .all(|key| confirmed.contains(key) || first.contains(key))
        {
            self.lists.hurry(now.mono);
        }
        for (number, why, lease) in made {
            let certain = first.contains(&lease.key)
                || confirmed.contains(&lease.key) && self.listed_since(number, &lease.key, now);
            if certain {
                self.enqueue(Write::Create(Box::new(lease)), Purpose::Cover(why));
            }
        }
    }

    /// The rows a new stream begins with, those that the table does not show yet; `None`: the stream is not new.
    ///
    /// They are decided once, and nothing else is made of the stream until all of them are seen: with a part of them,
    /// what lies before the others would look like holes. A stream is new if this worker has never seen a row of it, the
    /// table shows none for sure, and none that cannot be read: where it began is written in those.
    fn first_rows(&mut self, number: usize, now: Now) -> Option<Vec<Lease>> {
        let stream = &self.streams[number];
        let leases = self.rows_of(stream);
        let unseen = |lease: &&Lease| {
            !leases.contains_key(&lease.shard) && !self.sight.unreadable(&lease.key)
        };
        let mut first: Vec<Lease> = stream.first.iter().filter(unseen).cloned().collect();
        let known = stream.known || !leases.is_empty();
        if !known && first.is_empty() {
            let id = stream.spec.id.as_ref();
            let spoilt = |shard: &Shard| self.sight.unreadable(&LeaseKey::of(id, &shard.id));
            let mut shards = stream.shards.iter().flat_map(Shards::iter);
            if self.sight.doubtful() {
                self.lists.hurry(now.mono);
            } else if !shards.any(spoilt) {
                first = self.lacking(number, now);
            }
        }
        let stream = &mut self.streams[number];
        stream.known = known;
        stream.first.clone_from(&first);
        (!known || !first.is_empty()).then_some(first)
    }

    /// What the stream lacks by what is seen. A row that cannot be read is not lacking: it is left to the operator, who
    /// was told.
    fn lacking(&self, number: usize, now: Now) -> Vec<Lease> {
        let stream = &self.streams[number];
        let Some(shards) = &stream.shards else {
            return Vec::new();
        };
        let mut missing = sync::missing(&sync::Scene {
            stream: stream.spec.id.as_ref(),
            made_for: Some(&stream.spec.made_for),
            start: stream.spec.start,
            shards,
            open_at_start: stream.open_at_start.as_ref(),
            leases: &self.rows_of(stream),
            wall: now.wall,
        });
        missing.retain(|lease| !self.sight.unreadable(&lease.key));
        missing
    }

    /// Finished rows that can go, by a list that was asked for at `asked`: rows that changed since are left alone.
    pub(super) fn clean_up(&mut self, number: usize, asked: Time) {
        if !self.led || !self.sight.loaded() {
            return;
        }
        let stream = &self.streams[number];
        let Some(shards) = &stream.shards else { return };
        let leases = self.rows_of(stream);
        // A try to make the row that had no answer may still be under way: it must not find the row gone.
        let long_ago = asked - self.settings.timing.row_kept_for();
        let retired: Vec<LeaseKey> = sync::retired(&leases, shards)
            .into_iter()
            .filter(|key| self.sight.unchanged_since(key, asked) && !self.held.contains_key(key))
            .filter(|key| self.sight.known_before(key, long_ago))
            .collect();
        for key in retired {
            self.enqueue(Write::Delete { key }, Purpose::Fleet);
        }
    }

    fn rows_of(&self, stream: &StreamState) -> BTreeMap<ShardId, &Lease> {
        self.sight
            .rows()
            .filter(|lease| lease.stream == stream.spec.id)
            .map(|lease| (lease.shard.clone(), lease))
            .collect()
    }

    fn make(&mut self, step: Move, now: Now) {
        match step {
            Move::Acquire(key) => {
                if let Some(seize) = self.seize(&key, now) {
                    self.enqueue(Write::Acquire(seize), Purpose::Seize);
                }
            }
            Move::Take(key) => {
                let owner = self.sight.row(&key).and_then(|row| row.owner.clone());
                if let Some(seize) = self.seize(&key, now) {
                    self.enqueue(Write::Take { seize, owner }, Purpose::Seize);
                }
            }
            Move::Ready(key) => {
                let me = self.settings.me.clone();
                self.enqueue(Write::HeirReady { key, me }, Purpose::Fleet);
            }
            Move::Assign(key, to) => {
                if let Some(row) = self.sight.row(&key).cloned() {
                    let assign = Assign {
                        key,
                        to,
                        owner: row.owner,
                        checkpoint_owner: row.checkpoint_owner,
                        counter: row.counter,
                    };
                    self.enqueue(Write::Assign(assign), Purpose::Fleet);
                }
            }
            Move::HandOff { key, from, to } => {
                self.enqueue(Write::HandOff { key, from, to }, Purpose::Fleet);
            }
        }
    }

    fn seize(&self, key: &LeaseKey, now: Now) -> Option<Seize> {
        let row = self.sight.row(key)?;
        Some(Seize {
            key: key.clone(),
            me: self.settings.me.clone(),
            session: self.settings.session.clone(),
            seen_counter: row.counter,
            pin: self.pin(row, now),
        })
    }

    /// Where a row without a pin is pinned when it is seized.
    fn pin(&self, lease: &Lease, now: Now) -> Option<i64> {
        if lease.pinned.is_some() {
            return None;
        }
        match lease.checkpoint {
            Position::Latest => Some(now.wall),
            Position::AtTimestamp => {
                match self.stream_of(lease).map(|n| self.streams[n].spec.start) {
                    Some(Start::AtTimestamp(at)) => Some(at),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The answer to a write on a row that was not held.
    pub(super) fn fleet_answered(
        &mut self,
        under_way: UnderWay,
        purpose: Purpose,
        result: Result<Option<Lease>, TableError>,
        now: Now,
    ) {
        self.replan = true;
        let key = under_way.write.key().clone();
        match (&purpose, result) {
            (Purpose::Seize, Ok(Some(row))) => {
                self.seized(row, under_way, now);
            }
            (Purpose::Fleet, Ok(Some(row))) => {
                if let Write::HandOff { .. } = under_way.write {
                    self.hand_off_begun(&key, &row, now);
                }
            }
            (Purpose::Cover(why), Ok(Some(row))) => self.created(key, row, *why),
            (Purpose::Fleet, Ok(None)) => self.tell(News::Deleted(key)),
            (Purpose::ChildOf(parent), Ok(Some(row))) => {
                self.created(key.clone(), row, Made::Child);
                self.child_made(parent, &key);
            }
            // It is there already: made by the leader, or by the reader of the other parent – and perhaps spoilt since.
            (Purpose::ChildOf(parent), Err(TableError::Changed(_) | TableError::Unreadable(_))) => {
                self.child_made(parent, &key);
                self.lists.hurry(now.mono);
            }
            // Somebody was faster: the row, or the next list, tells.
            (_, Err(TableError::Changed(_))) => self.doubt(now),
            // There is no clear answer: the next list tells.
            (_, Err(TableError::Unknown(_) | TableError::Unreadable(_))) => {
                self.pause(&key, now);
                self.doubt(now);
            }
            (_, Err(_)) => self.pause(&key, now),
            (_, Ok(None)) => {}
        }
    }

    /// A throttled or refused write is not repeated at once.
    fn pause(&mut self, key: &LeaseKey, now: Now) {
        let until = now.mono + self.settings.timing.retry_after(2, self.writes.sent());
        let until = self.avoid.get(key).map_or(until, |known| until.max(*known));
        self.avoid.insert(key.clone(), until);
    }

    fn hand_off_begun(&mut self, key: &LeaseKey, row: &Lease, now: Now) {
        if let Some(held) = self.held.get_mut(key) {
            held.observed(row, now.mono);
            self.hand_over_begun(key);
        }
        self.lists.hurry(now.mono);
    }

    fn created(&mut self, key: LeaseKey, row: Lease, why: Made) {
        let from = row.checkpoint;
        self.tell(News::Created { key, from, why });
    }

    fn tell(&mut self, news: News) {
        self.out.push(Action::Tell(news));
    }

    fn forget_entitled(&mut self, now: Now) {
        let sight = &self.sight;
        let held = &self.held;
        self.entitled.retain(|key, until| {
            now.mono < *until
                && sight.row(key).is_some_and(|row| {
                    row.owner.is_none() && !row.ended() && !held.contains_key(key)
                })
        });
    }
}
