//! Two workers over one table, explored completely: every order of looks, writes, answers, lost replies, late writes,
//! pauses, restarts, hand-overs, releases and shard ends up to a horizon and a number of faults.
//!
//! The model owns only the network, the clock and the consumers; what a worker does is decided by the very functions it
//! runs: [`Held`], [`Leader`], [`assign::plan`], [`Write::permitted`] and [`Write::apply`]. Time counts in ticks of a
//! quarter of the failover time; a pause is a worker that does nothing while ticks go by. Two states are the same if
//! their 128-bit fingerprints are.
//!
//! A test that finds nothing must be able to find something: two known mistakes are planted and must be caught.

use std::{
    collections::{BTreeMap, HashSet, VecDeque, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    time::Duration,
};

use checkpoint::Position;
use lease::{
    Assign, Lease, LeaseKey, Lock, LockWrite, Seize, Session, ShardId, TableError, Time, Timing,
    WorkerId, Write,
    assign::{self, Move, Role, Row, Scene},
    leader::Leader,
    renew::{Held, Next, Outcome, Phase, Stage},
};

const TICK: Duration = Duration::from_millis(2500);
/// The last record of each shard.
const RECORDS: u8 = 1;

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    shards: usize,
    ticks: u32,
    /// Lost replies, lost and late requests.
    faults: u8,
    /// Restarts, releases, hand-overs and shard ends.
    moves: u8,
    /// Whether the leader lock takes part; else worker 0 leads for ever.
    lock: bool,
    planted: Option<Planted>,
}

/// Mistakes that must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A belief begins when the reply arrives (hazard H3).
    StampedByReply,
    /// A row is taken without a look at its counter (hazard H6).
    TakenUnseen,
}

#[derive(Clone, Hash)]
struct State {
    tick: u32,
    rows: Vec<Lease>,
    lock: Option<Lock>,
    /// How far each shard is settled by anybody, and whether its end was reached.
    settled: Vec<u8>,
    workers: [Worker; 2],
    faults: u8,
    moves: u8,
}

#[derive(Clone, Hash)]
struct Worker {
    session: u8,
    leader: Leader,
    lock_call: Option<(LockWrite, Option<Option<Lock>>, bool)>,
    seats: Vec<Seat>,
}

/// What one worker knows of and does with one shard.
#[derive(Clone, Hash, Default)]
struct Seat {
    held: Option<Held>,
    reading: bool,
    settled: u8,
    seen: Option<(Lease, u32)>,
    call: Option<Call>,
    /// Writes whose sender gave up or restarted: each may still happen, at any time.
    late: Vec<Write>,
}

/// A call under way; `answer` once the table has done it.
#[derive(Clone, Hash)]
struct Call {
    ask: Ask,
    sent: u32,
    answer: Option<Result<Lease, Lease>>,
}

#[derive(Clone, Hash)]
enum Ask {
    Read,
    Write(Write),
}

fn timing() -> Timing {
    Timing::new(TICK * 4, TICK)
}

fn at(tick: u32) -> Time {
    Time::new(TICK * (tick + 100))
}

fn id(worker: usize) -> WorkerId {
    WorkerId::from(["a", "b"][worker])
}

fn position(record: u8) -> Option<Position> {
    (record > 0).then(|| Position::at(record.to_string().parse().expect("digits"), 0))
}

impl Worker {
    fn new(number: usize, session: u8, shards: usize) -> Self {
        let timing = timing();
        let name = Session::from(format!("{number}.{session}"));
        Worker {
            session,
            leader: Leader::new(id(number), name, timing.failover(), timing.margin(), TICK),
            lock_call: None,
            seats: vec![Seat::default(); shards],
        }
    }

    fn session(&self, number: usize) -> Session {
        Session::from(format!("{number}.{}", self.session))
    }
}

impl Seat {
    fn believes(&self, now: Time) -> bool {
        let held = self.held.as_ref();
        self.reading && held.is_some_and(|held| now < held.valid_until())
    }

    fn lose(&mut self) {
        self.held = None;
        self.reading = false;
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Held | Outcome::HandOver | Outcome::Open => {}
            _ => self.lose(),
        }
    }
}

