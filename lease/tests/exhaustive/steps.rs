//! Everything that can happen to one shard, but for the clock and restarts.

use checkpoint::Position;
use lease::{
    LeaseKey, Shard as LeaseShard, Time, Write,
    renew::{Next, Phase, Stage},
    sync,
};

use crate::{
    network,
    planted::Planted,
    shard::{Ask, RECORDS, Seat, Setting, Shard, WALL, id, position},
    share,
};

/// Something that happens to one shard, and what it costs of what may happen at all.
pub(crate) struct Local {
    pub(crate) what: String,
    /// Who does it.
    pub(crate) worker: usize,
    /// Lost replies, lost and late requests.
    pub(crate) faults: u8,
    /// Releases, hand-overs and shard ends.
    pub(crate) moves: u8,
    pub(crate) to: Result<Shard, String>,
}

impl Local {
    pub(crate) fn free(what: String, to: Result<Shard, String>) -> Self {
        Local {
            what,
            worker: 0,
            faults: 0,
            moves: 0,
            to,
        }
    }

    pub(crate) fn fault(what: String, to: Shard) -> Self {
        Local {
            faults: 1,
            ..Local::free(what, Ok(to))
        }
    }
}

/// Everything that can happen next. The calm part comes first: what is done before anything is left alone.
pub(crate) fn steps(shard: &Shard, now: Time, setting: &Setting) -> Vec<Local> {
    let mut steps = Vec::new();
    for worker in [0, 1] {
        let before = steps.len();
        network::steps(shard, worker, now, setting, &mut steps);
        look(shard, worker, now, &mut steps);
        hold(shard, worker, now, setting, &mut steps);
        share::steps(shard, worker, now, setting, &mut steps);
        steps[before..]
            .iter_mut()
            .for_each(|step| step.worker = worker);
    }
    for step in &mut steps {
        if let Ok(after) = &mut step.to {
            after.tidy(now, setting);
            if let Err(wrong) = after.check(now) {
                step.to = Err(wrong);
            }
        }
    }
    steps
}

impl Shard {
    pub(crate) fn key(&self) -> LeaseKey {
        let row = self.row.as_ref().map(|row| row.key.clone());
        row.unwrap_or_else(|| LeaseKey::from("absent"))
    }
}

/// A worker sees the row as it is.
fn look(shard: &Shard, worker: usize, now: Time, steps: &mut Vec<Local>) {
    let seat = &shard.seats[worker];
    let known = seat.seen.as_ref().map(|(seen, _)| seen.version());
    if known == shard.row.as_ref().map(|row| row.version()) {
        return;
    }
    let mut after = shard.clone();
    let seat = &mut after.seats[worker];
    let since = |counter| match &seat.seen {
        Some((seen, since)) if seen.counter == counter => *since,
        _ => now,
    };
    seat.seen = shard
        .row
        .as_ref()
        .map(|row| (row.clone(), since(row.counter)));
    if let (Some(held), Some(row)) = (&mut seat.held, &shard.row) {
        let outcome = held.observed(row, now);
        seat.turned_out(&outcome);
    }
    let key = shard.key();
    steps.push(Local::free(format!("{worker} sees {key}"), Ok(after)));
}

/// What a holder does.
fn hold(shard: &Shard, worker: usize, now: Time, setting: &Setting, steps: &mut Vec<Local>) {
    let seat = &shard.seats[worker];
    let Some(held) = &seat.held else { return };
    let mut add = |what: &str, moves, change: &dyn Fn(&mut Shard)| {
        let mut after = shard.clone();
        change(&mut after);
        steps.push(Local {
            moves,
            ..Local::free(format!("{worker} {what} {}", shard.key()), Ok(after))
        });
    };
    if now >= held.valid_until() {
        add("stops believing in", 0, &|after| after.seats[worker].lose());
        return;
    }
    if seat.call.is_none() && now >= held.due() {
        add("writes", 0, &|after| write(after, worker, now, setting));
    }
    match &held.phase {
        Phase::HandOver {
            stage: Stage::Waiting,
            ..
        } if held.lease.heir_ready => {
            add("drains for its heir:", 0, &|after| {
                after.seats[worker].drained();
            });
        }
        Phase::HandOver {
            stage: Stage::Waiting,
            since,
            ..
        } if now >= *since + setting.timing().heir_patience() && seat.call.is_none() => {
            add("takes back", 0, &|after| {
                let seat = &mut after.seats[worker];
                let held = seat.held.as_mut().expect("looked at above");
                if let Some(write) = held.revert(now) {
                    seat.send(Ask::Write(write), now);
                }
            });
        }
        Phase::HandOver {
            to,
            stage: Stage::Offered,
            ..
        } => {
            let write = Write::HandOff {
                key: held.lease.key.clone(),
                from: id(worker),
                to: to.clone(),
            };
            share::at_once(shard, worker, &write, 0, setting, steps);
        }
        _ => {}
    }
    leave(shard, worker, now, setting, steps);
}

