//! What must hold in every history, checked while it is made.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use checkpoint::Position;
use lease::{Lease, LeaseKey, ShardId, Timing, WorkerId, Write};

use crate::{
    process::Process,
    sim::{Call, Pid, SECOND},
    stream::{FakeStream, moment},
};

/// The true state of the work, and what was done wrong.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violations: Vec<String>,
    settled: BTreeMap<ShardId, u64>,
    ended: BTreeSet<ShardId>,
    last_read: BTreeMap<ShardId, u64>,
    /// The longest time between two looks at a shard since [`Checker::watch_gaps`].
    gaps: BTreeMap<ShardId, u64>,
    /// Rows an operator removed: their holder cannot know before it writes.
    deleted: BTreeMap<LeaseKey, u64>,
    /// Rows that two runs under one id both believed to hold: the later one may do with it what it likes.
    twins: BTreeMap<LeaseKey, u64>,
    calls: BTreeMap<&'static str, u64>,
    allowance: u32,
    reborn: Option<u64>,
    per_second: (u64, BTreeMap<Pid, u32>),
    history: DefaultHasher,
}

impl Checker {
    /// `allowance`: calls per second and worker that such a world never needs.
    pub(crate) fn new(allowance: u32) -> Self {
        Checker {
            allowance,
            ..Checker::default()
        }
    }

    /// Something is wrong.
    pub(crate) fn fail(&mut self, now: u64, what: String) {
        let at = (now - SECOND) as f64 / SECOND as f64;
        if self.violations.len() < 20 {
            self.violations.push(format!("at {at:.6}: {what}"));
        }
    }

