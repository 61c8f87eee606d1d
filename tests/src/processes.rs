//! A stream on the embedded AWS, a producer that never stops, workers as processes, and a watch over what they write.
#![allow(clippy::disallowed_methods)] // real processes in real time are the point here

mod deliveries;
mod producer;
mod table;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use shardkeeper::{
    clock::system_wall,
    local::{
        LocalAws, LocalOptions,
        model::{CreateStream, ShardInfo},
    },
};
use tokio::runtime::Runtime;

pub use deliveries::Delivery;
use deliveries::Tail;
pub use producer::{Kind, Put};
use producer::{Producer, open_shards};

/// Whoever holds this runs alone.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failover time of these tests.
pub const FAILOVER: Duration = Duration::from_secs(3);
/// How late a shard may be read again after its worker died: the failover time and two seconds.
pub const AFTER_DEATH: Duration = Duration::from_secs(5);

/// An embedded AWS, workers as processes, and what they wrote.
pub struct World {
    program: PathBuf,
    env: Vec<(String, String)>,
    /// Where the embedded AWS runs.
    pub runtime: Runtime,
    /// The embedded AWS.
    pub aws: LocalAws,
    /// Where configuration, logs and files are.
    pub folder: PathBuf,
    /// Every worker that was started, by its id.
    pub workers: BTreeMap<String, Process>,
    /// Every line that was read, in that order.
    pub deliveries: Vec<Delivery>,
    tails: Vec<Tail>,
    producer: Option<Producer>,
    _turn: MutexGuard<'static, ()>,
}

/// A worker.
pub struct Process {
    /// Its process.
    pub child: Child,
    log: PathBuf,
}

impl World {
    /// An embedded AWS with a stream `orders`. Workers will be processes of `program`.
    pub fn new(program: impl Into<PathBuf>, name: &str, shards: u32) -> Self {
        let turn = turn();
        let runtime = Runtime::new().expect("a runtime");
        let aws = runtime
            .block_on(LocalAws::start(LocalOptions::default()))
            .expect("the embedded AWS starts");
        aws.kinesis()
            .lock()
            .create_stream(CreateStream::provisioned("orders", shards), system_wall())
            .expect("a stream");
        let folder =
            std::env::temp_dir().join(format!("shardkeeper-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        let config = format!(
            "[app]\nname = \"orders-app\"\n[[stream]]\nname = \"orders\"\nregion = \"us-east-1\"\nendpoint = \"{}\"\n\
             [lease]\nregion = \"us-east-1\"\nendpoint = \"{}\"\nfailover = \"{}s\"\n[checkpoint]\nevery = \"500ms\"\n\
             [handler]\nkind = \"sink\"\nsink = \"jsonl\"\npath = '{}'\n[admin]\nlisten = \"off\"\n",
            aws.kinesis_url(),
            aws.dynamodb_url(),
            FAILOVER.as_secs(),
            folder.join("{worker}.jsonl").display(),
        );
        fs::write(folder.join("worker.toml"), config).expect("a configuration");
        World {
            program: program.into(),
            env: Vec::new(),
            runtime,
            aws,
            folder,
            workers: BTreeMap::new(),
            deliveries: Vec::new(),
            tails: Vec::new(),
            producer: None,
            _turn: turn,
        }
    }

    /// The program, configured, with credentials.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--config")
            .arg(self.folder.join("worker.toml"))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env_remove("AWS_PROFILE")
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null());
        command
    }

    /// Workers get this variable as well.
    pub fn set_env(&mut self, key: &str, value: &str) {
        self.env.push((key.to_owned(), value.to_owned()));
    }

    /// The workers that have not ended.
    pub fn alive(&mut self) -> Vec<String> {
        self.workers
            .iter_mut()
            .filter_map(|(name, process)| {
                matches!(process.child.try_wait(), Ok(None)).then(|| name.clone())
            })
            .collect()
    }

    /// Starts a worker that writes to a file of its own.
    pub fn start(&mut self, name: &str, sets: &[&str]) {
        let log = self.folder.join(format!("{name}.log"));
        let mut command = self.command(&["run"]);
        command.args(["--set", &format!("app.worker_id=\"{name}\"")]);
        for set in sets {
            command.args(["--set", set]);
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the program starts");
        self.workers.insert(name.to_owned(), Process { child, log });
        if !self.tails.iter().any(|tail| tail.worker == name) {
            let path = self.folder.join(format!("{name}.jsonl"));
            self.tails.push(Tail::new(name, path));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str, signal: Signal) {
        let id = i32::try_from(self.workers[name].child.id()).expect("a process id");
        kill_process(Pid::from_raw(id).expect("not zero"), signal).expect("it lives");
    }

    /// Waits for a process to end.
    pub fn wait(&mut self, name: &str, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            let process = self.workers.get_mut(name).expect("a worker");
            if let Some(status) = process.child.try_wait().expect("it can be watched") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{name} has not ended within {patience:?}\n{}",
                self.log(name)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same, reading meanwhile what is written.
    pub fn wait_watching(&mut self, name: &str, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            self.watch(Duration::from_millis(20));
            let process = self.workers.get_mut(name).expect("a worker");
            if let Some(status) = process.child.try_wait().expect("it can be watched") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{name} has not ended within {patience:?}"
            );
        }
    }

    /// Switches a fault on.
    pub fn fault(&self, rule: &str) {
        let rule = serde_json::from_str(rule).expect("a rule");
        self.aws
            .faults()
            .add(rule, system_wall())
            .expect("a good rule");
    }

    /// Switches all faults off.
    pub fn clear_faults(&self) {
        self.aws.faults().clear();
    }

    /// What a worker has logged.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(&self.workers[name].log).unwrap_or_default()
    }

    /// The open shards, by hash key.
    pub fn open_shards(&self) -> Vec<ShardInfo> {
        let mut shards = open_shards(&mut self.aws.kinesis().lock());
        shards.sort_by_key(|shard| shard.starting_hash_key);
        shards
    }

    /// Splits the first open shard in the middle.
    pub fn split_the_first(&self) {
        let shard = &self.open_shards()[0];
        let middle =
            shard.starting_hash_key + (shard.ending_hash_key - shard.starting_hash_key) / 2 + 1;
        self.aws
            .kinesis()
            .lock()
            .split_shard("orders", &shard.shard_id, middle, system_wall())
            .expect("an open shard");
    }

    /// Puts records into every open shard each 20 ms, from now on. A record's data is its number.
    pub fn produce(&mut self, kind: Kind) {
        self.producer = Some(Producer::start(self.aws.kinesis(), kind));
    }

    /// What was put so far.
    pub fn put(&self) -> Vec<Put> {
        self.producer
            .as_ref()
            .map(Producer::log)
            .unwrap_or_default()
    }

    /// No more records.
    pub fn stop_producing(&mut self) {
        if let Some(producer) = &mut self.producer {
            producer.stop();
        }
    }

    /// Stops the producer and waits until everything it put is delivered.
    pub fn finish(&mut self, patience: Duration) {
        self.stop_producing();
        let deadline = Instant::now() + patience;
        loop {
            self.watch(Duration::from_millis(50));
            let missing = self.missing();
            if missing.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{} records are not delivered, the first is {:?}",
                missing.len(),
                missing.first()
            );
        }
    }

    /// Watches until `done` holds.
    pub fn until(&mut self, what: &str, patience: Duration, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + patience;
        while !done(self) {
            assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
            self.watch(Duration::from_millis(20));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_producing();
        for process in self.workers.values_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if std::thread::panicking() {
            for name in self.workers.keys() {
                eprintln!("--- {name}\n{}", self.log(name));
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
