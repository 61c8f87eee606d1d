//! The scheduler: events in the order of true time, and the shell of every process.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

use checkpoint::Position;
use fastrand::Rng;
use lease::{
    Lease, LeaseKey, LockWrite, Session, ShardId, TableError, Timing, WorkerId, WorkerRow, Write,
    leases::{Action, Event, Fatal, Halt, Leases, News, Settings, Stream, WriteId},
    renew::Tenure,
    sync::Start,
};

use crate::{
    check::Checker,
    process::{Clock, Consumer, Process},
    stream::{FakeStream, moment},
    table::{FakeTable, Fate, Undo, Weather},
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

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    List { sent: u64, stale: u64 },
    Write(WriteId, Write),
    Read(LeaseKey),
    Lock(LockWrite),
    PutWorker(WorkerRow),
    RemoveWorker(WorkerId, i64),
}

/// Faults and changes, by worker number where one is meant.
#[derive(Clone, Debug)]
pub(crate) enum Scene {
    Join(String),
    Crash(usize),
    Freeze(usize, u64),
    Thaw(Pid),
    Leave(usize),
    Split(usize),
    Merge(usize),
    Stuck(usize),
    OperatorDeletes(usize),
    TableAway(u64),
    Weather(Weather),
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

    fn call(&mut self, pid: Pid, call: Call) {
        self.check.called(self.now, pid, &call);
        let timeout = u64::try_from(self.timing.request_timeout().as_micros()).expect("short");
        let away =
            (self.now < self.away_until).then(|| self.hangs || self.moody && self.rng.bool());
        let fate = Fate::draw(&self.weather, timeout, away, &mut self.rng);
        match fate.done {
            Some(done) if done <= fate.heard => {
                let heard = Some(fate.heard - done);
                self.order(done, Ev::Reach(pid, call, heard, fate.instead));
            }
            done => {
                let error = fate.instead.expect("an answer needs a deed");
                if let Some(event) = answer_of(&call, Err(error)) {
                    self.order(fate.heard, Ev::Hear(pid, Box::new(event)));
                }
                if let Some(done) = done {
                    self.order(done, Ev::Reach(pid, call, None, None));
                }
            }
        }
    }

    /// The table does a call.
    fn reach(&mut self, pid: Pid, call: Call, heard: Option<u64>, instead: Option<TableError>) {
        let result = self.perform(pid, &call);
        if let (Some(after), Some(event)) = (heard, {
            let told = match instead {
                Some(error) => Err(error),
                None => result,
            };
            answer_of(&call, told)
        }) {
            self.order(after, Ev::Hear(pid, Box::new(event)));
        }
    }

    fn perform(&mut self, pid: Pid, call: &Call) -> Result<Told, TableError> {
        let rows = &self.table.rows;
        let mut undo = None;
        let result = match call {
            Call::List { sent, stale } => {
                let from = sent.saturating_sub(*stale).max(1);
                return Ok(Told::View(Box::new(self.table.scan(
                    from,
                    self.now,
                    &mut self.rng,
                ))));
            }
            Call::Read(key) => return Ok(Told::Row(rows.row(key).map(Box::new))),
            Call::Write(_, write) => {
                let before = rows.row(write.key());
                let result = rows.write_now(write);
                if result.is_ok() {
                    if before.is_none() && rows.len() == 1 {
                        self.check.reborn(self.now);
                    }
                    let after = result.clone().expect("looked at");
                    self.check.stored(
                        self.now,
                        pid,
                        write,
                        before.as_ref(),
                        after.as_ref(),
                        &self.stream,
                    );
                    undo = Some(Undo::Lease(write.key().clone(), before.map(Box::new)));
                }
                result.map(|row| Told::Row(row.map(Box::new)))
            }
            Call::Lock(write) => {
                let before = rows.lock_row();
                let result = rows.lock_now(write).map(Told::Lock);
                undo = result.is_ok().then_some(Undo::Lock(before));
                result
            }
            Call::PutWorker(row) => {
                rows.put_worker_now(row);
                Ok(Told::Nothing)
            }
            Call::RemoveWorker(id, lut) => rows.remove_worker_now(id, *lut).map(|()| Told::Nothing),
        };
        if let Some(undo) = undo {
            self.table.changed(self.now, undo);
        }
        self.say(|| format!("{pid} did   {call:?}: {}", result.is_ok()));
        result
    }

    fn list_shards(&mut self, pid: Pid, stream: usize) {
        let fails = self.weather.throttled > 0 && self.rng.u32(0..8) == 0;
        let open = match self.start {
            Start::AtTimestamp(at) => Some(
                self.stream
                    .open_at(u64::try_from(at).expect("not negative") * MILLI),
            ),
            _ => None,
        };
        let shards = (!fails).then(|| (self.stream.list(), open));
        let after = self.rng.u64(5..100) * MILLI;
        self.order(
            after,
            Ev::Hear(pid, Box::new(Event::ShardsListed { stream, shards })),
        );
    }

