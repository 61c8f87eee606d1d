//! Rule: what Kinesis lists for each stream, when it is asked, and what follows for a row.
//!
//! The leader asks regularly, to repair what nobody noticed; others ask once, and whenever a question is open. A list
//! only says something about a row that was seen before it was asked for: the row of a shard that is younger than the
//! list may have parents that the list does not know yet.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::{HashRange, Position};

use super::{Action, Leases, Now, Stream};
use crate::{
    id::{LeaseKey, ShardId},
    lease::Lease,
    shard::{Shard, Shards},
    sync,
    time::Time,
};

/// One stream, and what Kinesis lists for it.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) spec: Stream,
    pub(super) shards: Option<Shards>,
    pub(super) open_at_start: Option<BTreeSet<ShardId>>,
    asked: Option<Time>,
    next: Time,
    /// When `shards` was asked for.
    listed: Option<Time>,
    /// A row is younger than `shards` and needs it to be judged.
    outdated: bool,
    /// A row of it was seen: it is not new.
    pub(super) known: bool,
    /// Its first rows, while this worker makes them, that were not seen yet.
    pub(super) first: Vec<Lease>,
}

impl StreamState {
    pub(super) fn new(spec: Stream, now: Time) -> Self {
        StreamState {
            spec,
            shards: None,
            open_at_start: None,
            asked: None,
            next: now,
            listed: None,
            outdated: false,
            known: false,
            first: Vec::new(),
        }
    }

    pub(super) fn forget_first(&mut self) {
        self.first.clear();
    }
}

impl Leases {
    /// What Kinesis lists for a stream, as last asked.
    pub fn shards(&self, stream: usize) -> Option<&Shards> {
        self.streams.get(stream)?.shards.as_ref()
    }

    /// The number of the stream a row belongs to.
    pub fn stream_of(&self, lease: &Lease) -> Option<usize> {
        self.streams
            .iter()
            .position(|stream| stream.spec.id == lease.stream)
    }

    pub(super) fn ask_for_shards(&mut self, now: Now) {
        for number in 0..self.streams.len() {
            if now.mono >= self.list_shards_due(&self.streams[number]) {
                self.streams[number].asked = Some(now.mono);
                self.out.push(Action::ListShards(number));
            }
        }
    }

    /// The leader asks regularly; others once, and whenever a question is open.
    pub(super) fn list_shards_due(&self, stream: &StreamState) -> Time {
        let wanted = stream.shards.is_none() || stream.outdated || self.led;
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
                stream.listed = Some(asked);
                stream.outdated = false;
                self.replan = true;
                self.clean_up(number, asked);
            }
            _ => stream.next = now.mono + timing.list_again_within(),
        }
    }

    /// Whether the parents of a row are done.
    pub(super) fn startable(&self, lease: &Lease) -> bool {
        // Only a list of shards that was asked for after the row was seen says that a parent is listed no more.
        let shards = self
            .stream_of(lease)
            .map(|number| &self.streams[number])
            .filter(|stream| {
                stream
                    .listed
                    .is_some_and(|asked| self.sight.known_before(&lease.key, asked))
            })
            .and_then(|stream| stream.shards.as_ref());
        let row_of = |shard: &ShardId| self.sight.row(&LeaseKey::of(lease.stream.as_ref(), shard));
        sync::startable(lease, row_of, shards)
    }

    /// The hash range of the row's shard, as Kinesis lists it.
    pub(super) fn listed_range(&self, lease: &Lease) -> Option<HashRange> {
        let shards = self.shards(self.stream_of(lease)?)?;
        Some(shards.get(&lease.shard)?.range)
    }

    /// Asks for the shards again where a row cannot be judged by the list at hand.
    pub(super) fn notice_outdated_shards(&mut self, now: Now) {
        let mut outdated = BTreeMap::new();
        let at_beginning = |lease: &&Lease| lease.checkpoint == Position::TrimHorizon;
        for lease in self.sight.rows().filter(at_beginning) {
            let Some(number) = self.stream_of(lease) else {
                continue;
            };
            let stream = &self.streams[number];
            let (Some(asked), Some(shards)) = (stream.listed, &stream.shards) else {
                continue;
            };
            let mut without_row = lease.parents.iter().filter(|parent| {
                let key = LeaseKey::of(lease.stream.as_ref(), parent);
                self.sight.row(&key).is_none()
            });
            // What was asked for in time and is still too old is asked for again, but not all the time.
            let again = match without_row.next() {
                None => continue,
                Some(_) if !self.sight.known_before(&lease.key, asked) => now.mono,
                Some(parent) if shards.knows(parent) && without_row.all(|id| shards.knows(id)) => {
                    continue;
                }
                Some(_) => asked + self.settings.timing.list_again_within(),
            };
            let at = outdated.entry(number).or_insert(again);
            *at = again.min(*at);
        }
        for (number, at) in outdated {
            self.ask_again(number, at);
        }
    }

    /// Who comes to lead may have asked for the shards long ago, and the next time would be a leader's interval from then.
    pub(super) fn list_shards_anew(&mut self) {
        let wait = self.settings.timing.list_again_within();
        for stream in &mut self.streams {
            if let Some(asked) = stream.listed {
                stream.next = stream.next.min(asked + wait);
            }
        }
    }

    /// Whether the shards were asked for after this row was missed; if not, they are asked for again. A list that is
    /// older may not know the children that the shard got since: its row was removed when they were read, and would
    /// look like one that was never made.
    pub(super) fn listed_since(&mut self, number: usize, missed: &LeaseKey, now: Now) -> bool {
        let listed = self.streams[number].listed;
        let since = listed.is_some_and(|asked| self.sight.missing_before(missed, asked));
        if !since {
            self.ask_again(number, now.mono);
        }
        since
    }

    fn ask_again(&mut self, number: usize, at: Time) {
        let stream = &mut self.streams[number];
        if !stream.outdated {
            stream.outdated = true;
            stream.next = stream.next.min(at);
        }
    }
}
