//! Remembers which user records of a shard are done, and how far a checkpoint may go.
//!
//! Rule: records are admitted in the order of the shard and settle in any order. The *watermark* is the last position
//! with nothing unsettled before it; that, and nothing beyond it, may be stored. Properties kept:
//! * the watermark never passes an unsettled record, and never goes back;
//! * once everything is settled it equals the last admitted position;
//! * each operation takes constant time, spread over the records it settles.
//!
//! `ShardEnd` is admitted like a record, after the last one: the watermark reaches it when the whole shard is done.

use std::collections::VecDeque;

use thiserror::Error;

use crate::position::Position;

/// Follows the records of one shard from their admission until they are settled.
#[derive(Debug, Clone, Default)]
pub struct Tracker {
    /// Admitted records from the first unsettled one on.
    pending: VecDeque<Entry>,
    /// The number of the ticket of the first entry.
    first: u64,
    /// How many entries are unsettled.
    unsettled: usize,
    /// Where the shard was resumed.
    start: Option<Position>,
    /// The last position that left the front of `pending`, or was named by `settle_through`.
    watermark: Option<Position>,
}

#[derive(Debug, Clone)]
struct Entry {
    position: Position,
    settled: bool,
}

/// Stands for one admitted record, in the tracker that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// A record that does not come after the one before it; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("position {position} is not after {largest}, the last one admitted or checkpointed")]
pub struct OutOfOrder {
    /// The position that was offered.
    pub position: Position,
    /// The position it had to follow.
    pub largest: Position,
}

/// A ticket that this tracker has not given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("ticket {} was never given out", .0.0)]
pub struct UnknownTicket(pub Ticket);

/// Why a handler may not checkpoint at a position; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettleThroughError {
    /// Before what was already checkpointed: a checkpoint never goes back.
    #[error("position {position} is before {last}, which is already done")]
    Before {
        /// The position asked for.
        position: Position,
        /// The least that can be asked for.
        last: Position,
    },
    /// Beyond what was handed over.
    #[error("position {position} is beyond {}, the last one handed over", spell(largest.as_ref()))]
    Beyond {
        /// The position asked for.
        position: Position,
        /// The most that can be asked for; `None` while nothing was handed over.
        largest: Option<Position>,
    },
    /// `TRIM_HORIZON`, `LATEST` or `AT_TIMESTAMP`: to store one would make the next holder start elsewhere.
    #[error("{0} says where to begin, not what is done")]
    Sentinel(Position),
}

fn spell(position: Option<&Position>) -> String {
    position.map_or_else(|| "nothing".to_owned(), Position::to_string)
}

impl Tracker {
    /// Begins where the lease row says the shard was left; `None` if there is no such row.
    pub fn new(start: Option<Position>) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    /// Takes in the next record of the shard.
    ///
    /// # Errors
    /// When it is not after the record admitted before it, or after the position the shard was resumed at. Records that
    /// a resumed shard sends again are to be skipped before they come here.
    pub fn admit(&mut self, position: Position) -> Result<Ticket, OutOfOrder> {
        if let Some(largest) = self.largest()
            && position <= *largest
        {
            let largest = largest.clone();
            return Err(OutOfOrder { position, largest });
        }
        let ticket = Ticket(self.first + self.pending.len() as u64);
        self.unsettled += 1;
        self.pending.push_back(Entry {
            position,
            settled: false,
        });
        Ok(ticket)
    }

    /// Notes that a record is done: handled, stored by a sink, or given up by a policy.
    ///
    /// Says whether it was unsettled until now. Settling twice changes nothing, so a handler may settle single records
    /// after it checkpointed past them.
    ///
    /// # Errors
    /// When the ticket is not one of this tracker.
    pub fn settle(&mut self, ticket: Ticket) -> Result<bool, UnknownTicket> {
        let Some(index) = ticket.0.checked_sub(self.first) else {
            return Ok(false);
        };
        let entry = usize::try_from(index)
            .ok()
            .and_then(|index| self.pending.get_mut(index));
        let entry = entry.ok_or(UnknownTicket(ticket))?;
        if entry.settled {
            return Ok(false);
        }
        entry.settled = true;
        self.unsettled -= 1;
        while self.pending.front().is_some_and(|entry| entry.settled) {
            self.retire();
        }
        Ok(true)
    }

    /// Notes that everything up to and including a position is done: a handler's explicit checkpoint.
    ///
    /// The watermark becomes exactly this position, also when no record of it was admitted: checkpointing a sequence
    /// number alone means its sub-sequence number 0, and the items after that are delivered again. Records after it that
    /// had settled on their own then move the watermark on. Returns how many records this call settled; 0 when the
    /// position is where the watermark, or the start, already stands.
    ///
    /// # Errors
    /// When the position is not from the watermark (before the first one: the start) to the last admitted position, or
    /// is a sentinel other than `ShardEnd`.
    pub fn settle_through(&mut self, position: &Position) -> Result<usize, SettleThroughError> {
        self.check(position)?;
        let before = self.unsettled;
        while self
            .pending
            .front()
            .is_some_and(|entry| entry.position <= *position)
        {
            let settled = self.pending.front().is_some_and(|entry| entry.settled);
            self.unsettled -= usize::from(!settled);
            self.retire();
        }
        if self.done() < Some(position) {
            self.watermark = Some(position.clone());
        }
        while self.pending.front().is_some_and(|entry| entry.settled) {
            self.retire();
        }
        Ok(before - self.unsettled)
    }

    fn check(&self, position: &Position) -> Result<(), SettleThroughError> {
        if self.done() == Some(position) {
            return Ok(());
        }
        let position = position.clone();
        if position.is_sentinel() && position != Position::ShardEnd {
            return Err(SettleThroughError::Sentinel(position));
        }
        if let Some(last) = self.done().filter(|last| position < **last) {
            let last = last.clone();
            return Err(SettleThroughError::Before { position, last });
        }
        if self.largest() < Some(&position) {
            let largest = self.largest().cloned();
            return Err(SettleThroughError::Beyond { position, largest });
        }
        Ok(())
    }

    /// Moves the watermark over the first entry.
    fn retire(&mut self) {
        if let Some(entry) = self.pending.pop_front() {
            self.first += 1;
            self.watermark = Some(entry.position);
        }
    }

    /// Where the next holder would resume if the watermark were stored now.
    fn done(&self) -> Option<&Position> {
        self.watermark.as_ref().or(self.start.as_ref())
    }

    /// The last position with nothing unsettled before it; `None` until it has moved from where the shard was resumed.
    pub fn watermark(&self) -> Option<&Position> {
        self.watermark.as_ref()
    }

    /// The last admitted position; before the first one, where the shard was resumed.
    pub fn largest(&self) -> Option<&Position> {
        // Without anything pending, the watermark is where the last record was.
        self.pending
            .back()
            .map(|entry| &entry.position)
            .or(self.done())
    }

    /// How many admitted records are not settled.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// The first admitted record that is not settled: what holds the watermark back.
    pub fn oldest_unsettled(&self) -> Option<&Position> {
        self.pending.front().map(|entry| &entry.position)
    }
}

#[cfg(test)]
mod tests;
