//! Rule: aggregates being filled, one for each open shard.
//!
//! An aggregate goes on its way when the next record does not fit, when its oldest record has waited for `linger`, or
//! when the caller hurries. A record that is too large for any aggregate travels alone, behind what came before it.

use std::time::Duration;

use checkpoint::{AddError, Aggregator};
use lease::Time;

use super::entry::{Entry, User};

/// The aggregates, by index of the open shard.
#[derive(Debug)]
pub(super) struct Packs {
    linger: Duration,
    packs: Vec<Pack>,
    /// When the oldest is due.
    due: Time,
}

#[derive(Debug)]
struct Pack {
    aggregator: Aggregator,
    users: Vec<User>,
    since: Time,
}

impl Packs {
    /// None yet.
    pub(super) fn new(linger: Duration) -> Self {
        Packs {
            linger,
            packs: Vec::new(),
            due: Time::NEVER,
        }
    }

    /// Begins anew, with one of at most `limit` bytes for each of so many shards.
    pub(super) fn reset(&mut self, shards: usize, limit: usize, now: Time) {
        let pack = |_| Pack {
            aggregator: Aggregator::new(limit),
            users: Vec::new(),
            since: now,
        };
        self.packs = (0..shards).map(pack).collect();
        self.due = Time::NEVER;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packs.iter().all(|pack| pack.users.is_empty())
    }

    /// When the oldest aggregate goes on its way.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Adds a record to its shard's aggregate. Returns what goes on its way by that, in order.
    pub(super) fn add(&mut self, shard: usize, user: User, now: Time) -> Vec<Entry> {
        let pack = &mut self.packs[shard];
        if pack.users.is_empty() {
            pack.since = now;
            self.due = self.due.min(now + self.linger);
        }
        match pack.aggregator.add(user.record.clone()) {
            Ok(()) => {
                pack.users.push(user);
                Vec::new()
            }
            Err(AddError::Full { .. }) => {
                let mut done = Vec::from_iter(self.close(shard, now));
                done.extend(self.add(shard, user, now));
                done
            }
            Err(AddError::TooLarge { .. }) => {
                let mut done = Vec::from_iter(self.close(shard, now));
                done.push(Entry::plain(user, now));
                done
            }
        }
    }

    /// Ends the aggregates that have waited long enough – all, in a hurry – and returns them, each with its shard.
    pub(super) fn close_due(&mut self, now: Time, hurry: bool) -> Vec<(usize, Entry)> {
        let mut done = Vec::new();
        if !hurry && now < self.due {
            return done;
        }
        self.due = Time::NEVER;
        for shard in 0..self.packs.len() {
            let pack = &self.packs[shard];
            let due = pack.since + self.linger;
            match pack.users.is_empty() {
                true => {}
                false if hurry || due <= now => {
                    done.extend(self.close(shard, now).map(|entry| (shard, entry)));
                }
                false => self.due = self.due.min(due),
            }
        }
        done
    }

    /// Takes all records out of their aggregates.
    pub(super) fn drain(&mut self) -> Vec<User> {
        let mut users = Vec::new();
        for pack in &mut self.packs {
            pack.aggregator.finish();
            users.append(&mut pack.users);
        }
        self.due = Time::NEVER;
        users
    }

    /// Ends the aggregate of a shard.
    fn close(&mut self, shard: usize, now: Time) -> Option<Entry> {
        let pack = &mut self.packs[shard];
        let done = pack.aggregator.finish()?;
        Some(Entry {
            partition_key: done.partition_key,
            explicit_hash_key: Some(done.explicit_hash_key),
            data: done.data,
            users: std::mem::take(&mut pack.users),
            foretold: None,
            queued: now,
            first_sent: None,
        })
    }
}