impl State {
    fn new(bounds: &Bounds) -> Self {
        let shard =
            |n: usize| Lease::new(None, ShardId::from(format!("s{n}")), Position::TrimHorizon);
        State {
            tick: 0,
            rows: (0..bounds.shards).map(shard).collect(),
            lock: None,
            settled: vec![0; bounds.shards],
            workers: [0, 1].map(|n| Worker::new(n, 0, bounds.shards)),
            faults: bounds.faults,
            moves: bounds.moves,
        }
    }

    fn now(&self) -> Time {
        at(self.tick)
    }

    fn leads(&self, worker: usize, bounds: &Bounds) -> bool {
        if bounds.lock {
            self.workers[worker].leader.leads(self.now())
        } else {
            worker == 0
        }
    }

    /// What must hold in every state.
    fn check(&self, bounds: &Bounds) -> Result<(), String> {
        let now = self.now();
        for shard in 0..self.rows.len() {
            if self
                .workers
                .iter()
                .all(|worker| worker.seats[shard].believes(now))
            {
                return Err(format!("both read s{shard}"));
            }
        }
        if bounds.lock && self.workers.iter().all(|worker| worker.leader.leads(now)) {
            return Err("both lead".to_owned());
        }
        Ok(())
    }

    /// Does a write; checks what must hold for it.
    fn apply(&mut self, shard: usize, write: &Write) -> Result<Result<Lease, Lease>, String> {
        let before = self.rows[shard].clone();
        if !write.permitted(Some(&before)) {
            return Ok(Err(before));
        }
        let after = write
            .apply(Some(before.clone()))
            .expect("nothing is deleted here");
        if after.checkpoint < before.checkpoint {
            return Err(format!("the checkpoint goes back: {write:?}"));
        }
        let beyond = match &after.checkpoint {
            Position::ShardEnd => self.settled[shard] < RECORDS,
            stored => {
                position(self.settled[shard]).as_ref() < Some(stored)
                    && before.checkpoint != *stored
            }
        };
        if beyond {
            return Err(format!("stored beyond what is settled: {write:?}"));
        }
        if before.reader() != after.reader() && after.counter == before.counter {
            return Err(format!(
                "the reader changes, the counter does not: {write:?}"
            ));
        }
        self.rows[shard] = after.clone();
        Ok(Ok(after))
    }
}

type Steps = Vec<Result<(String, State), String>>;

/// Everything that can happen next.
fn next(state: &State, bounds: &Bounds) -> Steps {
    let mut steps = Steps::new();
    if state.tick < bounds.ticks {
        let mut after = state.clone();
        after.tick += 1;
        steps.push(Ok(("tick".to_owned(), after)));
    }
    // The workers differ in nothing before one of them has looked: let it be the first.
    let fresh = |worker: &Worker| worker.seats.iter().all(|seat| seat.seen.is_none());
    let everybody_fresh = !bounds.lock && state.workers.iter().all(fresh);
    for worker in 0..if everybody_fresh { 1 } else { 2 } {
        for shard in 0..state.rows.len() {
            look(state, worker, shard, &mut steps);
            hold(state, worker, shard, &mut steps);
            network(state, worker, shard, bounds, &mut steps);
        }
        moves(state, worker, bounds, &mut steps);
        if bounds.lock {
            lock(state, worker, &mut steps);
        }
        if state.moves > 0 && state.workers[worker].session == 0 {
            let mut after = state.clone();
            after.moves -= 1;
            // Calls of the former run are on their way all the same.
            let late: Vec<Vec<Write>> = after.workers[worker]
                .seats
                .iter()
                .map(|seat| {
                    let mut late = seat.late.clone();
                    if let Some(Call {
                        ask: Ask::Write(write),
                        answer: None,
                        ..
                    }) = &seat.call
                    {
                        late.push(write.clone());
                    }
                    late
                })
                .collect();
            after.workers[worker] = Worker::new(worker, 1, bounds.shards);
            for (seat, late) in after.workers[worker].seats.iter_mut().zip(late) {
                seat.late = late;
            }
            steps.push(Ok((format!("{worker} restarts"), after)));
        }
    }
    steps
}

