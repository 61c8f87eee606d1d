//! Rule: from pages to batches. A pure machine between a shard's reader and its handler.
//!
//! ```text
//! page ─▶ skip what was done before the lease was taken ─▶ de-aggregate ─▶ hash range ─▶ batch
//! ```
//! Aggregates are unpacked when a batch needs them, a few at a time: what waits in memory is the page as it came. Every
//! record that is not handed on is counted by its reason.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use checkpoint::{Deaggregator, KinesisRecord, Position, SequenceNumber, Unpacked, UserRecord};
use lease::Time;

use crate::{budget::Reserved, handler::Batch};

/// How large a batch may be, and how long it may wait to become so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// User records at most.
    pub records: usize,
    /// Bytes of payload at most; a single record may be larger.
    pub bytes: usize,
    /// How long a batch that is not full waits for more.
    pub wait: Duration,
}

/// What is read and not yet handed over.
#[derive(Debug)]
pub struct Inbox {
    deaggregator: Deaggregator,
    limits: BatchLimits,
    /// Where the lease was taken over: nothing up to there is handed on.
    resumed_at: Position,
    raw: VecDeque<KinesisRecord>,
    ready: VecDeque<UserRecord>,
    ready_bytes: usize,
    raw_bytes: usize,
    /// The pages whose bytes are in use, by the last Kinesis record of each.
    pages: VecDeque<(SequenceNumber, Arc<Reserved>)>,
    /// When the oldest record that waits came.
    since: Option<Time>,
    /// The last Kinesis record that was taken in.
    last: Option<SequenceNumber>,
    behind: Duration,
    /// The last Kinesis record of which nothing was handed on, if nothing came after it.
    barren: Option<Position>,
    counts: Counts,
}

/// A batch, and what it keeps alive.
#[derive(Debug)]
pub struct Parcel {
    /// What the handler gets.
    pub batch: Batch,
    /// Its bytes of payload.
    pub bytes: usize,
    /// Its last record.
    pub position: Position,
    /// A later Kinesis record of which nothing is handed on, if nothing else waits before it.
    pub barren: Option<Position>,
    _reserved: Vec<Arc<Reserved>>,
}

/// What became of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By de-aggregation.
    pub unpacked: Unpacked,
    /// User records that were done before the lease was taken over.
    pub resumed: u64,
    /// Kinesis records that the stream gave a second time.
    pub repeated: u64,
}

/// Kinesis records that are unpacked at once: enough to fill the vector lanes, few enough to keep memory small.
const AT_ONCE: usize = 16;

impl Inbox {
    /// An empty one, for a shard that is resumed at `resumed_at`.
    pub fn new(deaggregator: Deaggregator, limits: BatchLimits, resumed_at: Position) -> Self {
        Inbox {
            deaggregator,
            limits,
            resumed_at,
            raw: VecDeque::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            raw_bytes: 0,
            pages: VecDeque::new(),
            since: None,
            last: None,
            behind: Duration::ZERO,
            barren: None,
            counts: Counts::default(),
        }
    }