    fn start_consumer(&mut self, pid: Pid, lease: &Lease, tenure: Tenure, until: lease::Time) {
        let from = moment(&lease.checkpoint, lease.pinned);
        let slow = self.moody && self.rng.u32(0..10) == 0;
        let consumer = Consumer {
            shard: lease.shard.clone(),
            tenure,
            valid_until: until,
            read: from,
            settled: None,
            halt: None,
            drains_in: if slow {
                self.rng.u64(1..40) * SECOND
            } else {
                self.rng.u64(1..300) * MILLI
            },
            stuck: false,
        };
        self.process(pid).last_words.remove(&lease.key);
        let former = self
            .process(pid)
            .consumers
            .insert(lease.key.clone(), consumer);
        if former.is_some() {
            self.check
                .fail(self.now, format!("{pid} starts {} twice", lease.key));
        }
        self.check
            .started(self.now, pid, lease, from, &self.processes, &self.stream);
        self.order(1, Ev::Tick(pid, lease.key.clone(), tenure));
    }

    /// A consumer settles what it handed over before, and hands over what is there.
    fn consume(&mut self, pid: Pid, key: &LeaseKey, tenure: Tenure) {
        let believes = self.processes[&pid].believes(key, self.now);
        let now = self.now;
        let process = self.processes.get_mut(&pid).expect("checked by happen");
        let Some(consumer) = process
            .consumers
            .get_mut(key)
            .filter(|consumer| consumer.tenure == tenure)
        else {
            return;
        };
        if consumer.halt.is_some() || consumer.stuck {
            return;
        }
        if believes {
            if consumer.read > 0 && consumer.settled.unwrap_or(0) < consumer.read {
                // What was read before this tick: only real records are settled.
                let newest = self.stream.newest(&consumer.shard, consumer.read);
                if newest > 0 && consumer.settled.is_none_or(|settled| settled < newest) {
                    consumer.settled = Some(newest);
                    self.check.settled(&consumer.shard, newest);
                }
            }
            let newest = self.stream.newest(&consumer.shard, now);
            if newest > consumer.read {
                consumer.read = newest;
                self.check.delivered(now, &consumer.shard);
            } else if self.stream.get(&consumer.shard).is_closed() {
                let event = Event::ShardEnded {
                    key: key.clone(),
                    tenure,
                    children: self.stream.children(&consumer.shard),
                };
                self.check.ended(&consumer.shard);
                process.consumers.remove(key);
                return self.hear(pid, event);
            } else {
                self.check.delivered(now, &consumer.shard);
            }
        }
        let pause = self.rng.u64(self.tick / 2..self.tick * 3 / 2);
        self.order(pause, Ev::Tick(pid, key.clone(), tenure));
    }

    fn stop_consumer(&mut self, pid: Pid, key: LeaseKey, halt: Halt) {
        let late = self.moody && self.rng.u32(0..10) == 0;
        let quick = self.rng.u64(0..50) * MILLI;
        let process = self.process(pid);
        let Some(consumer) = process.consumers.get_mut(&key) else {
            return;
        };
        consumer.halt = Some(halt);
        let tenure = consumer.tenure;
        let after = match halt {
            Halt::Drain if consumer.stuck => return,
            Halt::Drain => consumer.drains_in,
            Halt::Lost | Halt::Cancel if late => self.rng.u64(1..6) * SECOND,
            Halt::Lost | Halt::Cancel => quick,
        };
        self.order(after, Ev::StopDone(pid, key, tenure));
    }

    fn stop_done(&mut self, pid: Pid, key: &LeaseKey, tenure: Tenure) {
        let believes = self.processes[&pid].believes(key, self.now);
        let stream = &self.stream;
        let process = self.processes.get_mut(&pid).expect("checked by happen");
        let Some(consumer) = process
            .consumers
            .get_mut(key)
            .filter(|consumer| consumer.tenure == tenure)
        else {
            return;
        };
        if consumer.halt == Some(Halt::Drain) && believes {
            // The batch in hand is done.
            let newest = stream.newest(&consumer.shard, consumer.read);
            if newest > 0 && consumer.settled.is_none_or(|settled| settled < newest) {
                consumer.settled = Some(newest);
                self.check.settled(&consumer.shard, newest);
            }
        }
        // The machine reads the last watermark when it hears that the consumer is gone.
        let event = Event::Stopped {
            key: key.clone(),
            tenure,
        };
        let gone = process.consumers.remove(key).expect("looked at");
        let last = gone.settled.map(super::stream::position);
        self.hear_with(pid, event, (key, tenure), last);
    }