/// A worker sees a row as it is.
fn look(state: &State, worker: usize, shard: usize, steps: &mut Steps) {
    let row = &state.rows[shard];
    let seat = &state.workers[worker].seats[shard];
    let known = seat.seen.as_ref().map(|(seen, _)| seen.version());
    if known == Some(row.version()) {
        return;
    }
    let mut after = state.clone();
    let tick = state.tick;
    let seat = &mut after.workers[worker].seats[shard];
    let since = match &seat.seen {
        Some((seen, since)) if seen.counter == row.counter => *since,
        _ => tick,
    };
    seat.seen = Some((row.clone(), since));
    if let Some(held) = &mut seat.held {
        let outcome = held.observed(row, at(tick));
        seat.outcome(&outcome);
    }
    steps.push(Ok((format!("{worker} sees s{shard}"), after)));
}

/// What a holder does.
fn hold(state: &State, worker: usize, shard: usize, steps: &mut Steps) {
    let now = state.now();
    let seat = &state.workers[worker].seats[shard];
    let Some(held) = &seat.held else { return };
    let mut add = |what: &str, change: &dyn Fn(&mut State, &mut Seat)| {
        let mut after = state.clone();
        let mut seat = after.workers[worker].seats[shard].clone();
        change(&mut after, &mut seat);
        after.workers[worker].seats[shard] = seat;
        steps.push(Ok((format!("{worker} {what} s{shard}"), after)));
    };
    if now >= held.valid_until() {
        add("stops believing in", &|_, seat| seat.lose());
        return;
    }
    if seat.call.is_none() && now >= held.due() {
        add("writes", &|after, seat| {
            // What a believing consumer has settled by now: everything there is.
            if seat.believes(now) {
                seat.settled = RECORDS;
                after.settled[shard] = RECORDS;
            }
            let watermark = position(seat.settled);
            let sent = after.tick;
            let next = seat
                .held
                .as_mut()
                .and_then(|held| held.next(watermark.as_ref(), now));
            let ask = match next {
                Some(Next::Write(write)) => Ask::Write(write),
                Some(Next::Read) => Ask::Read,
                None => return,
            };
            seat.call = Some(Call {
                ask,
                sent,
                answer: None,
            });
        });
    }
    let phase = held.phase.clone();
    match phase {
        Phase::Running if seat.believes(now) && state.moves > 0 => {
            add("ends", &|after, seat| {
                after.moves -= 1;
                seat.settled = RECORDS;
                after.settled[shard] = RECORDS;
                seat.reading = false;
                let held = seat.held.as_mut().expect("looked at above");
                held.phase = Phase::Ended {
                    todo: vec![],
                    children: vec![],
                };
            });
        }
        Phase::HandOver {
            to,
            since,
            stage: Stage::Waiting,
        } if held.lease.heir_ready => {
            add("drains for its heir", &|_, seat| {
                seat.reading = false;
                let held = seat.held.as_mut().expect("looked at above");
                held.phase = Phase::HandOver {
                    to: to.clone(),
                    since,
                    stage: Stage::Drained,
                };
            });
        }
        Phase::HandOver {
            stage: Stage::Waiting,
            since,
            ..
        } if now >= since + timing().heir_patience() && seat.call.is_none() => {
            add("takes back", &|after, seat| {
                let held = seat.held.as_mut().expect("looked at above");
                let sent = after.tick;
                if let Some(write) = held.revert(now) {
                    seat.call = Some(Call {
                        ask: Ask::Write(write),
                        sent,
                        answer: None,
                    });
                }
            });
        }
        _ => {}
    }
    if state.moves > 0 && matches!(held.phase, Phase::Running) {
        add("gives back", &|after, seat| {
            after.moves -= 1;
            seat.reading = false;
            let held = seat.held.as_mut().expect("looked at above");
            held.phase = Phase::Leaving {
                since: now,
                stage: Stage::Drained,
            };
        });
    }
}

