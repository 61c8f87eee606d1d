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
            backoff: Backoff::new(pace.min, Duration::from_secs(10), random),
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
            // A copy: the record's own is a slice of the whole page.
            self.last = Some(copy(&record.sequence));
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

/// A sequence number of its own, not a slice of a larger buffer.
pub(crate) fn copy(sequence: &SequenceNumber) -> SequenceNumber {
    SequenceNumber::from_bytes(bytes::Bytes::copy_from_slice(sequence.as_str().as_bytes()))
        .expect("a sequence number's own digits")
}

#[cfg(test)]
mod tests {
    use checkpoint::{HashRange, KinesisRecord};

    use super::*;

    const PACE: Pace = Pace {
        min: Duration::from_millis(200),
        max: Duration::from_secs(1),
        limit: 10,
    };

    fn at(millis: u64) -> Time {
        Time::new(Duration::from_millis(millis))
    }

    fn polling(start: From) -> Polling {
        Polling::new("shard-1".into(), start, PACE, Random::seeded(1), Time::ZERO)
    }

    fn page(sequences: &[u128], behind: u64) -> Page {
        Page {
            records: sequences
                .iter()
                .map(|sequence| KinesisRecord::new(SequenceNumber::from(*sequence), "key", "data"))
                .collect(),
            next: Some(ShardIterator("next".into())),
            behind: Duration::from_millis(behind),
            children: Vec::new(),
        }
    }

    fn shard(id: &str, parents: &[&str]) -> Shard {
        Shard {
            id: id.into(),
            parents: parents
                .iter()
                .map(|parent| ShardId::from(*parent))
                .collect(),
            range: HashRange::FULL,
            starting_sequence: None,
            closed: false,
        }
    }

    fn end(children: Vec<Shard>) -> Page {
        Page {
            next: None,
            children,
            ..page(&[], 0)
        }
    }

    #[test]
    fn an_iterator_is_asked_for_where_reading_began_until_a_record_was_accepted() {
        // Hazard 1: with AFTER in place of AT, the rest of the aggregate at the checkpoint would be skipped.
        let start = From::At(SequenceNumber::from(7));
        let mut polling = polling(start.clone());
        assert_eq!(polling.ask(at(0)), Ask::Iterator(start.clone()));
        polling.iterator(ShardIterator("first".into()));
        polling.page(&page(&[], 500), at(0), at(1));
        polling.failed(&SourceError::ExpiredIterator, at(300_000));
        assert_eq!(polling.ask(at(300_000)), Ask::Iterator(start));
        polling.iterator(ShardIterator("second".into()));
        polling.page(&page(&[7, 8], 0), at(300_000), at(300_001));
        polling.failed(&SourceError::ExpiredIterator, at(600_000));
        let after = From::After(SequenceNumber::from(8));
        assert_eq!(polling.ask(at(600_000)), Ask::Iterator(after));
    }

    #[test]
    fn polls_are_five_a_second_while_there_is_data_and_rarer_when_there_is_none() {
        let mut polling = polling(From::TrimHorizon);
        polling.iterator(ShardIterator("first".into()));
        polling.page(&page(&[1], 0), at(0), at(5));
        assert_eq!(polling.ask(at(5)), Ask::Wait(at(200)));
        // Empty but behind the tip: AWS answers so; the data is further on.
        polling.page(&page(&[], 1_000), at(200), at(205));
        assert_eq!(polling.ask(at(205)), Ask::Wait(at(400)));
        let mut sent = 400;
        let mut waits = Vec::new();
        for _ in 0..6 {
            polling.page(&page(&[], 0), at(sent), at(sent));
            let Ask::Wait(next) = polling.ask(at(sent)) else {
                panic!("an idle shard is not read at once");
            };
            waits.push(next.since(at(sent)).as_millis());
            sent = u64::try_from(next.since_origin().as_millis()).expect("small");
        }
        assert_eq!(waits, [300, 450, 675, 1_000, 1_000, 1_000]);
        polling.page(&page(&[2], 0), at(sent), at(sent));
        assert_eq!(polling.ask(at(sent)), Ask::Wait(at(sent + 200)));
    }

