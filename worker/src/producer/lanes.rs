//! Rule: which record goes into which Kinesis record, which call, and when; and what follows from an answer.
//!
//! * A record's hash key alone decides its lane, and a lane has at most one call in flight: records of one key are sent
//!   in the order they were given. What has to be sent again goes before what was not sent yet.
//! * A lane is sent when a call is full, when its oldest record has waited for `linger`, or when the caller hurries.
//! * Records refused one by one, and calls that got no answer, are sent again after a wait, until `give_up` after the
//!   first try. A call that is refused for its content is cut in halves until the record at fault stands alone; that
//!   one is given up.
//! * An aggregate that landed elsewhere than foretold makes the shard map stale: nothing more is sent until a new one
//!   is learnt; then everything that waits is routed anew, in the order it was given. Records that go astray for
//!   `give_up` are given up too.
//! * Every record ends either placed or unplaced.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use checkpoint::{AddError, Aggregator, HashKey, PutRecord};
use lease::{ShardId, Time};

use super::{Options, Summary, Unplaced, shard_map::ShardMap};
use crate::{
    backoff::{Backoff, Random},
    limits,
    source::SourceError,
};

const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Calls' worth of records that may wait in a lane while one is in flight.
const CALLS_AHEAD: usize = 2;

/// A user record on its way.
#[derive(Clone, Debug)]
struct User {
    record: PutRecord,
    tag: u64,
    /// The order in which records were given.
    number: u64,
    /// When its aggregate was first sent that then landed in a wrong shard.
    astray: Option<Time>,
}

/// A Kinesis record on its way.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) partition_key: String,
    pub(super) explicit_hash_key: Option<HashKey>,
    pub(super) data: Bytes,
    users: Vec<User>,
    /// Where an aggregate has to land.
    foretold: Option<ShardId>,
    queued: Time,
    first_sent: Option<Time>,
}

/// One PutRecords call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) entries: Vec<Entry>,
    lane: usize,
}

/// What came of a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// One outcome for each record, in order.
    Results(Vec<Outcome>),
    /// The call as a whole was refused, or got no answer.
    Refused(SourceError),
}

/// What came of one record of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    Placed(ShardId),
    Refused(String),
}

/// Records that share a way.
#[derive(Debug)]
struct Lane {
    queue: VecDeque<Entry>,
    /// Bytes in `queue`.
    bytes: usize,
    busy: bool,
    not_before: Time,
    backoff: Backoff,
    /// Records of the next call at most; fewer than allowed while a record at fault is searched for.
    most: usize,
}

/// The aggregate of one shard, being filled.
#[derive(Debug)]
struct Pack {
    aggregator: Aggregator,
    users: Vec<User>,
    since: Time,
}

/// The state of a producer.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Payload bytes of an aggregate; `None`: nothing is aggregated.
    aggregate: Option<usize>,
    linger: Duration,
    give_up: Duration,
    lanes: Vec<Lane>,
    map: Option<ShardMap>,
    /// By index of the open shard.
    packs: Vec<Pack>,
    /// When the oldest pack is due.
    pack_due: Time,
    stale: bool,
    /// Aggregates that landed elsewhere than foretold, and where.
    strays: Vec<(Entry, ShardId)>,
    given: u64,
    summary: Summary,
}

