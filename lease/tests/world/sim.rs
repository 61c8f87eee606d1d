//! The scheduler: events in the order of true time, and the shell of every process.

mod calls;
mod consumers;
mod scene;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

use fastrand::Rng;
use lease::{
    LeaseKey, Session, TableError, Timing, WorkerId, WorkerRow,
    leases::{Action, Event, Fatal, Leases, News, Settings, Stream},
    renew::Tenure,
    sync::Start,
};

pub(crate) use calls::Call;
pub(crate) use scene::Scene;

use crate::{
    check::Checker,
    process::{Clock, Process},
    stream::FakeStream,
    table::{FakeTable, Weather},
};

/// One second in the micros this world counts in.
pub(crate) const SECOND: u64 = 1_000_000;
/// One millisecond.
pub(crate) const MILLI: u64 = 1_000;

/// Names one process run; never used twice.
pub(crate) type Pid = usize;

/// What is going to happen.
#[derive(Debug)]
pub(crate) enum Ev {
    /// The machine's timer.
    Wake(Pid, u64),
    /// A call reaches the table, and perhaps its answer the caller.
    Reach(Pid, Call, Option<u64>, Option<TableError>),
    /// The machine hears something.
    Hear(Pid, Box<Event>),
    /// A consumer reads on.
    Tick(Pid, LeaseKey, Tenure),
    /// A consumer that was told to stop is gone.
    StopDone(Pid, LeaseKey, Tenure),
    /// A fault or a change of scene.
    Scene(Scene),
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) timing: Timing,
    pub(crate) table: FakeTable,
    pub(crate) stream: FakeStream,
    pub(crate) start: Start,
    pub(crate) processes: BTreeMap<Pid, Process>,
    pub(crate) check: Checker,
    pub(crate) weather: Weather,
    pub(crate) max_leases: usize,
    /// Consumers of this world may hang, drain slowly and stop late.
    pub(crate) moody: bool,
    pub(crate) tick: u64,
    away_until: u64,
    /// While the table is away, calls hang until they time out instead of failing at once.
    pub(crate) hangs: bool,
    /// How many runs each worker id has had.
    names: BTreeMap<String, u32>,
    born: usize,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Ev>,
    ordered: u64,
    backlog: BTreeMap<Pid, Vec<Ev>>,
    trace: bool,
}

impl World {
    /// A world in which nothing has happened.
    pub(crate) fn new(seed: u64, shards: usize, start: Start) -> Self {
        World {
            now: SECOND,
            rng: Rng::with_seed(seed),
            timing: Timing::new(Duration::from_secs(10), Duration::from_secs(5)),
            table: FakeTable::default(),
            stream: FakeStream::new(shards, 100 * MILLI),
            start,
            processes: BTreeMap::new(),
            check: Checker::new(200 + 8 * u32::try_from(shards).expect("small worlds")),
            weather: Weather::fair(),
            max_leases: usize::MAX,
            moody: false,
            tick: 800 * MILLI,
            away_until: 0,
            hangs: false,
            names: BTreeMap::new(),
            born: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            ordered: 0,
            backlog: BTreeMap::new(),
            trace: false,
        }
    }

    /// Prints every event: to look into a failure.
    pub(crate) fn traced(mut self, trace: bool) -> Self {
        self.trace = trace;
        self
    }

    /// `event` happens `after` from now.
    pub(crate) fn order(&mut self, after: u64, event: Ev) {
        self.ordered += 1;
        self.queue.push(Reverse((self.now + after, self.ordered)));
        self.events.insert(self.ordered, event);
    }