    /// Takes a page in.
    pub fn push(
        &mut self,
        records: Vec<KinesisRecord>,
        behind: Duration,
        reserved: Reserved,
        now: Time,
    ) {
        self.behind = behind;
        let before = self.raw.len();
        for record in records {
            if self
                .last
                .as_ref()
                .is_some_and(|last| record.sequence <= *last)
            {
                self.counts.repeated += 1;
                continue;
            }
            self.raw_bytes += record.data.len();
            self.last = Some(record.sequence.clone());
            self.raw.push_back(record);
        }
        if self.raw.len() > before {
            let last = self
                .last
                .as_ref()
                .expect("a record was just taken in")
                .detached();
            self.last = Some(last.clone());
            self.pages.push_back((last, Arc::new(reserved)));
            self.since.get_or_insert(now);
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.raw_bytes + self.ready_bytes
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty() && self.ready.is_empty()
    }

    /// What became of the records since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// When a batch that is not full goes out.
    pub fn due(&self) -> Option<Time> {
        self.since.map(|since| since + self.limits.wait)
    }

    /// The next batch, if it is full, has waited long enough, or `all` is wanted.
    pub fn next(&mut self, all: bool, now: Time) -> Option<Parcel> {
        self.unpack();
        if self.ready.is_empty() {
            if self.raw.is_empty() {
                self.since = None;
            }
            return None;
        }
        let full = self.ready.len() >= self.limits.records || self.ready_bytes >= self.limits.bytes;
        if !full && !all && self.due().is_some_and(|due| now < due) {
            return None;
        }
        Some(self.parcel(now))
    }

    /// A position that is done although nothing of it was handed on: the last record of a run that was dropped whole.
    pub fn take_barren(&mut self) -> Option<Position> {
        if self.is_empty() {
            self.pages.clear();
            self.barren.take()
        } else {
            None
        }
    }

    /// Unpacks until a batch is full or nothing is left.
    fn unpack(&mut self) {
        while self.ready.len() < self.limits.records && self.ready_bytes < self.limits.bytes {
            let take = self.raw.len().min(AT_ONCE);
            if take == 0 {
                return;
            }
            let last = self.raw[take - 1].sequence.clone();
            let Inbox {
                raw,
                ready,
                ready_bytes,
                raw_bytes,
                resumed_at,
                counts,
                deaggregator,
                ..
            } = self;
            let passed = matches!(resumed_at, Position::At { sequence, .. } if last > *sequence)
                || !matches!(resumed_at, Position::At { .. });
            let some = raw
                .drain(..take)
                .inspect(|record| *raw_bytes -= record.data.len());
            counts.unpacked += deaggregator.push_all(some, &mut |record: UserRecord| {
                if matches!(resumed_at, Position::At { .. }) && record.position() <= *resumed_at {
                    counts.resumed += 1;
                } else {
                    *ready_bytes += record.data.len();
                    ready.push_back(record);
                }
            });
            if passed {
                // Nothing that comes later can have been done before.
                self.resumed_at = Position::TrimHorizon;
            }
            let handed_on = self
                .ready
                .back()
                .is_some_and(|record| record.sequence == last);
            self.barren = (!handed_on && passed).then(|| Position::at(last.detached(), 0));
        }
    }

    fn parcel(&mut self, now: Time) -> Parcel {
        let mut records = Vec::with_capacity(self.ready.len().min(self.limits.records));
        let mut bytes = 0;
        while let Some(record) = self.ready.front() {
            let size = record.data.len();
            if records.len() >= self.limits.records
                || (!records.is_empty() && bytes + size > self.limits.bytes)
            {
                break;
            }
            bytes += size;
            records.extend(self.ready.pop_front());
        }
        self.ready_bytes -= bytes;
        self.since = (!self.is_empty()).then_some(now);
        let barren = if self.is_empty() {
            self.barren.take()
        } else {
            None
        };
        Parcel {
            position: records.last().expect("a batch has records").position(),
            barren,
            bytes,
            _reserved: self.pages_up_to(&records),
            batch: Batch {
                records,
                behind: self.behind,
                attempt: 1,
            },
        }
    }

    /// The pages this batch draws on; those it exhausts are given back with it.
    fn pages_up_to(&mut self, records: &[UserRecord]) -> Vec<Arc<Reserved>> {
        let last = &records.last().expect("a batch has records").sequence;
        let empty = self.is_empty();
        let mut used = Vec::new();
        while let Some((end, reserved)) = self.pages.front() {
            used.push(reserved.clone());
            if end > last && !empty {
                break;
            }
            let exhausted = empty || self.ready.front().is_none_or(|next| next.sequence > *end);
            if !exhausted {
                break;
            }
            self.pages.pop_front();
        }
        used
    }
}

#[cfg(test)]
mod tests;