impl Lanes {
    pub(super) fn new(options: &Options, mut random: Random) -> Self {
        let lane = |_| Lane {
            queue: VecDeque::new(),
            bytes: 0,
            busy: false,
            not_before: Time::ZERO,
            backoff: Backoff::new(SHORTEST_WAIT, LONGEST_WAIT, random.fork()),
            most: limits::PUT_RECORDS_MOST_RECORDS,
        };
        Lanes {
            // The outer partition key of an aggregate is one letter, and counts.
            aggregate: options.aggregate.map(|bytes| bytes.saturating_sub(1)),
            linger: options.linger,
            give_up: options.give_up,
            lanes: (0..options.calls.max(1)).map(lane).collect(),
            map: None,
            packs: Vec::new(),
            pack_due: Time::NEVER,
            stale: options.aggregate.is_some(),
            strays: Vec::new(),
            given: 0,
            summary: Summary::default(),
        }
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// A shard map must be learnt before anything more is sent, and once no call is in flight.
    pub(super) fn is_stale(&self) -> bool {
        self.stale
    }

    /// So much waits that no more should be given.
    pub(super) fn is_full(&self) -> bool {
        self.lanes.iter().any(|lane| {
            lane.queue.len() > CALLS_AHEAD * limits::PUT_RECORDS_MOST_RECORDS
                || lane.bytes > CALLS_AHEAD * limits::PUT_RECORDS_MOST_BYTES
        })
    }

    /// Nothing waits or is in flight.
    pub(super) fn is_empty(&self) -> bool {
        let idle = |lane: &Lane| lane.queue.is_empty() && !lane.busy;
        self.lanes.iter().all(idle)
            && self.packs.iter().all(|pack| pack.users.is_empty())
            && self.strays.is_empty()
    }

    /// Takes a record.
    pub(super) fn add(&mut self, record: PutRecord, tag: u64, now: Time) {
        let number = self.given;
        self.given += 1;
        let user = User {
            record,
            tag,
            number,
            astray: None,
        };
        match unfit(&user.record) {
            Some(reason) => self.drop_users(vec![user], &reason),
            None => self.route(user, now),
        }
    }

    fn route(&mut self, user: User, now: Time) {
        let key = hash_key(&user.record);
        let Some(map) = self.map.as_ref().filter(|_| self.aggregate.is_some()) else {
            // Plain records: equal slices of the hash key space.
            let lane = slice_of(key, self.lanes.len());
            self.queue(lane, plain(user, now));
            return;
        };
        let shard = map.index_of(key);
        self.pack(shard, user, now);
    }

    /// Adds a record to its shard's aggregate, and sends the aggregate on its way when it is full.
    fn pack(&mut self, shard: usize, user: User, now: Time) {
        let pack = &mut self.packs[shard];
        if pack.users.is_empty() {
            pack.since = now;
            self.pack_due = self.pack_due.min(now + self.linger);
        }
        match pack.aggregator.add(user.record.clone()) {
            Ok(()) => pack.users.push(user),
            Err(AddError::Full { .. }) => {
                self.close(shard, now);
                self.pack(shard, user, now);
            }
            Err(AddError::TooLarge { .. }) => {
                // It travels alone, behind what came before it.
                self.close(shard, now);
                let lane = shard % self.lanes.len();
                self.queue(lane, plain(user, now));
            }
        }
    }

    /// Ends the aggregate of a shard.
    fn close(&mut self, shard: usize, now: Time) {
        let pack = &mut self.packs[shard];
        let Some(done) = pack.aggregator.finish() else {
            return;
        };
        let foretold = self.map.as_ref().map(|map| map.id(shard).clone());
        let entry = Entry {
            partition_key: done.partition_key,
            explicit_hash_key: Some(done.explicit_hash_key),
            data: done.data,
            users: std::mem::take(&mut pack.users),
            // One record alone is never in the wrong shard: Kinesis placed it by its own hash key.
            foretold: foretold.filter(|_| done.user_records > 1),
            queued: now,
            first_sent: None,
        };
        let lane = shard % self.lanes.len();
        self.queue(lane, entry);
    }

    /// Ends the aggregates that have waited long enough; all, in a hurry.
    fn close_due(&mut self, now: Time, hurry: bool) {
        if !hurry && now < self.pack_due {
            return;
        }
        self.pack_due = Time::NEVER;
        for shard in 0..self.packs.len() {
            let pack = &self.packs[shard];
            let due = pack.since + self.linger;
            match pack.users.is_empty() {
                true => {}
                false if hurry || due <= now => self.close(shard, now),
                false => self.pack_due = self.pack_due.min(due),
            }
        }
    }

    fn queue(&mut self, lane: usize, entry: Entry) {
        let lane = &mut self.lanes[lane];
        lane.bytes += entry.size();
        lane.queue.push_back(entry);
    }

    /// The next call to make now, if any.
    pub(super) fn next_call(&mut self, now: Time, hurry: bool) -> Option<Call> {
        if self.stale {
            return None;
        }
        self.close_due(now, hurry);
        let ready = |lane: &Lane| lane.due(self.linger, hurry).is_some_and(|due| due <= now);
        let index = self.lanes.iter().position(ready)?;
        let entries = self.lanes[index].take(now);
        self.summary.calls += 1;
        Some(Call {
            entries,
            lane: index,
        })
    }

    /// When there may be a call to make, if nothing else happens.
    pub(super) fn timeout(&self, hurry: bool) -> Time {
        if self.stale {
            return Time::NEVER;
        }
        let lanes = self
            .lanes
            .iter()
            .filter_map(|lane| lane.due(self.linger, hurry));
        lanes.chain([self.pack_due]).min().unwrap_or(Time::NEVER)
    }

    /// Takes an answer. `Some`: nothing more can be put; see [`abandon`](Self::abandon).
    pub(super) fn answered(
        &mut self,
        call: Call,
        answer: Answer,
        now: Time,
    ) -> Option<SourceError> {
        let Call { entries, lane } = call;
        self.lanes[lane].busy = false;
        match answer {
            Answer::Results(outcomes) => {
                self.results(lane, entries, outcomes, now);
                None
            }
            Answer::Refused(SourceError::Invalid(reason)) => {
                self.at_fault(lane, entries, &reason, now);
                None
            }
            Answer::Refused(error @ (SourceError::NotFound(_) | SourceError::Denied(_))) => {
                let reason = error.to_string();
                for entry in entries {
                    self.drop_users(entry.users, &reason);
                }
                Some(error)
            }
            Answer::Refused(error) => {
                let reason = error.to_string();
                let again = entries.into_iter().map(|entry| (entry, reason.clone()));
                self.again(lane, again.collect(), now);
                None
            }
        }
    }

    fn results(&mut self, lane: usize, entries: Vec<Entry>, outcomes: Vec<Outcome>, now: Time) {
        let mut refused = Vec::new();
        let sent = entries.len();
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Placed(shard) => self.placed(entry, shard),
                Outcome::Refused(reason) => refused.push((entry, reason)),
            }
        }
        if refused.len() < sent {
            // Something went through: the next wait is a short one, and the next call may be larger.
            let lane = &mut self.lanes[lane];
            lane.backoff.succeeded();
            lane.most = (lane.most * 2).min(limits::PUT_RECORDS_MOST_RECORDS);
        }
        if !refused.is_empty() {
            self.again(lane, refused, now);
        }
    }

    fn placed(&mut self, entry: Entry, shard: ShardId) {
        if entry.foretold.as_ref().is_some_and(|told| *told != shard) {
            self.stale = true;
            self.strays.push((entry, shard));
            return;
        }
        self.summary.kinesis_records += 1;
        self.summary.records += entry.users.len() as u64;
        let bytes: usize = entry.users.iter().map(|user| user.record.data.len()).sum();
        self.summary.bytes += bytes as u64;
    }

    /// Puts refused records back at the head of their lane, in order, but for those that were tried long enough.
    fn again(&mut self, lane: usize, refused: Vec<(Entry, String)>, now: Time) {
        for (entry, reason) in refused.into_iter().rev() {
            let first = entry.first_sent.unwrap_or(now);
            if now.since(first) >= self.give_up {
                self.drop_users(entry.users, &reason);
                continue;
            }
            self.summary.resent += 1;
            self.lanes[lane].put_back(entry);
        }
        let lane = &mut self.lanes[lane];
        lane.not_before = now + lane.backoff.next_wait();
    }

    /// The call was refused for the content of one of its records, but Kinesis does not say which.
    fn at_fault(&mut self, lane: usize, entries: Vec<Entry>, reason: &str, now: Time) {
        let half = entries.len() / 2;
        if half == 0 {
            for entry in entries {
                self.drop_users(entry.users, reason);
            }
            return;
        }
        let lane = &mut self.lanes[lane];
        for entry in entries.into_iter().rev() {
            lane.put_back(entry);
        }
        lane.most = half;
        lane.not_before = now;
    }

    /// Takes a new shard map, and routes everything that waits anew. Nothing may be in flight.
    pub(super) fn learn(&mut self, map: ShardMap, now: Time) {
        let mut users = self.bring_home(&map, now);
        if !users.is_empty() && self.map.as_ref() == Some(&map) {
            // The list lags behind the shards: it would lead astray again.
            for lane in &mut self.lanes {
                lane.not_before = now + lane.backoff.next_wait();
            }
        }
        for lane in &mut self.lanes {
            lane.bytes = 0;
            users.extend(lane.queue.drain(..).flat_map(|entry| entry.users));
        }
        users.extend(self.packs.drain(..).flat_map(|pack| pack.users));
        users.sort_by_key(|user| user.number);

        let limit = self.aggregate.unwrap_or_default();
        let pack = |_| Pack {
            aggregator: Aggregator::new(limit),
            users: Vec::new(),
            since: now,
        };
        self.packs = (0..map.len()).map(pack).collect();
        self.pack_due = Time::NEVER;
        self.map = Some(map);
        self.stale = false;
        for user in users {
            self.route(user, now);
        }
    }

    /// Judges the aggregates that landed elsewhere than foretold. The records of those that have to be sent again.
    fn bring_home(&mut self, map: &ShardMap, now: Time) -> Vec<User> {
        let mut again = Vec::new();
        for (mut entry, shard) in std::mem::take(&mut self.strays) {
            let range = map.range(&shard);
            let at_home =
                |user: &User| range.is_some_and(|range| range.contains(hash_key(&user.record)));
            if entry.users.iter().all(at_home) {
                entry.foretold = None;
                self.placed(entry, shard);
                continue;
            }
            for user in &mut entry.users {
                user.astray = user.astray.or(entry.first_sent);
            }
            let too_long = |user: &User| {
                user.astray
                    .is_some_and(|since| now.since(since) >= self.give_up)
            };
            let (lost, users): (Vec<_>, Vec<_>) = entry.users.into_iter().partition(too_long);
            self.drop_users(
                lost,
                &format!("its aggregate lands in {shard}, which is not its shard"),
            );
            self.summary.misplaced += users.len() as u64;
            again.extend(users);
        }
        again
    }

    /// Gives up whatever waits. Nothing may be in flight.
    pub(super) fn abandon(&mut self, reason: &str) {
        let mut users: Vec<User> = Vec::new();
        for lane in &mut self.lanes {
            lane.bytes = 0;
            users.extend(lane.queue.drain(..).flat_map(|entry| entry.users));
        }
        for pack in &mut self.packs {
            pack.aggregator.finish();
            users.append(&mut pack.users);
        }
        users.extend(self.strays.drain(..).flat_map(|(entry, _)| entry.users));
        self.pack_due = Time::NEVER;
        self.drop_users(users, reason);
    }

    fn drop_users(&mut self, users: Vec<User>, reason: &str) {
        let reason: Arc<str> = Arc::from(reason);
        let unplaced = users.into_iter().map(|user| Unplaced {
            tag: user.tag,
            reason: reason.clone(),
        });
        self.summary.unplaced.extend(unplaced);
    }
}