/// What a holder does of its own accord.
fn leave(shard: &Shard, worker: usize, now: Time, setting: &Setting, steps: &mut Vec<Local>) {
    let seat = &shard.seats[worker];
    let Some(held) = &seat.held else { return };
    let mut add = |what: &str, moves, change: &dyn Fn(&mut Shard, &mut Seat)| {
        let mut after = shard.clone();
        let mut seat = seat.clone();
        change(&mut after, &mut seat);
        after.seats[worker] = seat;
        steps.push(Local {
            moves,
            ..Local::free(format!("{worker} {what} {}", shard.key()), Ok(after))
        });
    };
    let enter = |seat: &mut Seat, phase| {
        seat.held.as_mut().expect("looked at above").phase = phase;
    };
    if held.phase != Phase::Running {
        return;
    }
    let family = setting.child.is_some();
    if seat.believes(now) && held.lease.parents.is_empty() {
        add("ends", u8::from(!family), &|after, seat| {
            if !setting.planted(Planted::EndedUnsettled) {
                seat.settled = RECORDS;
                after.settled = RECORDS;
            }
            seat.reading = false;
            let row = |child: fn() -> LeaseShard| sync::child(&held.lease, &child(), WALL);
            let children = setting.child.map(row).into_iter();
            let phase = Phase::Ended {
                children: children.clone().map(|row| row.shard).collect(),
                todo: children
                    .filter(|_| !setting.planted(Planted::EndBeforeChild))
                    .collect(),
            };
            enter(seat, phase);
        });
    }
    add("gives back", 1, &|_, seat| {
        seat.reading = false;
        let phase = Phase::Leaving {
            since: now,
            stage: Stage::Drained,
        };
        enter(seat, phase);
    });
    add("leaves", 1, &|_, seat| {
        let phase = Phase::HandOver {
            to: id(1 - worker),
            since: now,
            stage: Stage::Offered,
        };
        enter(seat, phase);
    });
}

/// A holder does what is due.
fn write(after: &mut Shard, worker: usize, now: Time, setting: &Setting) {
    let seat = &mut after.seats[worker];
    // What a believing consumer has settled by now: everything there is.
    if seat.believes(now) {
        seat.settled = RECORDS;
        if !setting.planted(Planted::StoredUnsettled) {
            after.settled = RECORDS;
        }
    }
    let watermark = position(seat.settled);
    let held = seat.held.as_mut().expect("only called for a holder");
    let ask = match held.next(watermark.as_ref(), now) {
        Some(Next::Write(Write::Renew(mut renew))) => {
            if setting.planted(Planted::StoredAgain) && renew.checkpoint.is_none() {
                renew.checkpoint = Some(Position::TrimHorizon);
            }
            Ask::Write(Write::Renew(renew))
        }
        Some(Next::Write(write)) => Ask::Write(write),
        Some(Next::Read) => Ask::Read,
        None => return,
    };
    seat.send(ask, now);
}

impl Seat {
    /// The batch in hand is done, nothing more is read.
    fn drained(&mut self) {
        self.reading = false;
        let held = self.held.as_mut().expect("only called for a holder");
        if let Phase::HandOver { stage, .. } = &mut held.phase {
            *stage = Stage::Drained;
        }
    }
}
