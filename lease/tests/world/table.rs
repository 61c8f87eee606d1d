//! The table behind a bad network: what a call meets is drawn when it is sent.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use lease::{Lease, LeaseKey, Lock, MemoryTable, TableError, View};

const MILLI: u64 = 1000;

/// How often things go wrong, in per mille of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) throttled: u32,
    pub(crate) slow: u32,
    /// Done, but nobody is told.
    pub(crate) lost_reply: u32,
    /// Never done, and nobody is told.
    pub(crate) lost_request: u32,
    /// Done long after the caller has given up.
    pub(crate) late: u32,
    /// Lists are a mixture of moments up to this long ago.
    pub(crate) stale: u64,
}

impl Weather {
    /// Fair weather.
    pub(crate) fn fair() -> Self {
        Weather::default()
    }

    /// A bad one.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut up_to = |most: u32| if rng.bool() { rng.u32(0..most) } else { 0 };
        Weather {
            throttled: up_to(150),
            slow: up_to(200),
            lost_reply: up_to(80),
            lost_request: up_to(80),
            late: up_to(60),
            stale: u64::from(up_to(1500)) * MILLI,
        }
    }
}

/// What one call meets.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    /// When the table does it, after it was sent. `None`: never.
    pub(crate) done: Option<u64>,
    /// When the caller hears, after it was sent.
    pub(crate) heard: u64,
    /// What the caller hears instead of the truth.
    pub(crate) instead: Option<TableError>,
}

impl Fate {
    /// Draws one. `timeout`: when the shell gives up on a call; `away`: the table cannot
    /// be reached, and whether calls hang then.
    pub(crate) fn draw(weather: &Weather, timeout: u64, away: Option<bool>, rng: &mut Rng) -> Self {
        let there = rng.u64(2..20) * MILLI;
        let back = rng.u64(2..20) * MILLI;
        let unclear = |text: &str| Some(TableError::Unknown(text.to_owned()));
        if let Some(hangs) = away {
            return Fate {
                done: None,
                heard: if hangs { timeout } else { there },
                instead: unclear("no connection"),
            };
        }
        let dice = rng.u32(0..1000);
        let mut below = 0;
        let mut hits = |share: u32| {
            below += share;
            (below - share..below).contains(&dice)
        };
        if hits(weather.throttled) {
            return Fate {
                done: None,
                heard: there + back,
                instead: Some(TableError::Throttled("slow down".to_owned())),
            };
        }
        if hits(weather.slow) {
            let there = rng.u64(0..timeout / 2);
            return Fate {
                done: Some(there),
                heard: there + rng.u64(0..timeout / 2),
                instead: None,
            };
        }
        if hits(weather.lost_reply) {
            let quick = rng.bool();
            return Fate {
                done: Some(there),
                heard: if quick { there + back } else { timeout },
                instead: unclear("reply lost"),
            };
        }
        if hits(weather.lost_request) {
            return Fate {
                done: None,
                heard: if rng.bool() { there } else { timeout },
                instead: unclear("request lost"),
            };
        }
        if hits(weather.late) {
            let heard = if rng.bool() { there } else { timeout };
            return Fate {
                done: Some(heard + rng.u64(0..12_000 * MILLI)),
                heard,
                instead: unclear("timed out"),
            };
        }
        Fate {
            done: Some(there),
            heard: there + back,
            instead: None,
        }
    }
}

/// What a row was before a change.
#[derive(Debug)]
pub(crate) enum Undo {
    Lease(LeaseKey, Option<Box<Lease>>),
    Lock(Option<Lock>),
}

/// The table and its recent past.
#[derive(Debug, Default)]
pub(crate) struct FakeTable {
    pub(crate) rows: MemoryTable,
    past: VecDeque<(u64, Undo)>,
}

impl FakeTable {
    /// Remembers how the table was before `now`.
    pub(crate) fn changed(&mut self, now: u64, undo: Undo) {
        self.past.push_back((now, undo));
        while self
            .past
            .front()
            .is_some_and(|(at, _)| at + 4_000 * MILLI < now)
        {
            self.past.pop_front();
        }
    }

    /// A scan between `from` and `to`: every row is read at one of two moments in between, as a scan is no snapshot.
    pub(crate) fn scan(&self, from: u64, to: u64, rng: &mut Rng) -> View {
        let view = self.rows.view();
        let moments = [rng.u64(from..=to), rng.u64(from..=to)];
        let oldest = moments[0].min(moments[1]);
        if self.past.back().is_none_or(|(at, _)| *at <= oldest) {
            return view;
        }
        let pick = rng.u64(..);
        let moment_of = |key: &str| {
            let sum = key
                .bytes()
                .fold(7u64, |sum, byte| sum * 31 % 4093 + u64::from(byte));
            moments[usize::from(pick >> (sum % 64) & 1 == 1)]
        };
        let mut lock = view.lock;
        let mut leases: BTreeMap<LeaseKey, Lease> = view
            .leases
            .into_iter()
            .map(|row| (row.key.clone(), row))
            .collect();
        for (at, undo) in self.past.iter().rev().take_while(|(at, _)| *at > oldest) {
            match undo {
                Undo::Lock(before) if *at > moments[0] => lock.clone_from(before),
                Undo::Lease(key, before) if *at > moment_of(key.as_str()) => match before {
                    Some(row) => drop(leases.insert(key.clone(), (**row).clone())),
                    None => drop(leases.remove(key)),
                },
                _ => {}
            }
        }
        View {
            lock,
            leases: leases.into_values().collect(),
            ..view
        }
    }
}
