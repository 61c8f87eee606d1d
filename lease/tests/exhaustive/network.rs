//! What can become of a call: it is done and heard of, its reply is lost, or it is given up and done later.

use checkpoint::Position;
use lease::{
    Lease, TableError, Time, Write,
    renew::{Held, Phase},
};

use crate::{
    planted::Planted,
    shard::{Answer, Ask, Setting, Shard},
    steps::Local,
};

pub(crate) fn steps(
    shard: &Shard,
    worker: usize,
    now: Time,
    setting: &Setting,
    steps: &mut Vec<Local>,
) {
    for (number, write) in shard.seats[worker].late.iter().enumerate() {
        let mut after = shard.clone();
        after.seats[worker].late.remove(number);
        let done = after.apply(write, true, setting);
        steps.push(Local::free(
            format!("late: {worker}'s {write}"),
            done.map(|_| after),
        ));
    }
    let Some(call) = &shard.seats[worker].call else {
        return;
    };
    let key = &shard.key();
    match &call.answer {
        None => {
            let mut after = shard.clone();
            let done = match &call.ask {
                Ask::Write(write) => after.apply(write, false, setting),
                Ask::Read => Ok(Ok(shard.row.clone())),
            };
            let to = done.map(|answer| {
                let call = after.seats[worker].call.as_mut();
                call.expect("looked at above").answer = Some(answer);
                after
            });
            steps.push(Local::free(format!("the table does {worker}'s {key}"), to));
            let mut after = shard.clone();
            hear(&mut after, worker, Err(no_answer()), now, setting);
            if let Ask::Write(write) = &call.ask {
                after.seats[worker].late.push(write.clone());
            }
            steps.push(Local::fault(format!("{worker} gives up on {key}"), after));
        }
        Some(done) => {
            let mut after = shard.clone();
            hear(&mut after, worker, told(done), now, setting);
            steps.push(Local::free(format!("{worker} hears of {key}"), Ok(after)));
            let mut after = shard.clone();
            hear(&mut after, worker, Err(no_answer()), now, setting);
            let what = format!("the reply to {worker} about {key} is lost");
            steps.push(Local::fault(what, after));
        }
    }
}

fn no_answer() -> TableError {
    TableError::Unknown(String::new())
}

fn told(done: &Answer) -> Result<Option<Lease>, TableError> {
    match done {
        Ok(row) => Ok(row.clone()),
        Err(row) => Err(TableError::Changed(row.clone().map(Box::new))),
    }
}

/// The machine hears an answer.
fn hear(
    shard: &mut Shard,
    worker: usize,
    told: Result<Option<Lease>, TableError>,
    now: Time,
    setting: &Setting,
) {
    let session = shard.session(worker);
    let seat = &mut shard.seats[worker];
    let Some(call) = seat.call.take() else { return };
    let row = match &told {
        Ok(row) => row.as_ref(),
        Err(TableError::Changed(row)) => row.as_deref(),
        Err(_) => None,
    };
    if let Some(row) = row
        && seat
            .seen
            .as_ref()
            .is_none_or(|(seen, _)| seen.counter < row.counter)
    {
        seat.seen = Some((row.clone(), now));
    }
    if let Ask::Write(Write::Acquire(_) | Write::Take { .. }) = call.ask {
        let sent = match setting.planted {
            Some(Planted::StampedByReply) => now,
            _ => call.sent,
        };
        let timing = setting.timing();
        let ended = |row: &Lease| row.ended() && !setting.planted(Planted::EndedTaken);
        if let Ok(Some(row)) = told
            && now < timing.valid_until(sent)
            && !ended(&row)
        {
            seat.settled = settled_in(&row.checkpoint);
            let mut held = Held::new(row, session, sent, true, timing);
            if held.lease.parents.is_empty() {
                held.phase = Phase::Running;
                seat.reading = true;
            }
            seat.held = Some(held);
        }
        return;
    }
    let Some(held) = &mut seat.held else { return };
    seat.in_doubt |= matches!(told, Err(TableError::Unknown(_)));
    let outcome = match call.ask {
        Ask::Read => held.read(told, now),
        Ask::Write(_) => held.answered(told, now),
    };
    seat.turned_out(&outcome);
}

/// How far a tenure that starts from here need not read.
fn settled_in(checkpoint: &Position) -> u8 {
    checkpoint
        .sequence()
        .map_or(0, |sequence| sequence.as_str().parse().expect("ours"))
}