impl Lane {
    /// When the next call of this lane may go; `None` if there is none.
    fn due(&self, linger: Duration, hurry: bool) -> Option<Time> {
        let oldest = self.queue.front().filter(|_| !self.busy)?;
        let full = self.queue.len() >= self.most || self.bytes >= limits::PUT_RECORDS_MOST_BYTES;
        if hurry || full || oldest.first_sent.is_some() {
            return Some(self.not_before);
        }
        Some(self.not_before.max(oldest.queued + linger))
    }

    /// As many records as fit into one call, at least one.
    fn take(&mut self, now: Time) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.queue.front()
            && entries.len() < self.most
            && (entries.is_empty() || bytes + next.size() <= limits::PUT_RECORDS_MOST_BYTES)
        {
            bytes += next.size();
            let mut entry = self.queue.pop_front().expect("it was just looked at");
            entry.first_sent.get_or_insert(now);
            entries.push(entry);
        }
        self.bytes -= bytes;
        self.busy = true;
        entries
    }

    fn put_back(&mut self, entry: Entry) {
        self.bytes += entry.size();
        self.queue.push_front(entry);
    }
}

impl Entry {
    /// What Kinesis counts: payload and key.
    fn size(&self) -> usize {
        self.data.len() + self.partition_key.len()
    }
}

