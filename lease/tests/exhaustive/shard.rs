//! One shard, as two workers over one table see it – and what must hold for it in every state.

use std::{collections::BTreeSet, time::Duration};

use checkpoint::Position;
use lease::{
    Lease, Session, ShardId, Time, Timing, WorkerId, Write,
    renew::{Held, Outcome, Phase, Stage},
};

use crate::{
    planted::Planted,
    print::{EPOCH, FIRST, Lens},
};

/// The last record of each shard.
pub(crate) const RECORDS: u8 = 1;
/// Milliseconds of the wall clock: where counters start.
pub(crate) const WALL: i64 = FIRST as i64;

/// What a step needs to know besides the shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Time goes in steps of this, an exact part of the failover time.
    pub(crate) tick: Duration,
    /// The shard that follows the first one, if there is one.
    pub(crate) child: Option<fn() -> lease::Shard>,
    pub(crate) planted: Option<Planted>,
}

impl Setting {
    pub(crate) const fn of_ticks(tick: Duration) -> Self {
        Setting {
            tick,
            child: None,
            planted: None,
        }
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing::new(Duration::from_secs(10), self.tick)
    }

    pub(crate) fn at(&self, ticks: u32) -> Time {
        Time::new(Duration::from_secs(EPOCH) + self.tick * ticks)
    }

    pub(crate) fn planted(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

pub(crate) fn id(worker: usize) -> WorkerId {
    WorkerId::from(["a", "b"][worker])
}

pub(crate) fn position(record: u8) -> Option<Position> {
    (record > 0).then(|| Position::at(record.to_string().parse().expect("digits"), 0))
}

/// What becomes of one shard. A step of it sees nothing else.
#[derive(Clone)]
pub(crate) struct Shard {
    /// Absent: not made yet, or removed.
    pub(crate) row: Option<Lease>,
    /// The greatest counter the row ever had.
    counter: u64,
    /// How far it is settled by anybody.
    pub(crate) settled: u8,
    /// How often each worker restarted.
    pub(crate) runs: [u8; 2],
    pub(crate) seats: [Seat; 2],
}

/// What one worker knows of the shard and does with it.
#[derive(Clone, Hash, Default)]
pub(crate) struct Seat {
    pub(crate) held: Option<Held>,
    pub(crate) reading: bool,
    /// A write of this hold has, or had, no clear answer.
    pub(crate) in_doubt: bool,
    pub(crate) settled: u8,
    /// The row as last seen, and since when with this counter.
    pub(crate) seen: Option<(Lease, Time)>,
    pub(crate) call: Option<Call>,
    /// Writes whose sender gave up or restarted: each may still happen, at any time.
    pub(crate) late: Vec<Write>,
}

/// A call under way; `answer` once the table has done it.
#[derive(Clone, Hash)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) sent: Time,
    pub(crate) answer: Option<Answer>,
}

/// The row after a write, or as it stood where the condition did not hold.
pub(crate) type Answer = Result<Option<Lease>, Option<Lease>>;

#[derive(Clone, Hash)]
pub(crate) enum Ask {
    Read,
    Write(Write),
}

impl Seat {
    pub(crate) fn believes(&self, now: Time) -> bool {
        let held = self.held.as_ref();
        self.reading && held.is_some_and(|held| now < held.valid_until())
    }

    pub(crate) fn lose(&mut self) {
        self.held = None;
        self.reading = false;
        self.in_doubt = false;
    }

    pub(crate) fn turned_out(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Held | Outcome::HandOver | Outcome::Open => {}
            _ => self.lose(),
        }
    }

    /// A hold whose belief is over and cannot be renewed by what is under way is a hold no more.
    fn forget_expired(&mut self, now: Time, timing: Timing) {
        let over = |held: &Held| now >= held.valid_until();
        let hopeful = |call: &Call| now < timing.valid_until(call.sent);
        if !self.held.as_ref().is_some_and(over)
            || self.in_doubt
            || self.call.as_ref().is_some_and(hopeful)
        {
            return;
        }
        self.lose();
        self.abandon();
    }