    /// Runs until `until`.
    pub(crate) fn run_until(&mut self, until: u64) {
        while let Some(Reverse((at, number))) = self.queue.peek().copied() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = at;
            let event = self.events.remove(&number).expect("ordered once");
            self.happen(event);
        }
        self.now = until;
    }

    /// Runs until `done` says so, at most until `limit`; looks each 10 ms. Returns when.
    pub(crate) fn run_while(&mut self, limit: u64, mut waiting: impl FnMut(&World) -> bool) -> u64 {
        while waiting(self) && self.now < limit {
            self.run_until(self.now + 10 * MILLI);
        }
        self.now
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.trace {
            println!(
                "{:>10.6} {}",
                (self.now - SECOND) as f64 / SECOND as f64,
                text()
            );
        }
    }

    fn pid_of(event: &Ev) -> Option<Pid> {
        match event {
            Ev::Wake(pid, _) | Ev::Hear(pid, _) | Ev::Tick(pid, ..) | Ev::StopDone(pid, ..) => {
                Some(*pid)
            }
            Ev::Reach(..) | Ev::Scene(_) => None,
        }
    }

    fn happen(&mut self, event: Ev) {
        if let Some(pid) = Self::pid_of(&event) {
            match self.processes.get(&pid) {
                None => return,
                Some(process) if process.frozen => {
                    self.backlog.entry(pid).or_default().push(event);
                    return;
                }
                Some(_) => {}
            }
        }
        match event {
            Ev::Wake(pid, number) => {
                if self.processes[&pid].wake == number {
                    self.step(pid);
                }
            }
            Ev::Reach(pid, call, heard, instead) => self.reach(pid, call, heard, instead),
            Ev::Hear(pid, event) => self.hear(pid, *event),
            Ev::Tick(pid, key, tenure) => self.consume(pid, &key, tenure),
            Ev::StopDone(pid, key, tenure) => self.stop_done(pid, &key, tenure),
            Ev::Scene(scene) => self.change(scene),
        }
    }

    fn hear(&mut self, pid: Pid, event: Event) {
        self.say(|| format!("{pid} hears {event:?}"));
        let process = self.processes.get_mut(&pid).expect("checked by happen");
        if let Event::Leave = event {
            process.leaving_since.get_or_insert(self.now);
        }
        let now = process.clock.now(self.now);
        process.leases.handle(event, now);
        self.step(pid);
    }

    /// Lets a machine act until it wants to wait.
    fn step(&mut self, pid: Pid) {
        for _ in 0..50 {
            let Some(process) = self.processes.get_mut(&pid) else {
                return;
            };
            let second = self.now / SECOND;
            if process.steps.0 != second {
                process.steps = (second, 0);
            }
            process.steps.1 += 1;
            if process.steps.1 > 3_000 {
                self.check
                    .fail(self.now, format!("{pid} steps all the time"));
                return;
            }
            let now = process.clock.now(self.now);
            let actions = process.step(now);
            for action in actions {
                // A fatal action ends the process; the rest of the batch goes with it.
                if self.processes.contains_key(&pid) {
                    self.act(pid, action);
                }
            }
            let Some(process) = self.processes.get_mut(&pid) else {
                return;
            };
            let Some(at) = process.clock.when(process.leases.timeout()) else {
                return;
            };
            if at > self.now {
                process.wake += 1;
                let wake = Ev::Wake(pid, process.wake);
                self.order(at - self.now, wake);
                return;
            }
        }
        self.check
            .fail(self.now, format!("{pid} is always due again at once"));
    }

    fn act(&mut self, pid: Pid, action: Action) {
        if !matches!(action, Action::Believe { .. }) {
            self.say(|| format!("{pid} does {action:?}"));
        }
        match action {
            Action::List(consistency) => {
                let stale = match consistency {
                    lease::Consistency::Strong => 0,
                    lease::Consistency::Eventual => self.weather.stale,
                };
                let sent = self.now;
                self.call(pid, Call::List { sent, stale });
            }
            Action::ListShards(stream) => self.list_shards(pid, stream),
            Action::Write(id, write) => {
                let holds = self.processes[&pid].holds.contains(write.key());
                self.check.wrote(self.now, pid, holds, &write);
                self.call(pid, Call::Write(id, write));
            }
            Action::Read(key) => self.call(pid, Call::Read(key)),
            Action::Lock(write) => self.call(pid, Call::Lock(write)),
            Action::PutWorker { every, leaving } => {
                let process = self.processes.get_mut(&pid).expect("it acts");
                process.lut = i64::try_from(self.now / SECOND).expect("short runs");
                let row = WorkerRow {
                    id: process.id.clone(),
                    updated: process.lut,
                    every: Some(every),
                    leaving,
                };
                self.call(pid, Call::PutWorker(row));
            }
            Action::RemoveWorker { id, updated } => {
                let lut = updated.unwrap_or(self.processes[&pid].lut);
                self.call(pid, Call::RemoveWorker(id, lut));
            }
            Action::Start {
                lease,
                tenure,
                valid_until,
            } => self.start_consumer(pid, &lease, tenure, valid_until),
            Action::Believe { key, until } => {
                if let Some(consumer) = self.process(pid).consumers.get_mut(&key) {
                    consumer.valid_until = until;
                    self.check.believed(self.now, pid, &key, &self.processes);
                }
            }
            Action::Stop { key, halt } => self.stop_consumer(pid, key, halt),
            Action::Answer { .. } => {}
            Action::Tell(news) => self.told(pid, news),
            Action::Gone => self.gone(pid),
            Action::Fatal(Fatal::DuplicateWorker(id)) => {
                let runs = self.names.get(id.as_str()).copied().unwrap_or(0);
                self.check.fatal(self.now, &id, runs > 1);
                self.kill(pid);
            }
        }
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        self.processes.get_mut(&pid).expect("it acts")
    }

    fn told(&mut self, pid: Pid, news: News) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        match news {
            News::Took { key, .. } => {
                process.holds.insert(key);
            }
            News::Lost { key, .. } | News::HandedOver { key, .. } => {
                process.holds.remove(&key);
            }
            News::Released(key) | News::Finished(key) => {
                process.holds.remove(&key);
            }
            _ => {}
        }
    }

    fn gone(&mut self, pid: Pid) {
        let process = self.processes.remove(&pid).expect("it acts");
        self.check.gone(self.now, pid, &process, &self.timing);
    }

    /// Ends a process at once.
    pub(crate) fn kill(&mut self, pid: Pid) {
        self.processes.remove(&pid);
        self.backlog.remove(&pid);
    }

    /// A process starts.
    pub(crate) fn join(&mut self, name: &str) -> Pid {
        let pid = self.born;
        self.born += 1;
        *self.names.entry(name.to_owned()).or_default() += 1;
        let clock = Clock {
            born: self.now,
            origin: self.rng.u64(0..1000 * SECOND),
            rate: self.rng.u64(985_000..1_015_000),
        };
        let settings = Settings {
            me: WorkerId::from(name),
            session: Session::from(format!("run-{pid}")),
            timing: self.timing,
            max_leases: self.max_leases,
            streams: vec![Stream {
                id: None,
                made_for: "stream".to_owned(),
                start: self.start,
            }],
        };
        let leases = Leases::new(settings, clock.now(self.now));
        self.processes.insert(
            pid,
            Process {
                id: WorkerId::from(name),
                leases,
                consumers: BTreeMap::new(),
                last_words: BTreeMap::new(),
                holds: BTreeSet::new(),
                frozen: false,
                leaving_since: None,
                lut: 0,
                wake: 0,
                steps: (0, 0),
                clock,
            },
        );
        self.order(1, Ev::Wake(pid, 0));
        pid
    }
}
