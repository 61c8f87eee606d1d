//! The leader lock: never two workers that lead, whatever is lost, late, paused or restarted.

use lease::{Lock, LockWrite, Session, TableError, Time, leader::Leader};

use crate::{
    explore::{Model, Step},
    fleet::Left,
    print::{FIRST, Lens},
    shard::{Setting, id},
};

/// The lock and two workers that want it.
pub(crate) struct Locks {
    pub(crate) setting: Setting,
    pub(crate) may: Left,
    pub(crate) ticks: u32,
}

#[derive(Clone, Hash)]
pub(crate) struct State {
    tick: u32,
    left: Left,
    lock: Option<Lock>,
    workers: [Worker; 2],
}

#[derive(Clone, Hash)]
struct Worker {
    runs: u8,
    leader: Leader,
    call: Option<Call>,
    /// Writes that nobody waits for any more.
    late: Vec<LockWrite>,
}

#[derive(Clone, Hash)]
struct Call {
    write: LockWrite,
    /// Once the table has done it.
    answer: Option<Result<Option<Lock>, ()>>,
}

/// Adds a step by its name and what it changes.
type Add<'a> = &'a mut dyn FnMut(&str, &dyn Fn(&mut State));

impl Locks {
    fn worker(&self, number: usize, runs: u8) -> Worker {
        let timing = self.setting.timing();
        let session = Session::from(format!("{}{runs}", id(number)));
        let (duration, margin) = (timing.failover(), timing.margin());
        Worker {
            runs,
            leader: Leader::new(id(number), session, duration, margin, timing.lock_every()),
            call: None,
            late: Vec::new(),
        }
    }

    fn steps_of(&self, state: &State, number: usize, steps: &mut Vec<Step<State>>) {
        let mut add = |what: &str, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            let to = self.check(after);
            let what = format!("{number} {what}").into();
            steps.push(Step { what, to });
        };
        let worker = &state.workers[number];
        for which in 0..worker.late.len() {
            add("had a write under way that is done", &|after| {
                let write = after.workers[number].late.remove(which);
                let _ = done(&mut after.lock, &write);
            });
        }
        match &worker.call {
            None => self.decides(state, number, &mut add),
            Some(call) => self.waits(state, number, call, &mut add),
        }
        if state.left.moves > 0 {
            add("restarts", &|after| {
                after.left.moves -= 1;
                let before = &after.workers[number];
                let mut worker = self.worker(number, before.runs + 1);
                worker.late.clone_from(&before.late);
                if let Some(Call {
                    write,
                    answer: None,
                }) = &before.call
                {
                    worker.late.push(write.clone());
                }
                after.workers[number] = worker;
            });
        }
    }

    /// What a worker does that waits for nothing.
    fn decides(&self, state: &State, number: usize, add: Add<'_>) {
        let now = self.setting.at(state.tick);
        let worker = &state.workers[number];
        let mut leader = worker.leader.clone();
        leader.observed(state.lock.as_ref(), now, now);
        if leader != worker.leader {
            add("sees the lock", &|after| {
                after.workers[number].leader = leader.clone();
            });
        }
        let mut leader = worker.leader.clone();
        if let Some(write) = leader.poll(true, now) {
            add("wants the lock", &|after| {
                after.workers[number].send(leader.clone(), write.clone());
            });
        }
        let mut leader = worker.leader.clone();
        if state.left.moves > 0
            && let Some(write) = leader.release(now)
        {
            add("gives the lock back", &|after| {
                after.left.moves -= 1;
                after.workers[number].send(leader.clone(), write.clone());
            });
        }
    }

    /// What becomes of a worker's call.
    fn waits(&self, state: &State, number: usize, call: &Call, add: Add<'_>) {
        let now = self.setting.at(state.tick);
        match &call.answer {
            None => {
                add("has its write done", &|after| {
                    let answer = done(&mut after.lock, &call.write);
                    let call = after.workers[number].call.as_mut();
                    call.expect("looked at above").answer = Some(answer);
                });
                if state.left.faults > 0 {
                    add("gives up on its write", &|after| {
                        after.left.faults -= 1;
                        let worker = &mut after.workers[number];
                        worker.late.push(call.write.clone());
                        worker.hear(Err(TableError::Unknown(String::new())), now);
                    });
                }
            }
            Some(answer) => {
                add("hears of its write", &|after| {
                    let told = answer.clone().map_err(|()| TableError::Changed(None));
                    after.workers[number].hear(told, now);
                });
                if state.left.faults > 0 {
                    add("never hears of its write", &|after| {
                        after.left.faults -= 1;
                        let unknown = TableError::Unknown(String::new());
                        after.workers[number].hear(Err(unknown), now);
                    });
                }
            }
        }
    }

    fn check(&self, state: State) -> Result<State, String> {
        let now = self.setting.at(state.tick);
        if state.workers.iter().all(|worker| worker.leader.leads(now)) {
            return Err("both lead".to_owned());
        }
        Ok(state)
    }
}

impl Worker {
    fn send(&mut self, leader: Leader, write: LockWrite) {
        self.leader = leader;
        self.call = Some(Call {
            write,
            answer: None,
        });
    }

    /// The call is over.
    fn hear(&mut self, answer: Result<Option<Lock>, TableError>, now: Time) {
        self.call = None;
        self.leader.answered(answer, now);
    }
}

/// Does a write, if its condition holds.
fn done(lock: &mut Option<Lock>, write: &LockWrite) -> Result<Option<Lock>, ()> {
    if !write.permitted(lock.as_ref()) {
        return Err(());
    }
    *lock = write.apply();
    Ok(lock.clone())
}

impl Model for Locks {
    type State = State;

    fn start(&self) -> State {
        State {
            tick: 0,
            left: self.may,
            lock: None,
            workers: [0, 1].map(|number| self.worker(number, 0)),
        }
    }

    fn print(&self, state: &State) -> u128 {
        let lens = Lens {
            now: self.setting.at(state.tick),
            tick: self.setting.tick,
            long_ago: self.setting.timing().failover(),
            counter: FIRST,
            runs: [0, 0],
            swapped: false,
        };
        let [a, b] = &state.workers;
        let rest = (state.tick, state.left, &state.lock);
        let swapped = Lens {
            swapped: true,
            ..lens
        };
        lens.print(&(rest, a, b)).min(swapped.print(&(rest, b, a)))
    }

    fn steps(&self, state: &State) -> Vec<Step<State>> {
        let mut steps = Vec::new();
        if state.tick < self.ticks {
            let mut after = state.clone();
            after.tick += 1;
            steps.push(Step {
                what: "time goes on".into(),
                to: self.check(after),
            });
        }
        for number in [0, 1] {
            self.steps_of(state, number, &mut steps);
        }
        steps
    }
}