/// What a worker does about rows it does not hold, by the rule.
fn moves(state: &State, worker: usize, bounds: &Bounds, steps: &mut Steps) {
    let me = id(worker);
    let seats = &state.workers[worker].seats;
    let failover = timing().failover();
    let rows = seats
        .iter()
        .filter_map(|seat| {
            let (row, since) = seat.seen.as_ref()?;
            let age = state.now().since(at(*since));
            let unread = match row.reader() {
                None => Some(age),
                Some(_) => age.checked_sub(failover),
            };
            Some(Row {
                lease: seat.held.as_ref().map_or(row, |held| &held.lease),
                unread: unread.filter(|_| seat.held.is_none()),
                going_to: None,
                startable: true,
                held: seat.held.is_some(),
                busy: seat.call.is_some()
                    || seat
                        .held
                        .as_ref()
                        .is_some_and(|held| held.phase != Phase::Running),
            })
        })
        .collect();
    let role = if state.leads(worker, bounds) {
        Role::Leader
    } else {
        Role::Deputy
    };
    let scene = Scene {
        me: &me,
        role,
        rows,
        workers: [0, 1]
            .map(|n| (id(n), assign::Worker { quick: false }))
            .into(),
        max_leases: usize::MAX,
        entitled: &BTreeMap::new(),
        deputy_patience: Duration::ZERO,
    };
    for step in assign::plan(&scene) {
        do_move(state, worker, &step, bounds, steps);
    }
    // The plan only hands over to even out; a leader may also do so for other reasons.
    if role == Role::Leader && state.moves > 0 {
        for seat in seats {
            let Some((row, _)) = &seat.seen else {
                continue;
            };
            let key = &row.key;
            let Some(from) = row.owner.clone() else {
                continue;
            };
            let to = id(usize::from(from == id(0)));
            let step = Move::HandOff {
                key: key.clone(),
                from,
                to,
            };
            do_move(state, worker, &step, bounds, steps);
        }
    }
}

fn do_move(state: &State, worker: usize, step: &Move, bounds: &Bounds, steps: &mut Steps) {
    let shard_of = |key: &LeaseKey| {
        state
            .rows
            .iter()
            .position(|row| row.key == *key)
            .expect("known")
    };
    let seat_of = |key: &LeaseKey| &state.workers[worker].seats[shard_of(key)];
    let seize = |key: &LeaseKey, seen: &Lease| Seize {
        key: key.clone(),
        me: id(worker),
        session: state.workers[worker].session(worker),
        seen_counter: seen.counter,
        pin: None,
    };
    let (shard, write, instant) = match step {
        Move::Acquire(key) | Move::Take(key) => {
            let seat = seat_of(key);
            let (Some((seen, _)), None) = (&seat.seen, &seat.call) else {
                return;
            };
            let seize = seize(key, seen);
            let owner = seen.owner.clone();
            let write = match step {
                Move::Acquire(_) => Write::Acquire(seize),
                _ => Write::Take { seize, owner },
            };
            (shard_of(key), write, false)
        }
        Move::Ready(key) => (
            shard_of(key),
            Write::HeirReady {
                key: key.clone(),
                me: id(worker),
            },
            true,
        ),
        Move::HandOff { key, from, to } => {
            let write = Write::HandOff {
                key: key.clone(),
                from: from.clone(),
                to: to.clone(),
            };
            (shard_of(key), write, true)
        }
        Move::Assign(key, to) => {
            let Some((seen, _)) = &seat_of(key).seen else {
                return;
            };
            let assign = Assign {
                key: key.clone(),
                to: to.clone(),
                owner: seen.owner.clone(),
                checkpoint_owner: seen.checkpoint_owner.clone(),
                counter: seen.counter,
            };
            (shard_of(key), Write::Assign(assign), true)
        }
    };
    let mut after = state.clone();
    if instant {
        if matches!(step, Move::HandOff { .. }) {
            if state.moves == 0 {
                return;
            }
            after.moves -= 1;
        }
        match after.apply(shard, &write) {
            Ok(Ok(_)) => steps.push(Ok((format!("{worker} does {write}"), after))),
            Ok(Err(_)) => {}
            Err(wrong) => steps.push(Err(wrong)),
        }
        return;
    }
    let write = match write {
        Write::Take { mut seize, .. } if bounds.planted == Some(Planted::TakenUnseen) => {
            seize.seen_counter = state.rows[shard].counter;
            let owner = state.rows[shard].owner.clone();
            Write::Take { seize, owner }
        }
        write => write,
    };
    after.workers[worker].seats[shard].call = Some(Call {
        ask: Ask::Write(write.clone()),
        sent: state.tick,
        answer: None,
    });
    steps.push(Ok((format!("{worker} sends {write}"), after)));
}