    /// Nobody waits for the call any more; if it is a write it may still happen.
    pub(crate) fn abandon(&mut self) {
        if let Some(Call {
            ask: Ask::Write(write),
            answer: None,
            ..
        }) = self.call.take()
        {
            self.late.push(write);
        }
    }

    /// Forgets writes that can never be permitted any more, and what was seen of a row that has moved on since.
    fn forget_doomed(&mut self, row: Option<&Lease>, now: Time, timing: Timing) {
        let current = |seen: &Lease| row.is_some_and(|row| row.counter == seen.counter);
        self.seen = self.seen.take().filter(|(seen, _)| current(seen));
        if let (Some((seen, _)), Some(row), None) = (&mut self.seen, row, &self.held) {
            *seen = row.clone();
        }
        let doomed = |write: &Write| doomed(write, row);
        let mut late: Vec<Write> = Vec::new();
        for write in std::mem::take(&mut self.late) {
            if !doomed(&write) && !late.contains(&write) {
                late.push(write);
            }
        }
        self.late = late;
        let idle = |call: &Call| match (&call.ask, &call.answer) {
            (Ask::Write(write @ (Write::Acquire(_) | Write::Take { .. })), answer) => {
                match answer {
                    None => doomed(write),
                    Some(Ok(_)) => now >= timing.valid_until(call.sent),
                    Some(Err(_)) => true,
                }
            }
            _ => false,
        };
        self.call = self.call.take().filter(|call| !idle(call));
    }

    /// Forgets moments that nothing is measured from.
    fn forget_times(&mut self, me: &WorkerId) {
        if let (Some((seen, _)), Some(held)) = (&mut self.seen, &self.held)
            && seen.counter == held.lease.counter
        {
            *seen = held.lease.clone();
        }
        if let Some((seen, since)) = &mut self.seen
            && self.call.is_none()
            && seen.reader().is_none_or(|reader| reader == me)
        {
            *since = Time::ZERO;
        }
        if let Some(held) = &mut self.held
            && let Phase::HandOver { since, stage, .. } | Phase::Leaving { since, stage } =
                &mut held.phase
            && *stage != Stage::Waiting
        {
            *since = Time::ZERO;
        }
    }

    pub(crate) fn send(&mut self, ask: Ask, sent: Time) {
        self.call = Some(Call {
            ask,
            sent,
            answer: None,
        });
    }
}

impl Shard {
    /// A shard whose row nobody has seen.
    pub(crate) fn new(id: &str, parents: BTreeSet<ShardId>) -> Self {
        let mut row = Lease::new(None, ShardId::from(id), Position::TrimHorizon);
        row.counter = FIRST;
        row.parents = parents;
        Shard {
            counter: row.counter,
            row: Some(row),
            settled: 0,
            runs: [0, 0],
            seats: Default::default(),
        }
    }

    /// A shard that has no row yet.
    pub(crate) fn absent() -> Self {
        Shard {
            row: None,
            ..Shard::new("", BTreeSet::new())
        }
    }

    pub(crate) fn session(&self, worker: usize) -> Session {
        Session::from(format!("{}{}", id(worker), self.runs[worker]))
    }

    /// A worker dies and starts anew; its calls are on their way all the same.
    pub(crate) fn restart(&mut self, worker: usize) {
        self.runs[worker] += 1;
        let seat = &mut self.seats[worker];
        seat.abandon();
        *seat = Seat {
            late: std::mem::take(&mut seat.late),
            ..Seat::default()
        };
    }

