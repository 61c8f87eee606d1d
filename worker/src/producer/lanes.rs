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

mod entry;
mod lane;
mod packs;

use std::{sync::Arc, time::Duration};

use checkpoint::{HashKey, PutRecord};
use lease::{ShardId, Time};

use super::{Options, Summary, Unplaced, shard_map::ShardMap};
use crate::{
    backoff::{Backoff, Random},
    source::SourceError,
};
use entry::{Entry, User};
use lane::Lane;
use packs::Packs;

/// Waits before something is sent again, or the shards are asked for again.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

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

/// The state of a producer.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Payload bytes of an aggregate; `None`: nothing is aggregated.
    aggregate: Option<usize>,
    linger: Duration,
    give_up: Duration,
    lanes: Vec<Lane>,
    map: Option<ShardMap>,
    packs: Packs,
    stale: bool,
    /// Aggregates that landed elsewhere than foretold, and where.
    strays: Vec<(Entry, ShardId)>,
    /// Waits for ListShards to catch up with the shards.
    lag: Backoff,
    given: u64,
    summary: Summary,
}

impl Lanes {
    pub(super) fn new(options: &Options, mut random: Random) -> Self {
        let lag = random.fork();
        let lane = |_| Lane::new(random.fork());
        Lanes {
            // The outer partition key of an aggregate is one letter, and counts.
            aggregate: options.aggregate.map(|bytes| bytes.saturating_sub(1)),
            linger: options.linger,
            give_up: options.give_up,
            lanes: (0..options.calls.max(1)).map(lane).collect(),
            map: None,
            packs: Packs::new(options.linger),
            stale: options.aggregate.is_some(),
            strays: Vec::new(),
            lag: Backoff::new(SHORTEST_WAIT, LONGEST_WAIT, lag),
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
        self.lanes.iter().any(Lane::is_full)
    }

    /// Nothing waits or is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(Lane::is_empty) && self.packs.is_empty() && self.strays.is_empty()
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
        match user.unfit() {
            Some(reason) => self.drop_users(vec![user], &reason),
            None => self.route(user, now),
        }
    }

    fn route(&mut self, user: User, now: Time) {
        let key = user.hash_key();
        let Some(map) = self.map.as_ref().filter(|_| self.aggregate.is_some()) else {
            // Plain records: equal slices of the hash key space.
            let lane = slice_of(key, self.lanes.len());
            self.lanes[lane].queue(Entry::plain(user, now));
            return;
        };
        let shard = map.index_of(key);
        for entry in self.packs.add(shard, user, now) {
            self.send_to(shard, entry);
        }
    }

    /// Puts what goes to a shard into its lane.
    fn send_to(&mut self, shard: usize, mut entry: Entry) {
        // One record alone is never in the wrong shard: Kinesis placed it by its own hash key.
        if entry.users.len() > 1 {
            entry.foretold = self.map.as_ref().map(|map| map.id(shard).clone());
        }
        let lane = shard % self.lanes.len();
        self.lanes[lane].queue(entry);
    }

    /// The next call to make now, if any.
    pub(super) fn next_call(&mut self, now: Time, hurry: bool) -> Option<Call> {
        if self.stale {
            return None;
        }
        for (shard, entry) in self.packs.close_due(now, hurry) {
            self.send_to(shard, entry);
        }
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
        lanes.chain([self.packs.due()]).min().unwrap_or(Time::NEVER)
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
            self.lanes[lane].succeeded();
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
        self.lanes[lane].failed(now);
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
        lane.narrow(half, now);
    }

    /// Takes a new shard map, and routes everything that waits anew. Nothing may be in flight.
    pub(super) fn learn(&mut self, map: ShardMap, now: Time) {
        let mut users = self.bring_home(&map, now);
        if users.is_empty() || self.map.as_ref() != Some(&map) {
            self.lag.succeeded();
        } else {
            // The list lags behind the shards: it would lead astray again.
            let wait = self.lag.next_wait();
            for lane in &mut self.lanes {
                lane.rest_until(now + wait);
            }
        }
        for lane in &mut self.lanes {
            users.extend(lane.drain());
        }
        users.extend(self.packs.drain());
        users.sort_by_key(|user| user.number);

        let limit = self.aggregate.unwrap_or_default();
        self.packs.reset(map.len(), limit, now);
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
            let at_home = |user: &User| range.is_some_and(|range| range.contains(user.hash_key()));
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
            users.extend(lane.drain());
        }
        users.extend(self.packs.drain());
        users.extend(self.strays.drain(..).flat_map(|(entry, _)| entry.users));
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

/// Which of `count` equal slices of the hash key space a key lies in.
fn slice_of(key: HashKey, count: usize) -> usize {
    let high = key.0 >> 64;
    usize::try_from((high * count as u128) >> 64).expect("less than `count`")
}
