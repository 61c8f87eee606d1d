//! Machines over one table that answers at once, in steps of ten milliseconds. Consumers exist in name only.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use checkpoint::Position;
use lease::{
    Lease, LeaseKey, MemoryTable, Session, Shard, TableError, Time, Timing, Unreadable, View,
    WorkerId, WorkerRow, Write,
    leases::{Action, Event, Fatal, Halt, Leases, Loss, News, Now, Settings, Stream},
    renew::Tenure,
    sync::Start,
};

const STEP: Duration = Duration::from_millis(10);

/// One worker.
pub(crate) struct Machine {
    pub(crate) leases: Leases,
    id: WorkerId,
    /// Rows its consumers were started with.
    pub(crate) started: Vec<Lease>,
    pub(crate) running: BTreeMap<LeaseKey, Tenure>,
    /// What consumers have settled, whenever they did.
    pub(crate) settled: BTreeMap<(LeaseKey, Tenure), Position>,
    /// Its consumers do not end when they are told to.
    pub(crate) deaf: bool,
    pub(crate) halts: Vec<Halt>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) fatal: Option<Fatal>,
}

impl Machine {
    /// What needs neither table nor stream. Returns what there is to hear.
    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Start { lease, tenure, .. } => {
                self.running.insert(lease.key.clone(), tenure);
                self.started.push(*lease);
                None
            }
            Action::Stop { key, halt } => {
                self.halts.push(halt);
                if self.deaf {
                    return None;
                }
                let tenure = self.running.remove(&key)?;
                Some(Event::Stopped { key, tenure })
            }
            Action::Tell(News::Lost { why, .. }) => {
                self.losses.push(why);
                None
            }
            Action::Fatal(fatal) => {
                self.fatal = Some(fatal);
                None
            }
            _ => None,
        }
    }
}

/// A table, a stream, and who works on it.
pub(crate) struct World {
    pub(crate) table: MemoryTable,
    pub(crate) shards: Vec<Shard>,
    pub(crate) machines: Vec<Machine>,
    /// Rows that are there and cannot be read, and how often one of them was to be made.
    pub(crate) unreadable: BTreeSet<LeaseKey>,
    pub(crate) collisions: usize,
    now: Duration,
}

impl World {
    pub(crate) fn new(shards: Vec<Shard>) -> Self {
        World {
            table: MemoryTable::new(),
            shards,
            machines: Vec::new(),
            unreadable: BTreeSet::new(),
            collisions: 0,
            now: Duration::from_secs(100),
        }
    }

    fn time(&self) -> Now {
        Now {
            mono: Time::new(self.now),
            wall: 1_000_000 + i64::try_from(self.now.as_millis()).expect("short runs"),
        }
    }

    /// Another worker, with a failover time of ten seconds. Returns its number.
    pub(crate) fn join(&mut self, id: &str) -> usize {
        let number = self.machines.len();
        let settings = Settings {
            me: id.into(),
            session: Session::from(format!("run-{number}")),
            timing: Timing::new(Duration::from_secs(10), Duration::from_secs(5)),
            max_leases: usize::MAX,
            streams: vec![Stream {
                id: None,
                made_for: "orders".into(),
                start: Start::TrimHorizon,
            }],
        };
        self.machines.push(Machine {
            leases: Leases::new(settings, self.time()),
            id: id.into(),
            started: Vec::new(),
            running: BTreeMap::new(),
            settled: BTreeMap::new(),
            deaf: false,
            halts: Vec::new(),
            losses: Vec::new(),
            fatal: None,
        });
        number
    }

    /// Lets everybody work for a while; `each` runs before every step.
    pub(crate) fn run_with(&mut self, span: Duration, mut each: impl FnMut(&mut World)) {
        let end = self.now + span;
        while self.now < end {
            each(self);
            for number in 0..self.machines.len() {
                self.turn(number);
            }
            self.now += STEP;
        }
    }

    /// Lets everybody work for a while.
    pub(crate) fn run(&mut self, span: Duration) {
        self.run_with(span, |_| {});
    }

    fn turn(&mut self, number: usize) {
        let now = self.time();
        for _ in 0..100 {
            let machine = &mut self.machines[number];
            if machine.fatal.is_some() {
                return;
            }
            let settled = &machine.settled;
            let watermark = |key: &LeaseKey, tenure| settled.get(&(key.clone(), tenure)).cloned();
            let actions = machine.leases.step(watermark, now);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(number, action, now);
            }
        }
        panic!("machine {number} always has more to do");
    }

    fn act(&mut self, number: usize, action: Action, now: Now) {
        let answer = match action {
            Action::List(_) => Event::Listed(Ok(self.view())),
            Action::ListShards(stream) => Event::ShardsListed {
                stream,
                shards: Some((self.shards.clone(), Some(BTreeSet::new()))),
            },
            Action::Write(id, write) => Event::Written {
                id,
                result: self.write(&write),
            },
            Action::Read(key) => Event::Read {
                result: Ok(self.table.row(&key)),
                key,
            },
            Action::Lock(write) => Event::Locked(self.table.lock_now(&write)),
            Action::PutWorker { every, leaving } => {
                self.table.put_worker_now(&WorkerRow {
                    id: self.machines[number].id.clone(),
                    updated: now.wall / 1_000,
                    every: Some(every),
                    leaving,
                });
                Event::WorkerPut(true)
            }
            other => match self.machines[number].act(other) {
                Some(answer) => answer,
                None => return,
            },
        };
        self.machines[number].leases.handle(answer, now);
    }

    fn view(&self) -> View {
        View {
            unreadable: self.unreadable.iter().map(spoilt).collect(),
            ..self.table.view()
        }
    }

    fn write(&mut self, write: &Write) -> Result<Option<Lease>, TableError> {
        if self.unreadable.contains(write.key()) {
            self.collisions += 1;
            return Err(TableError::Unreadable(spoilt(write.key()).reason));
        }
        self.table.write_now(write)
    }

    /// A consumer says something.
    pub(crate) fn hear(&mut self, number: usize, event: Event) {
        let now = self.time();
        self.machines[number].leases.handle(event, now);
    }

    pub(crate) fn owner(&self, shard: &str) -> Option<String> {
        let row = self.table.row(&LeaseKey::from(shard))?;
        Some(row.owner?.to_string())
    }
}

fn spoilt(key: &LeaseKey) -> Unreadable {
    Unreadable {
        key: key.to_string(),
        reason: "`leaseCounter` is of type S, not N".into(),
    }
}