/// What can become of a call.
fn network(state: &State, worker: usize, shard: usize, bounds: &Bounds, steps: &mut Steps) {
    for (number, write) in state.workers[worker].seats[shard].late.iter().enumerate() {
        let mut after = state.clone();
        after.workers[worker].seats[shard].late.remove(number);
        let done = after.apply(shard, write);
        steps.push(done.map(|_| (format!("late: {worker}'s {write}"), after)));
    }
    let Some(call) = &state.workers[worker].seats[shard].call else {
        return;
    };
    match (&call.ask, &call.answer) {
        (ask, None) => {
            let mut after = state.clone();
            let done = match ask {
                Ask::Write(write) => after.apply(shard, write),
                _ => Ok(Ok(state.rows[shard].clone())),
            };
            let call = after.workers[worker].seats[shard].call.as_mut();
            match done {
                Ok(answer) => {
                    call.expect("looked at above").answer = Some(answer);
                    steps.push(Ok((format!("the table does {worker}'s s{shard}"), after)));
                }
                Err(wrong) => steps.push(Err(wrong)),
            }
            if state.faults > 0 {
                let mut after = state.clone();
                after.faults -= 1;
                answer(
                    &mut after,
                    worker,
                    shard,
                    Err(TableError::Unknown(String::new())),
                    bounds,
                );
                if let Ask::Write(write) = ask {
                    after.workers[worker].seats[shard].late.push(write.clone());
                }
                steps.push(Ok((format!("{worker} gives up on s{shard}"), after)));
            }
        }
        (_, Some(done)) => {
            let mut after = state.clone();
            let told = match done {
                Ok(row) => Ok(row.clone()),
                Err(row) => Err(TableError::Changed(Some(Box::new(row.clone())))),
            };
            answer(&mut after, worker, shard, told, bounds);
            steps.push(Ok((format!("{worker} hears of s{shard}"), after)));
            if state.faults > 0 {
                let mut after = state.clone();
                after.faults -= 1;
                answer(
                    &mut after,
                    worker,
                    shard,
                    Err(TableError::Unknown(String::new())),
                    bounds,
                );
                steps.push(Ok((
                    format!("the reply to {worker} about s{shard} is lost"),
                    after,
                )));
            }
        }
    }
}

/// The machine hears an answer.
fn answer(
    state: &mut State,
    worker: usize,
    shard: usize,
    told: Result<Lease, TableError>,
    bounds: &Bounds,
) {
    let now = state.now();
    let session = state.workers[worker].session(worker);
    let seat = &mut state.workers[worker].seats[shard];
    let Some(call) = seat.call.take() else { return };
    let seizes = matches!(call.ask, Ask::Write(Write::Acquire(_) | Write::Take { .. }));
    if let Ok(row) | Err(TableError::Changed(Some(row))) = told
        .as_ref()
        .map_err(Clone::clone)
        .map(|row| Box::new(row.clone()))
        && seat
            .seen
            .as_ref()
            .is_none_or(|(seen, _)| seen.counter < row.counter)
    {
        seat.seen = Some((*row, state.tick));
    }
    let seat = &mut state.workers[worker].seats[shard];
    if seizes {
        let sent = match bounds.planted {
            Some(Planted::StampedByReply) => state.tick,
            _ => call.sent,
        };
        if let Ok(row) = told
            && now < timing().valid_until(at(sent))
        {
            let from = row
                .checkpoint
                .sequence()
                .map_or(0, |sequence| sequence.as_str().parse().expect("ours"));
            seat.settled = from;
            seat.reading = true;
            seat.held = Some(Held::new(row, session, at(sent), false, timing()));
        }
        return;
    }
    let Some(held) = &mut seat.held else { return };
    let outcome = match call.ask {
        Ask::Read => held.read(told.map(Some), now),
        _ => held.answered(told.map(Some), now),
    };
    seat.outcome(&outcome);
}