    #[test]
    fn a_large_page_makes_the_next_read_wait_for_the_shards_two_megabytes_a_second() {
        let mut polling = polling(From::TrimHorizon);
        let mut large = page(&[1], 5_000);
        large.records[0].data = vec![0; 8 << 20].into();
        polling.iterator(ShardIterator("first".into()));
        polling.page(&large, at(0), at(50));
        let Ask::Wait(next) = polling.ask(at(50)) else {
            panic!("8 MiB were just read");
        };
        assert!(next >= at(4_000) && next < at(4_010), "{next:?}");
    }

    #[test]
    fn throttles_wait_longer_each_time_and_a_success_forgets_them() {
        let mut polling = polling(From::TrimHorizon);
        polling.iterator(ShardIterator("first".into()));
        let mut now = at(0);
        let mut last = Duration::ZERO;
        for _ in 0..4 {
            polling.failed(&SourceError::Throttled("slow down".into()), now);
            let Ask::Wait(next) = polling.ask(now) else {
                panic!("a throttled shard is not read at once");
            };
            assert!(next.since(now) > last / 2, "waits grow");
            last = next.since(now);
            now = next;
        }
        assert!(last >= Duration::from_millis(800));
        assert!(
            matches!(polling.ask(now), Ask::Records(..)),
            "the iterator is kept"
        );
        polling.page(&page(&[1], 0), now, now);
        assert_eq!(polling.failures(), 0);
    }

    #[test]
    fn the_end_counts_once_children_are_known() {
        let child = shard("shard-2", &["shard-1"]);
        let mut told = polling(From::TrimHorizon);
        told.iterator(ShardIterator("first".into()));
        told.page(&end(vec![child.clone()]), at(0), at(0));
        assert_eq!(told.ask(at(0)), Ask::Ended(vec![child.clone()]));

        // Hazard H28: an end without children is no end until ListShards names them.
        let mut untold = polling(From::TrimHorizon);
        untold.iterator(ShardIterator("first".into()));
        untold.page(&end(Vec::new()), at(0), at(0));
        assert_eq!(untold.ask(at(0)), Ask::Shards);
        untold.shards(vec![shard("shard-1", &[])], at(0));
        let Ask::Wait(next) = untold.ask(at(0)) else {
            panic!("ListShards is not asked again at once");
        };
        assert_eq!(untold.ask(next), Ask::Shards);
        untold.shards(vec![shard("shard-1", &[]), child.clone()], next);
        assert_eq!(untold.ask(next), Ask::Ended(vec![child]));
    }

    #[test]
    fn not_found_means_nothing_until_the_shards_were_listed() {
        // Hazard H29: a wrong endpoint, or a moment of confusion, must not finish a shard.
        let mut polling = polling(From::TrimHorizon);
        polling.iterator(ShardIterator("first".into()));
        polling.failed(&SourceError::NotFound("no such shard".into()), at(0));
        let Ask::Wait(next) = polling.ask(at(0)) else {
            panic!("waits first");
        };
        assert_eq!(polling.ask(next), Ask::Shards);
        // It is listed: read on, with a new iterator.
        polling.shards(vec![shard("shard-1", &[])], next);
        let Ask::Wait(next) = polling.ask(next) else {
            panic!("waits first");
        };
        assert_eq!(polling.ask(next), Ask::Iterator(From::TrimHorizon));
        // It is not: its data has expired as a whole, and its children follow.
        polling.failed(&SourceError::NotFound("no such shard".into()), next);
        let child = shard("shard-2", &["shard-1"]);
        let later = next + Duration::from_secs(60);
        assert_eq!(polling.ask(later), Ask::Shards);
        polling.shards(Vec::new(), later);
        assert!(
            !matches!(polling.ask(later), Ask::Ended(_)),
            "an empty list proves nothing"
        );
        polling.shards(vec![child.clone()], later);
        assert_eq!(polling.ask(later), Ask::Ended(vec![child]));
    }
}
