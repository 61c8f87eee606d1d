//! Rule: how one shard is polled – what to ask next, when, and what an answer means. Takes `now`, never waits.
//!
//! * The position only moves behind a record when a page with that record was **accepted**. An iterator that expires
//!   is asked for anew behind the last accepted record, and before the first one at the place where reading began – so
//!   nothing is lost or read twice (hazard 1 of kcl-records §8).
//! * At most five reads a second and two megabytes a second per shard, which all consumers of the shard share.
//! * Caught up, polls grow rarer from `min` to `max`; the first record brings them back.
//! * Throttles and failures wait longer each time, with jitter.
//! * "Not found" and an end without children mean nothing until ListShards has been asked (hazards H28, H29).

use std::time::Duration;

use checkpoint::SequenceNumber;
use lease::{Shard, ShardId, Shards, Time};

use crate::{
    backoff::{Backoff, Random},
    limits,
    source::{From, Page, ShardIterator, SourceError},
};

/// How often to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// While there are records.
    pub min: Duration,
    /// When there have been none for a while.
    pub max: Duration,
    /// Records a page may hold.
    pub limit: u32,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Nothing before this time.
    Wait(Time),
    /// Ask for an iterator.
    Iterator(From),
    /// Read a page.
    Records(ShardIterator, u32),
    /// Ask for all shards, to learn whether this one has really ended and who follows.
    Shards,
    /// The shard is at its end, and these follow.
    Ended(Vec<Shard>),
}

/// What an accepted page tells besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// How far behind the tip the page was.
    pub behind: Duration,
}

/// Between two failures. About the pace of an idle shard, so it burdens nobody; and nobody waits for longer than this once
/// Kinesis is back.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The state of one shard's polling.
#[derive(Debug)]
pub struct Polling {
    shard: ShardId,
    pace: Pace,
    backoff: Backoff,
    /// Where reading began.
    start: From,
    /// The last accepted record.
    last: Option<SequenceNumber>,
    iterator: Option<ShardIterator>,
    idle: Duration,
    next: Time,
    end: End,
}

#[derive(Debug)]
enum End {
    /// Not in sight.
    Open,
    /// The end was read, or the shard was not found; the shards tell what that means.
    Unclear { read_to_end: bool },
    /// Confirmed.
    Known(Vec<Shard>),
}

impl Polling {
    /// Begins at `start`, at once.
    pub fn new(shard: ShardId, start: From, pace: Pace, random: Random, now: Time) -> Self {
        Polling {
            shard,
            backoff: Backoff::new(pace.min, LONGEST_WAIT, random),
            start,
            last: None,
            iterator: None,
            idle: pace.min,
            next: now,
            end: End::Open,
            pace,
        }
    }

    /// What to do now.
    pub fn ask(&self, now: Time) -> Ask {
        if let End::Known(children) = &self.end {
            return Ask::Ended(children.clone());
        }
        if now < self.next {
            return Ask::Wait(self.next);
        }
        match (&self.end, &self.iterator) {
            (End::Unclear { .. }, _) => Ask::Shards,
            (_, Some(iterator)) => Ask::Records(iterator.clone(), self.pace.limit),
            (_, None) => Ask::Iterator(self.from()),
        }
    }

    /// Where a new iterator starts.
    fn from(&self) -> From {
        match &self.last {
            Some(last) => From::After(last.clone()),
            None => self.start.clone(),
        }
    }

    /// Failures since something last worked.
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// An iterator came.
    pub fn iterator(&mut self, iterator: ShardIterator) {
        self.iterator = Some(iterator);
    }

    /// A page came, for a read that was sent then. Its records are taken over by the caller from here on.
    pub fn page(&mut self, page: &Page, sent: Time, now: Time) -> Accepted {
        self.backoff.succeeded();
        if let Some(record) = page.records.last() {
            self.last = Some(record.sequence.detached());
        }
        let caught_up = page.records.is_empty() && page.behind.is_zero();
        self.idle = if caught_up {
            (self.idle * 3 / 2).min(self.pace.max)
        } else {
            self.pace.min
        };
        let by_bytes = Duration::from_secs_f64(
            page.bytes() as f64 / limits::SHARD_READ_BYTES_PER_SECOND as f64,
        );
        let wait = if caught_up { self.idle } else { self.pace.min };
        self.next = (sent + wait.max(by_bytes)).max(now);
        match &page.next {
            Some(next) => self.iterator = Some(next.clone()),
            None if page.children.is_empty() => {
                self.next = now;
                self.end = End::Unclear { read_to_end: true };
            }
            None => self.end = End::Known(page.children.clone()),
        }
        Accepted {
            behind: page.behind,
        }
    }

    /// All shards of the stream, asked for because the end was unclear.
    pub fn shards(&mut self, shards: Vec<Shard>, now: Time) {
        let End::Unclear { read_to_end } = self.end else {
            return;
        };
        let shards = Shards::new(shards);
        if shards.is_empty() {
            // A stream always has shards: an answer about something else.
            self.next = now + self.backoff.next_wait();
            return;
        }
        let children: Vec<Shard> = shards.children(&self.shard).cloned().collect();
        let really = match shards.get(&self.shard) {
            // Its data has expired as a whole – unless the list is older than the shard: whoever follows is the end of it.
            None => shards.knows(&self.shard),
            Some(_) => read_to_end && !children.is_empty(),
        };
        if really {
            self.end = End::Known(children);
            return;
        }
        // Still there: the answer that looked like an end was about something else, or the children come later.
        if !read_to_end {
            self.end = End::Open;
            self.iterator = None;
        }
        self.next = now + self.backoff.next_wait();
    }

    /// A call failed.
    pub fn failed(&mut self, error: &SourceError, now: Time) {
        match error {
            SourceError::ExpiredIterator | SourceError::Invalid(_) => {
                self.iterator = None;
                // An expired iterator is asked for at once; one that is refused again and again is not.
                let first = self.backoff.failures() == 0;
                let wait = self.backoff.next_wait();
                self.next = if first { now } else { now + wait };
                return;
            }
            SourceError::NotFound(_) if matches!(self.end, End::Open) => {
                self.end = End::Unclear { read_to_end: false };
            }
            _ => {}
        }
        self.next = now + self.backoff.next_wait();
    }
}

#[cfg(test)]
mod tests;
