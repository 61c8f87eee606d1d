//! Rule: the conditional writes of this worker, waiting and under way.
//!
//! * At most one write per row waits, and none while another of that row is under way from here – except that a
//!   holder's own writes do not wait for the start of a hand-over. One that was overtaken so is dropped: if it is still
//!   wanted, the next look at the table says so.
//! * Writes on rows that are not held go out a limited number at a time; a holder's own go at once, whatever waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Action, Leases, Made, News, Now};
use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    table::TableError,
    time::Time,
    write::Write,
};

/// Names one write that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// How many writes on rows that are not held are under way at most.
const WRITES_AT_ONCE: usize = 32;

/// Why a write on a row that is not held is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Purpose {
    /// To hold it.
    Seize,
    /// To share out, to clean up.
    Fleet,
    /// So that a part of a stream is read.
    Cover(Made),
    /// So that the parent's end may be written.
    ChildOf(LeaseKey),
}

/// A write whose answer has not come.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) write: Write,
    /// `None`: a holder's own.
    purpose: Option<Purpose>,
    pub(super) sent: Time,
}

/// What waits to be written, and what is under way.
#[derive(Debug, Default)]
pub(super) struct Writes {
    queue: VecDeque<(Write, Purpose)>,
    /// The keys in `queue`.
    queued: BTreeSet<LeaseKey>,
    under_way: BTreeMap<WriteId, UnderWay>,
    /// The keys in `under_way`, and how many writes of each: two while a renewal meets the start of a hand-over.
    rows: BTreeMap<LeaseKey, u32>,
    sent: u64,
}

impl Writes {
    /// A write of the row waits.
    pub(super) fn waits(&self, key: &LeaseKey) -> bool {
        self.queued.contains(key)
    }

    /// A write of the row is under way.
    pub(super) fn under_way(&self, key: &LeaseKey) -> bool {
        self.rows.contains_key(key)
    }

    /// Nothing waits and nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty()
    }

    /// How many were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whose rows will be by what waits and is under way: a plan must not do the same again with other rows.
    pub(super) fn heirs(&self) -> BTreeMap<&LeaseKey, &WorkerId> {
        let waiting = self.queue.iter().map(|(write, _)| write);
        let under_way = self.under_way.values().map(|under_way| &under_way.write);
        waiting
            .chain(under_way)
            .filter_map(|write| {
                let heir = match write {
                    Write::Acquire(seize) | Write::Take { seize, .. } => &seize.me,
                    Write::Assign(assign) => &assign.to,
                    Write::HandOff { to, .. } => to,
                    _ => return None,
                };
                Some((write.key(), heir))
            })
            .collect()
    }

    /// Forgets what waits.
    pub(super) fn clear_queue(&mut self) {
        self.queue.clear();
        self.queued.clear();
    }

    fn enqueue(&mut self, write: Write, purpose: Purpose) {
        if !self.under_way(write.key()) && self.queued.insert(write.key().clone()) {
            self.queue.push_back((write, purpose));
        }
    }

    /// The next of those that wait, if one may go.
    fn next(&mut self) -> Option<(Write, Purpose)> {
        let under_way = self.under_way.values();
        if under_way.filter(|write| write.purpose.is_some()).count() >= WRITES_AT_ONCE {
            return None;
        }
        while let Some((write, purpose)) = self.queue.pop_front() {
            self.queued.remove(write.key());
            if !self.under_way(write.key()) {
                return Some((write, purpose));
            }
        }
        None
    }

    fn send(&mut self, write: Write, purpose: Option<Purpose>, sent: Time) -> WriteId {
        self.sent += 1;
        let id = WriteId(self.sent);
        *self.rows.entry(write.key().clone()).or_default() += 1;
        self.under_way.insert(
            id,
            UnderWay {
                write,
                purpose,
                sent,
            },
        );
        id
    }

    fn answered(&mut self, id: WriteId) -> Option<UnderWay> {
        let under_way = self.under_way.remove(&id)?;
        let key = under_way.write.key();
        if let Some(count) = self.rows.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.rows.remove(key);
            }
        }
        Some(under_way)
    }
}