    /// Does a write; checks what must hold for it.
    pub(crate) fn apply(
        &mut self,
        write: &Write,
        late: bool,
        setting: &Setting,
    ) -> Result<Answer, String> {
        let before = self.row.clone();
        let blind = setting
            .planted
            .is_some_and(|planted| planted.waives(write, late));
        let waived = blind && before.is_some();
        if !waived && !write.permitted(before.as_ref()) {
            return Ok(Err(before));
        }
        let mut after = write.apply(before.clone());
        // Diagnostic, and no rule reads it.
        after.iter_mut().for_each(|row| row.owner_switches = 0);
        if let (Some(before), Some(after)) = (&before, &after) {
            self.check_write(write, before, after)?;
        }
        self.counter = after
            .as_ref()
            .map_or(self.counter, |row| row.counter.max(self.counter));
        self.row = after.clone();
        Ok(Ok(after))
    }

    fn check_write(&self, write: &Write, before: &Lease, after: &Lease) -> Result<(), String> {
        if after.checkpoint < before.checkpoint {
            return Err(format!("the checkpoint goes back: {write:?}"));
        }
        let beyond = match &after.checkpoint {
            Position::ShardEnd => self.settled < RECORDS,
            stored => position(self.settled).is_none_or(|settled| settled < *stored),
        };
        if beyond && before.checkpoint != after.checkpoint {
            return Err(format!("stored beyond what is settled: {write:?}"));
        }
        if before.reader() != after.reader() && after.counter == before.counter {
            return Err(format!("a new reader, the same counter: {write:?}"));
        }
        Ok(())
    }

    /// Who reads, and may.
    pub(crate) fn readers(&self, now: Time) -> usize {
        let believes = |seat: &&Seat| seat.believes(now);
        self.seats.iter().filter(believes).count()
    }

    /// What must hold in every state.
    pub(crate) fn check(&self, now: Time) -> Result<(), String> {
        if self.readers(now) > 1 {
            return Err("both read".to_owned());
        }
        let finished = self.row.as_ref().is_none_or(Lease::ended);
        if finished && self.readers(now) > 0 {
            return Err("a finished shard is read".to_owned());
        }
        Ok(())
    }

    /// Forgets what can have no consequence. See the top of `main.rs`.
    pub(crate) fn tidy(&mut self, now: Time, setting: &Setting) {
        if setting.planted.is_some_and(Planted::needs_everything) {
            return;
        }
        let timing = setting.timing();
        for seat in &mut self.seats {
            seat.forget_expired(now, timing);
            seat.forget_doomed(self.row.as_ref(), now, timing);
        }
        for (worker, seat) in self.seats.iter_mut().enumerate() {
            seat.forget_times(&id(worker));
        }
    }

    /// The fingerprint, and that with the workers exchanged.
    pub(crate) fn prints(&self, now: Time, setting: &Setting) -> [u128; 2] {
        let lens = Lens {
            now,
            tick: setting.tick,
            long_ago: setting.timing().failover(),
            counter: self.counter,
            runs: self.runs,
            swapped: false,
        };
        let [a, b] = &self.seats;
        let shared = (&self.row, self.settled);
        let plain = (shared, a, b);
        let swapped = (shared, b, a);
        [
            lens.print(&plain),
            Lens {
                swapped: true,
                ..lens
            }
            .print(&swapped),
        ]
    }
}

/// Whether a write will never be permitted: its counter is past, or it does not know of the hand-over, which only a write
/// on the counter ends.
fn doomed(write: &Write, row: Option<&Lease>) -> bool {
    let Some(row) = row else {
        return !matches!(write, Write::Create(_));
    };
    let past = counter_of(write).is_some_and(|expected| expected != row.counter);
    past || counter_of(write).is_some() && row.handing_over() && !write.permitted(Some(row))
}

/// The counter a write is conditional on.
fn counter_of(write: &Write) -> Option<u64> {
    match write {
        Write::Renew(renew) | Write::Release(renew) | Write::Complete { renew, .. } => {
            Some(renew.counter)
        }
        Write::Acquire(seize) | Write::Take { seize, .. } => Some(seize.seen_counter),
        Write::Assign(assign) => Some(assign.counter),
        Write::Create(_)
        | Write::HandOff { .. }
        | Write::HeirReady { .. }
        | Write::Delete { .. } => None,
    }
}
