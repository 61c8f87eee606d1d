//! The processes of a world: each is the real [`Worker::run`] behind a gate.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use lease::{WorkerId, leases::Stream as LeaseStream};
use shardkeeper::{
    admin::Health,
    budget::Budget,
    clock::Clock,
    run::{DataPlane, Outcome, Pulse, RunError, Stop, Stream, Worker},
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

use super::{
    gate::{Gate, Gated},
    history::{Blow, Event, Process},
    kinesis::RemoteStream,
    millis,
    plan::EPOCH,
    processor::{Handler, Planned},
    stage::{STREAM, Scene},
    table::RemoteTable,
};

/// All processes that ever ran.
#[derive(Debug)]
pub struct Fleet {
    scene: Arc<Scene>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    id: WorkerId,
    gate: Gate,
    stop: watch::Sender<Stop>,
    skew: Arc<AtomicI64>,
    main: JoinHandle<()>,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
    crashed: bool,
}

impl Member {
    /// Runs, or stands still.
    fn lives(&self) -> bool {
        !self.main.is_finished() && !self.crashed
    }

    /// Runs, and has not been told to end.
    fn stays(&self) -> bool {
        self.lives() && *self.stop.borrow() == Stop::No
    }
}

impl Fleet {
    /// Nobody yet.
    pub fn new(scene: Arc<Scene>) -> Self {
        Fleet {
            scene,
            members: Vec::new(),
        }
    }

    /// The ids of the workers that run and have not been told to leave.
    pub fn living(&self) -> Vec<WorkerId> {
        let living = self.members.iter().filter(|member| member.stays());
        let mut ids: Vec<_> = living.map(|member| member.id.clone()).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// A worker nobody has met.
    pub fn join(&mut self) {
        let id = format!("w{:02}", self.members.len());
        self.start(WorkerId::from(id));
    }

    /// A worker whose former run crashed.
    pub fn come_back(&mut self, which: usize) {
        let crashed = self.members.iter().filter(|member| member.crashed);
        let ids: Vec<_> = crashed.map(|member| member.id.clone()).collect();
        let free = |id: &&WorkerId| !self.members.iter().any(|m| m.lives() && m.id == **id);
        let ids: Vec<_> = ids.iter().filter(free).collect();
        if let Some(id) = pick(&ids, which) {
            let id = (*id).clone();
            self.scene.count("return_under_the_same_id");
            self.start(id);
        }
    }

    /// A second process under the id of one that runs.
    pub fn twin(&mut self, which: usize) {
        if let Some(index) = self.chosen(which, Member::stays) {
            self.scene.count("duplicate_worker_id");
            self.start(self.members[index].id.clone());
        }
    }

    /// SIGTERM.
    pub fn drain(&mut self, which: usize) {
        if let Some(index) = self.chosen(which, Member::stays) {
            self.scene.count("drain");
            self.tell_to_leave(index);
        }
    }

    fn tell_to_leave(&self, index: Process) {
        self.blow(index, Blow::Drain);
        self.members[index].stop.send_replace(Stop::Drain);
    }

    /// SIGKILL.
    pub fn crash(&mut self, which: usize) {
        let Some(index) = self.chosen(which, Member::lives) else {
            return;
        };
        self.scene.count("crash");
        self.blow(index, Blow::Crash);
        let member = &mut self.members[index];
        member.crashed = true;
        member.gate.kill();
        member.main.abort();
        let tasks = member.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// SIGSTOP, and SIGCONT after `span`.
    pub fn freeze(&mut self, which: usize, span: Duration) {
        let awake = |member: &Member| member.lives() && !member.gate.is_shut();
        let Some(index) = self.chosen(which, awake) else {
            return;
        };
        self.scene.count("freeze");
        self.blow(index, Blow::Freeze);
        let (scene, gate) = (self.scene.clone(), self.members[index].gate.clone());
        gate.shut();
        tokio::spawn(async move {
            tokio::time::sleep(span).await;
            thaw(&scene, index, &gate);
        });
    }

    /// Everybody who stands still goes on.
    pub fn wake_all(&self) {
        for (index, member) in self.members.iter().enumerate() {
            thaw(&self.scene, index, &member.gate);
        }
    }

    /// Somebody sets the clock of a host.
    pub fn jump(&mut self, which: usize, by: i64) {
        if let Some(index) = self.chosen(which, Member::lives) {
            self.scene.count("wall_clock_jump");
            self.members[index].skew.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// All are told to leave, and do.
    pub async fn all_leave(&mut self) {
        for index in 0..self.members.len() {
            if self.members[index].stays() {
                self.tell_to_leave(index);
            }
        }
        for member in &mut self.members {
            if member.lives() {
                // How it ended is in the history.
                let _ = (&mut member.main).await;
            }
        }
    }

    fn chosen(&self, which: usize, fit: impl Fn(&Member) -> bool) -> Option<Process> {
        let fitting: Vec<Process> = (0..self.members.len())
            .filter(|index| fit(&self.members[*index]))
            .collect();
        pick(&fitting, which).copied()
    }

    fn blow(&self, process: Process, what: Blow) {
        self.scene.record(Event::Blow { process, what });
    }

    fn start(&mut self, id: WorkerId) {
        let scene = &self.scene;
        let process = self.members.len();
        scene.record(Event::Started {
            process,
            id: id.clone(),
        });
        let gate = Gate::default();
        let tasks = Arc::new(Mutex::new(Vec::new()));
        let skew = Arc::new(AtomicI64::new(0));
        let data = data_plane(scene, process, &gate, &tasks);
        let worker = worker(scene, process, id.clone(), &gate, skew.clone(), data);
        let (stop, told) = watch::channel(Stop::No);
        let reporter = scene.clone();
        let run = async move {
            let what = ended(worker.run(told).await);
            reporter.record(Event::Blow { process, what });
        };
        let run = Gated::new(run, &gate, tell_panic(scene, process));
        self.members.push(Member {
            id,
            gate,
            stop,
            skew,
            main: tokio::spawn(async move {
                run.await;
            }),
            tasks,
            crashed: false,
        });
    }
}

fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    from.get(which.checked_rem(from.len())?)
}

fn thaw(scene: &Scene, process: Process, gate: &Gate) {
    if gate.is_shut() && !gate.is_killed() {
        scene.record(Event::Blow {
            process,
            what: Blow::Thaw,
        });
        gate.open();
    }
}

fn ended(result: Result<Outcome, RunError>) -> Blow {
    match result {
        Ok(outcome) => Blow::Ended(format!("{outcome:?}")),
        Err(RunError::Fatal(_)) => Blow::Duplicate,
        Err(error) => Blow::Ended(error.to_string()),
    }
}

fn data_plane(
    scene: &Arc<Scene>,
    process: Process,
    gate: &Gate,
    tasks: &Arc<Mutex<Vec<AbortHandle>>>,
) -> DataPlane {
    let (scene, gate, tasks) = (scene.clone(), gate.clone(), tasks.clone());
    DataPlane::new(move |consumer| {
        let consumer = Gated::new(consumer, &gate, tell_panic(&scene, process));
        let task = tokio::spawn(consumer).abort_handle();
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.clone());
        task
    })
}

/// Notes panics that no handler was made to.
fn tell_panic(scene: &Arc<Scene>, process: Process) -> impl Fn(&(dyn Any + Send)) + Send + use<> {
    let scene = scene.clone();
    move |panic| {
        if panic.is::<Planned>() {
            return;
        }
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        scene.record(Event::Blow {
            process,
            what: Blow::Panic(text.unwrap_or_default()),
        });
    }
}

type Processors = Box<dyn Fn(&shardkeeper::handler::ShardContext) -> Handler + Send + Sync>;

fn worker(
    scene: &Arc<Scene>,
    process: Process,
    id: WorkerId,
    gate: &Gate,
    skew: Arc<AtomicI64>,
    data: DataPlane,
) -> Worker<RemoteTable, RemoteStream, Processors> {
    let plan = &scene.plan;
    let world = scene.clone();
    let wall = move || EPOCH + millis(world.now()) + skew.load(Ordering::Relaxed);
    let (stage, gate) = (scene.clone(), gate.clone());
    Worker {
        id,
        table: Arc::new(RemoteTable {
            scene: scene.clone(),
            process,
        }),
        streams: vec![Stream {
            name: STREAM.to_owned(),
            lease: LeaseStream {
                id: None,
                made_for: STREAM.to_owned(),
                start: plan.start,
            },
            source: Arc::new(RemoteStream(scene.clone())),
            delivery: plan.delivery,
        }],
        processors: Box::new(move |shard| Handler::new(&stage, process, &gate, shard)),
        timing: plan.timing(),
        max_leases: usize::MAX,
        budget: Budget::new(plan.budget),
        stuck_after: plan.stuck_after(),
        deadline: plan.failover * 12,
        clock: Clock::with_wall(Arc::new(wall)),
        seed: scene.dice.number(),
        data,
        health: Health::new(Duration::MAX, || Duration::ZERO),
        pulse: Arc::new(Pulse::default()),
    }
}