fn plain(user: User, now: Time) -> Entry {
    Entry {
        partition_key: user.record.partition_key.clone(),
        explicit_hash_key: user.record.explicit_hash_key,
        data: user.record.data.clone(),
        users: vec![user],
        foretold: None,
        queued: now,
        first_sent: None,
    }
}

fn hash_key(record: &PutRecord) -> HashKey {
    record
        .explicit_hash_key
        .unwrap_or_else(|| HashKey::of_partition_key(&record.partition_key))
}

/// Which of `count` equal slices of the hash key space a key lies in.
fn slice_of(key: HashKey, count: usize) -> usize {
    let high = key.0 >> 64;
    usize::try_from((high * count as u128) >> 64).expect("less than `count`")
}

/// Why no stream can take the record, whatever its settings.
fn unfit(record: &PutRecord) -> Option<String> {
    let key = record.partition_key.chars().count();
    if key == 0 || key > limits::RECORD_KEY_LONGEST {
        let most = limits::RECORD_KEY_LONGEST;
        return Some(format!(
            "the partition key has {key} characters; Kinesis takes 1 to {most}"
        ));
    }
    let size = record.partition_key.len() + record.data.len();
    (size > limits::RECORD_MOST_BYTES).then(|| {
        format!(
            "the record has {size} bytes, key included; Kinesis takes at most {}",
            limits::RECORD_MOST_BYTES
        )
    })
}