/// What a worker does with the leader lock.
fn lock(state: &State, worker: usize, steps: &mut Steps) {
    let now = state.now();
    match &state.workers[worker].lock_call {
        None => {
            let mut after = state.clone();
            let leader = &mut after.workers[worker].leader;
            leader.observed(state.lock.as_ref(), now, now);
            if fingerprint(leader) != fingerprint(&state.workers[worker].leader) {
                steps.push(Ok((format!("{worker} sees the lock"), after)));
            }
            let mut after = state.clone();
            if let Some(write) = after.workers[worker].leader.poll(true, now) {
                after.workers[worker].lock_call = Some((write, None, false));
                steps.push(Ok((format!("{worker} wants the lock"), after)));
            }
        }
        Some((write, None, given_up)) => {
            let mut after = state.clone();
            let done = write.permitted(state.lock.as_ref());
            if done {
                after.lock = write.apply();
            }
            let answer = done.then(|| after.lock.clone());
            after.workers[worker].lock_call = match given_up {
                true => None,
                false => Some((write.clone(), Some(answer.flatten()), false)),
            };
            steps.push(Ok((format!("the table does {worker}'s lock"), after)));
            if state.faults > 0 && !given_up {
                let mut after = state.clone();
                after.faults -= 1;
                after.workers[worker]
                    .leader
                    .answered(Err(TableError::Unknown(String::new())), now);
                after.workers[worker].lock_call = Some((write.clone(), None, true));
                steps.push(Ok((format!("{worker} gives up on the lock"), after)));
            }
        }
        Some((_, Some(answer), _)) => {
            let mut after = state.clone();
            after.workers[worker].lock_call = None;
            let told = match answer {
                Some(lock) => Ok(Some(lock.clone())),
                None => Err(TableError::Changed(None)),
            };
            after.workers[worker].leader.answered(told, now);
            steps.push(Ok((format!("{worker} hears of the lock"), after)));
        }
    }
}

fn fingerprint(value: &impl Hash) -> u128 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let first = hasher.finish();
    // Continuing the same hash gives a second half without a second walk.
    0x5a5a_u64.hash(&mut hasher);
    u128::from(first) << 64 | u128::from(hasher.finish())
}

/// Explores everything. Returns the number of states, or the shortest story that goes wrong.
fn explore(bounds: &Bounds) -> Result<usize, String> {
    let first = State::new(bounds);
    let mut known = HashSet::from([fingerprint(&first)]);
    let mut stories: Vec<(usize, String)> = vec![(0, "start".to_owned())];
    let mut todo = VecDeque::from([(0, first)]);
    let story = |stories: &[(usize, String)], mut number: usize, last: &str| {
        let mut lines = vec![last.to_owned()];
        while number > 0 {
            lines.push(stories[number].1.clone());
            number = stories[number].0;
        }
        lines.reverse();
        lines.join("\n")
    };
    while let Some((number, state)) = todo.pop_front() {
        for step in next(&state, bounds) {
            let (what, after) = step.map_err(|wrong| story(&stories, number, &wrong))?;
            if let Err(wrong) = after.check(bounds) {
                return Err(story(&stories, number, &format!("{what}\n{wrong}")));
            }
            if known.insert(fingerprint(&after)) {
                stories.push((number, what));
                todo.push_back((stories.len() - 1, after));
            }
        }
    }
    Ok(known.len())
}

fn nothing_goes_wrong(bounds: Bounds) {
    match explore(&bounds) {
        Ok(states) => println!("{bounds:?}: {states} states"),
        Err(story) => panic!("{bounds:?}\n{story}"),
    }
}

const ONE_SHARD: Bounds = Bounds {
    shards: 1,
    ticks: 4,
    faults: 1,
    moves: 0,
    lock: false,
    planted: None,
};

/// Lost replies, lost and late requests, pauses.
#[test]
fn one_shard_with_a_bad_network() {
    nothing_goes_wrong(ONE_SHARD);
}

/// A hand-over, a release, a restart or a shard end at any moment, and a lost reply or late request at any other.
#[test]
fn one_shard_that_moves() {
    nothing_goes_wrong(Bounds {
        ticks: 1,
        faults: 1,
        moves: 1,
        ..ONE_SHARD
    });
}

/// The leader lock alone, with lost replies, late requests, restarts and pauses.
#[test]
fn the_leader_lock() {
    nothing_goes_wrong(Bounds {
        shards: 0,
        ticks: 5,
        faults: 1,
        moves: 0,
        lock: true,
        planted: None,
    });
}

/// Two shards, shared out by the plan: both are read without a hand-over budget.
#[test]
fn two_shards() {
    nothing_goes_wrong(Bounds {
        shards: 2,
        ticks: 0,
        faults: 0,
        moves: 0,
        lock: false,
        planted: None,
    });
}

#[test]
fn planted_mistakes_are_found() {
    for planted in [Planted::StampedByReply, Planted::TakenUnseen] {
        let bounds = Bounds {
            planted: Some(planted),
            ..ONE_SHARD
        };
        let story = explore(&bounds).expect_err("a planted mistake");
        assert!(story.ends_with("both read s0"), "{planted:?}: {story}");
    }
}