impl Leases {
    /// Means to do a write on a row that is not held. A row that rests after a failure is left alone.
    pub(super) fn enqueue(&mut self, write: Write, purpose: Purpose) {
        if !self.avoid.contains_key(write.key()) {
            self.writes.enqueue(write, purpose);
        }
    }

    pub(super) fn write_queued(&mut self, now: Now) {
        while let Some((write, purpose)) = self.writes.next() {
            self.send(write, Some(purpose), now);
        }
    }

    pub(super) fn send(&mut self, write: Write, purpose: Option<Purpose>, now: Now) {
        let id = self.writes.send(write.clone(), purpose, now.mono);
        self.out.push(Action::Write(id, write));
    }

    pub(super) fn written(
        &mut self,
        id: WriteId,
        result: Result<Option<Lease>, TableError>,
        now: Now,
    ) {
        let Some(mut under_way) = self.writes.answered(id) else {
            return;
        };
        let key = under_way.write.key().clone();
        match &result {
            Ok(Some(row)) => self.sight.wrote(row, under_way.sent, now.mono),
            Err(TableError::Changed(Some(row))) => {
                self.sight.wrote(row, under_way.sent, now.mono);
            }
            Ok(None) => self.sight.deleted(&key, now.mono),
            Err(TableError::Changed(None)) => {}
            Err(error) => self.out.push(Action::Tell(News::WriteFailed(
                key.clone(),
                under_way.write.name(),
                error.clone(),
            ))),
        }
        match under_way.purpose.take() {
            None => self.held_answered(&key, result, now),
            Some(purpose) => self.fleet_answered(under_way, purpose, result, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn write(row: &str) -> Write {
        let key = LeaseKey::from(row);
        Write::Delete { key }
    }

    fn next(writes: &mut Writes) -> Option<WriteId> {
        let (write, purpose) = writes.next()?;
        Some(writes.send(write, Some(purpose), NOW))
    }

    #[test]
    fn one_write_per_row_waits_and_none_while_another_is_under_way() {
        let mut writes = Writes::default();
        let row = LeaseKey::from("a");
        writes.enqueue(write("a"), Purpose::Fleet);
        writes.enqueue(write("a"), Purpose::Seize);
        assert!(writes.waits(&row) && !writes.under_way(&row));
        let id = next(&mut writes).expect("one waits");
        assert!(!writes.waits(&row) && writes.under_way(&row));
        writes.enqueue(write("a"), Purpose::Fleet);
        assert_eq!(next(&mut writes), None, "it is under way");
        let answered = writes.answered(id).expect("it was under way");
        assert_eq!(answered.purpose, Some(Purpose::Fleet), "the first one");
        assert!(writes.is_empty() && writes.answered(id).is_none());
        writes.enqueue(write("a"), Purpose::Fleet);
        assert!(next(&mut writes).is_some());
    }

    #[test]
    fn a_holders_write_waits_for_nothing_and_overtakes_what_waits() {
        let mut writes = Writes::default();
        let row = LeaseKey::from("a");
        writes.enqueue(write("a"), Purpose::Fleet);
        let own = writes.send(write("a"), None, NOW);
        assert_eq!(next(&mut writes), None, "overtaken, and forgotten");
        assert!(!writes.waits(&row) && writes.under_way(&row));
        // A renewal that meets the start of a hand-over.
        let second = writes.send(write("a"), None, NOW);
        writes.answered(own);
        assert!(writes.under_way(&row));
        writes.answered(second);
        assert!(writes.is_empty() && !writes.under_way(&row));
    }

    #[test]
    fn so_many_are_under_way_at_once_not_counting_the_holders_own() {
        let mut writes = Writes::default();
        writes.send(write("own"), None, NOW);
        for row in 0..=WRITES_AT_ONCE {
            writes.enqueue(write(&row.to_string()), Purpose::Fleet);
        }
        let ids: Vec<WriteId> = std::iter::from_fn(|| next(&mut writes)).collect();
        assert_eq!(ids.len(), WRITES_AT_ONCE);
        writes.answered(ids[0]);
        assert!(next(&mut writes).is_some() && next(&mut writes).is_none());
    }
}