    /// A number that differs if the history differs.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.history.finish()
    }

    /// How many calls of each kind were made.
    pub(crate) fn calls(&self) -> &BTreeMap<&'static str, u64> {
        &self.calls
    }

    /// A machine calls the table: not too often.
    pub(crate) fn called(&mut self, now: u64, pid: Pid, call: &Call) {
        let name = match call {
            Call::List { .. } => "list",
            Call::Write(_, write) => write.name(),
            Call::Read(_) => "read",
            Call::Lock(_) => "lock",
            Call::PutWorker(_) => "put_worker",
            Call::RemoveWorker(..) => "remove_worker",
        };
        *self.calls.entry(name).or_default() += 1;
        (now, pid, name).hash(&mut self.history);
        let second = now / SECOND;
        if self.per_second.0 != second {
            self.per_second = (second, BTreeMap::new());
        }
        let count = self.per_second.1.entry(pid).or_default();
        *count += 1;
        if *count == self.allowance {
            self.fail(now, format!("{pid} makes {name} calls without end"));
        }
    }

    /// A write leaves a worker: its own rows are only written while it holds them.
    pub(crate) fn wrote(&mut self, now: u64, pid: Pid, holds: bool, write: &Write) {
        let own = matches!(
            write,
            Write::Renew(_) | Write::Release(_) | Write::Complete { .. }
        );
        if own && !holds {
            self.fail(now, format!("{pid} writes after loss: {write}"));
        }
    }

    /// The table did a write.
    pub(crate) fn stored(
        &mut self,
        now: u64,
        pid: Pid,
        write: &Write,
        before: Option<&Lease>,
        after: Option<&Lease>,
        stream: &FakeStream,
    ) {
        (now, pid, write.name(), write.key()).hash(&mut self.history);
        match (before, after) {
            (Some(before), Some(after)) => self.changed(now, pid, write, before, after),
            (Some(before), None) => self.removed(now, pid, before, stream),
            (None, Some(row)) if row.checkpoint.sequence().is_some() || row.ended() => {
                self.fail(now, format!("{pid} makes a row in the middle: {row:?}"));
            }
            _ => {}
        }
    }

    fn changed(&mut self, now: u64, pid: Pid, write: &Write, before: &Lease, after: &Lease) {
        if after.checkpoint < before.checkpoint {
            self.fail(now, format!("{pid} puts a checkpoint back: {write}"));
        }
        if after.checkpoint != before.checkpoint {
            let done = self.settled.get(&after.shard).copied().unwrap_or(0);
            let good = match &after.checkpoint {
                Position::ShardEnd => self.ended.contains(&after.shard),
                position => moment(position, None) <= done,
            };
            if !good {
                self.fail(
                    now,
                    format!("{pid} stores {} beyond {done}: {write}", after.checkpoint),
                );
            }
        }
        let reader_moved =
            before.reader() != after.reader() || before.checkpoint != after.checkpoint;
        if reader_moved && after.counter <= before.counter {
            self.fail(now, format!("{pid} leaves the counter alone: {write}"));
        }
        // A hand-over of a finished row changes nothing: nobody acquires it.
        let hand_off = matches!(write, Write::HandOff { .. });
        if before.ended() && before.owner != after.owner && !hand_off {
            self.fail(now, format!("{pid} gives a finished row: {write}"));
        }
    }

    fn removed(&mut self, now: u64, pid: Pid, row: &Lease, stream: &FakeStream) {
        if !row.ended() || stream.children(&row.shard).is_empty() {
            self.fail(now, format!("{pid} removes {}", row.key));
        }
    }

    /// The first row of an empty table: a new application, for which nothing of a former one counts.
    pub(crate) fn reborn(&mut self, now: u64) {
        if !self.last_read.is_empty() {
            self.reborn = Some(now);
        }
        self.settled.clear();
        self.ended.clear();
        self.last_read.clear();
    }

    /// A consumer starts.
    pub(crate) fn started(
        &mut self,
        now: u64,
        pid: Pid,
        lease: &Lease,
        from: u64,
        processes: &BTreeMap<Pid, Process>,
        stream: &FakeStream,
    ) {
        self.believed(now, pid, &lease.key, processes);
        let done = self.settled.get(&lease.shard).copied();
        if lease.started() && done.is_none_or(|done| from > done) {
            self.fail(
                now,
                format!("{pid} skips to {from} in {}, of {done:?}", lease.key),
            );
        }
        for parent in stream.get(&lease.shard).parents() {
            // A parent that was closed before the application's start is nobody's; whoever still reads for a former
            // application does not know that it is over.
            let touched = self.last_read.contains_key(parent)
                && self.reborn.is_none_or(|at| now > at + 12 * SECOND);
            if touched && !self.ended.contains(parent) {
                self.fail(now, format!("{pid} starts {} before {parent}", lease.key));
            }
        }
    }

    /// A worker's belief begins or grows: nobody else may have one.
    pub(crate) fn believed(
        &mut self,
        now: u64,
        pid: Pid,
        key: &LeaseKey,
        processes: &BTreeMap<Pid, Process>,
    ) {
        let me = &processes[&pid];
        if !me.believes(key, now) {
            return;
        }
        let others = processes
            .iter()
            .filter(|(other, process)| **other != pid && process.believes(key, now));
        // Two runs under one id cannot be kept apart by the owner's name; the next write tells them.
        if others.clone().any(|(_, process)| process.id == me.id) {
            self.twins.insert(key.clone(), now);
        }
        let excused = |at: &u64| now < at + 11 * SECOND;
        if self.deleted.get(key).is_some_and(excused) || self.twins.get(key).is_some_and(excused) {
            return;
        }
        for (other, process) in others {
            if process.id != me.id {
                self.fail(now, format!("{pid} and {other} both read {key}"));
            }
        }
    }

    /// Everything in `shard` up to `moment` is settled.
    pub(crate) fn settled(&mut self, shard: &ShardId, moment: u64) {
        let done = self.settled.entry(shard.clone()).or_default();
        *done = moment.max(*done);
    }

    /// A consumer looked at `shard` and handed over what was there.
    pub(crate) fn delivered(&mut self, now: u64, shard: &ShardId) {
        let last = self.last_read.insert(shard.clone(), now);
        if let (Some(last), Some(longest)) = (last, self.gaps.get_mut(shard)) {
            *longest = (*longest).max(now - last);
        }
    }

    /// Every record of `shard` is settled.
    pub(crate) fn ended(&mut self, shard: &ShardId) {
        self.ended.insert(shard.clone());
        self.settled(shard, u64::MAX);
        self.gaps.remove(shard);
    }

    /// From now on the longest silence of each shard is kept.
    pub(crate) fn watch_gaps(&mut self, shards: impl Iterator<Item = ShardId>) {
        self.gaps = shards.map(|shard| (shard, 0)).collect();
    }

    /// The longest silence of any shard, up to `now`.
    pub(crate) fn longest_gap(&self, now: u64) -> u64 {
        let open = |shard: &ShardId| now - self.last_read.get(shard).copied().unwrap_or(0);
        self.gaps
            .iter()
            .map(|(shard, gap)| (*gap).max(open(shard)))
            .max()
            .unwrap_or(0)
    }

    /// When `shard` was last looked at.
    pub(crate) fn last_read(&self, shard: &ShardId) -> Option<u64> {
        self.last_read.get(shard).copied()
    }

    /// A worker says that it has left.
    pub(crate) fn gone(&mut self, now: u64, pid: Pid, process: &Process, timing: &Timing) {
        if !process.consumers.is_empty() || !process.holds.is_empty() {
            self.fail(now, format!("{pid} goes and leaves {:?}", process.holds));
        }
        let Some(since) = process.leaving_since else {
            return self.fail(now, format!("{pid} goes unasked"));
        };
        // An heir that never answers, a drain that is cut off, a consumer that takes its time to be cut off.
        let most = timing.heir_patience() + timing.drain_patience() + timing.failover();
        if u128::from(now - since) > most.as_micros() + 7 * u128::from(SECOND) {
            self.fail(now, format!("{pid} takes {} µs to leave", now - since));
        }
    }

    /// A worker ends since another runs under its id: then there must be one.
    pub(crate) fn fatal(&mut self, now: u64, id: &WorkerId, twins: bool) {
        if !twins {
            self.fail(now, format!("{id} takes itself for a duplicate"));
        }
    }

    /// A row vanishes.
    pub(crate) fn operator_deleted(&mut self, now: u64, row: &Lease) {
        self.deleted.insert(row.key.clone(), now);
    }
}
