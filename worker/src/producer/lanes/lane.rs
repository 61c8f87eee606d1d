//! Rule: one lane – records that share a way, and are sent in their order, one call at a time.
//!
//! A call goes when it is full, when its oldest record has waited for `linger`, when the caller hurries, or when it is to
//! be sent again; never while another is in flight, nor before a wait is over.

use std::{collections::VecDeque, time::Duration};

use lease::Time;

use super::{
    LONGEST_WAIT, SHORTEST_WAIT,
    entry::{Entry, User},
};
use crate::{
    backoff::{Backoff, Random},
    limits,
};

/// Calls' worth of records that may wait in a lane while one is in flight.
const CALLS_AHEAD: usize = 2;

/// Records that share a way.
#[derive(Debug)]
pub(super) struct Lane {
    queue: VecDeque<Entry>,
    /// Bytes in `queue`.
    bytes: usize,
    pub(super) busy: bool,
    not_before: Time,
    backoff: Backoff,
    /// Records of the next call at most; fewer than allowed while a record at fault is searched for.
    most: usize,
}

impl Lane {
    pub(super) fn new(random: Random) -> Self {
        Lane {
            queue: VecDeque::new(),
            bytes: 0,
            busy: false,
            not_before: Time::ZERO,
            backoff: Backoff::new(SHORTEST_WAIT, LONGEST_WAIT, random),
            most: limits::PUT_RECORDS_MOST_RECORDS,
        }
    }

    /// So much waits that no more should be given.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() > CALLS_AHEAD * limits::PUT_RECORDS_MOST_RECORDS
            || self.bytes > CALLS_AHEAD * limits::PUT_RECORDS_MOST_BYTES
    }

    /// Nothing waits or is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.busy
    }

    pub(super) fn queue(&mut self, entry: Entry) {
        self.bytes += entry.size();
        self.queue.push_back(entry);
    }

    /// When the next call of this lane may go; `None` if there is none.
    pub(super) fn due(&self, linger: Duration, hurry: bool) -> Option<Time> {
        let oldest = self.queue.front().filter(|_| !self.busy)?;
        let full = self.queue.len() >= self.most || self.bytes >= limits::PUT_RECORDS_MOST_BYTES;
        if hurry || full || oldest.first_sent.is_some() {
            return Some(self.not_before);
        }
        Some(self.not_before.max(oldest.queued + linger))
    }

    /// As many records as fit into one call, at least one.
    pub(super) fn take(&mut self, now: Time) -> Vec<Entry> {
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

    /// What has to be sent again goes before what was not sent yet.
    pub(super) fn put_back(&mut self, entry: Entry) {
        self.bytes += entry.size();
        self.queue.push_front(entry);
    }

    /// Some records of a call went through: the next wait is a short one, and the next call may be larger.
    pub(super) fn succeeded(&mut self) {
        self.backoff.succeeded();
        self.most = (self.most * 2).min(limits::PUT_RECORDS_MOST_RECORDS);
    }

    /// Something was refused, or there was no answer.
    pub(super) fn failed(&mut self, now: Time) {
        self.not_before = now + self.backoff.next_wait();
    }

    /// The next calls hold this many records at most, to find one at fault; the first of them goes at once.
    pub(super) fn narrow(&mut self, most: usize, now: Time) {
        self.most = most;
        self.not_before = now;
    }

    /// Nothing is sent before this time.
    pub(super) fn rest_until(&mut self, time: Time) {
        self.not_before = self.not_before.max(time);
    }

    /// Takes out whatever waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = User> {
        self.bytes = 0;
        self.queue.drain(..).flat_map(|entry| entry.users)
    }
}