    /// Like `hear`, while the shell still knows the watermark of a consumer that is gone.
    fn hear_with(
        &mut self,
        pid: Pid,
        event: Event,
        (key, tenure): (&LeaseKey, Tenure),
        last: Option<Position>,
    ) {
        if let Some(last) = last {
            let words = (tenure, last);
            self.process(pid).last_words.insert(key.clone(), words);
        }
        self.hear(pid, event);
    }

    fn worker(&self, number: usize) -> Option<Pid> {
        let living: Vec<Pid> = self.processes.keys().copied().collect();
        (!living.is_empty()).then(|| living[number % living.len()])
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

    /// One fault or change.
    pub(crate) fn change(&mut self, scene: Scene) {
        self.say(|| format!("--- {scene:?}"));
        match scene {
            Scene::Join(name) => {
                self.join(&name);
            }
            Scene::Crash(number) => {
                if let Some(pid) = self.worker(number) {
                    self.kill(pid);
                }
            }
            Scene::Freeze(number, time) => {
                if let Some(pid) = self
                    .worker(number)
                    .filter(|pid| !self.processes[pid].frozen)
                {
                    self.process(pid).frozen = true;
                    self.order(time, Ev::Scene(Scene::Thaw(pid)));
                }
            }
            Scene::Thaw(pid) => self.thaw(pid),
            Scene::Leave(number) => {
                if let Some(pid) = self.worker(number) {
                    self.order(0, Ev::Hear(pid, Box::new(Event::Leave)));
                }
            }
            Scene::Split(pick) => self.stream.split(pick, self.now),
            Scene::Merge(pick) => self.stream.merge(pick, self.now),
            Scene::Stuck(number) => self.hang(number),
            Scene::OperatorDeletes(pick) => {
                let rows = self.table.rows.view().leases;
                if !rows.is_empty() {
                    let row = &rows[pick % rows.len()];
                    self.table.rows.remove(&row.key);
                    let undo = Undo::Lease(row.key.clone(), Some(Box::new(row.clone())));
                    self.table.changed(self.now, undo);
                    self.check.operator_deleted(self.now, row);
                    let key = row.key.clone();
                    self.say(|| format!("operator deletes {key}"));
                }
            }
            Scene::TableAway(time) => self.away_until = self.now + time,
            Scene::Weather(weather) => self.weather = weather,
        }
    }

    fn thaw(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.frozen = false;
        let mut missed = self.backlog.remove(&pid).unwrap_or_default();
        self.rng.shuffle(&mut missed);
        for event in missed {
            self.order(0, event);
        }
    }

    fn hang(&mut self, number: usize) {
        let Some(pid) = self.worker(number) else {
            return;
        };
        let pick = self.rng.usize(..);
        let process = self.process(pid);
        let count = process.consumers.len();
        if count == 0 {
            return;
        }
        let (key, consumer) = process
            .consumers
            .iter_mut()
            .nth(pick % count)
            .expect("in range");
        consumer.stuck = true;
        let event = Event::Stuck {
            key: key.clone(),
            tenure: consumer.tenure,
        };
        self.order(2 * SECOND, Ev::Hear(pid, Box::new(event)));
    }

    /// Who reads `shard` and believes in it.
    pub(crate) fn readers(&self, shard: &ShardId) -> Vec<Pid> {
        self.processes
            .iter()
            .filter(|(_, process)| {
                process.consumers.iter().any(|(key, consumer)| {
                    consumer.shard == *shard
                        && consumer.halt.is_none()
                        && process.believes(key, self.now)
                })
            })
            .map(|(pid, _)| *pid)
            .collect()
    }
}

/// What the table tells.
#[derive(Debug)]
pub(crate) enum Told {
    View(Box<lease::View>),
    Row(Option<Box<Lease>>),
    Lock(Option<lease::Lock>),
    Nothing,
}

fn answer_of(call: &Call, told: Result<Told, TableError>) -> Option<Event> {
    let row = |told: Result<Told, TableError>| {
        told.map(|told| match told {
            Told::Row(row) => row.map(|row| *row),
            _ => unreachable!("rows answer reads and writes"),
        })
    };
    Some(match call {
        Call::List { .. } => Event::Listed(told.map(|told| match told {
            Told::View(view) => *view,
            _ => unreachable!("views answer lists"),
        })),
        Call::Write(id, _) => Event::Written {
            id: *id,
            result: row(told),
        },
        Call::Read(key) => Event::Read {
            key: key.clone(),
            result: row(told),
        },
        Call::Lock(_) => Event::Locked(told.map(|told| match told {
            Told::Lock(lock) => lock,
            _ => unreachable!("locks answer lock writes"),
        })),
        Call::PutWorker(_) => Event::WorkerPut(told.is_ok()),
        Call::RemoveWorker(..) => return None,
    })
}
