//! A stream on the embedded AWS, a producer that never stops, workers as processes, and a watch over what they write.
#![allow(clippy::disallowed_methods)] // real processes in real time are the point here

mod producer;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lease::{Consistency, DynamoTable, Lease, Table as _};
use rustix::process::{Pid, Signal, kill_process};
use shardkeeper::{
    clock::system_wall,
    local::{
        LocalAws, LocalOptions,
        model::{CreateStream, ShardFilter, ShardInfo},
    },
};
use tokio::runtime::Runtime;

use producer::Producer;
pub use producer::{Kind, Put};

/// Whoever holds this runs alone.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failover time of these tests.
pub const FAILOVER: Duration = Duration::from_secs(3);
/// How late a shard may be read again after its worker died: the failover time and two seconds.
pub const AFTER_DEATH: Duration = Duration::from_secs(5);

/// One line of a worker's file.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Whose.
    pub worker: String,
    /// Of which shard.
    pub shard: String,
    /// Its sequence number.
    pub sequence: String,
    /// Its sub-sequence number.
    pub sub_sequence: u64,
    /// Its data; here, a number.
    pub data: String,
    /// When it was read.
    pub seen: Instant,
}

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

struct Tail {
    worker: String,
    path: PathBuf,
    at: u64,
    rest: Vec<u8>,
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
            self.tails.push(Tail {
                worker: name.to_owned(),
                path: self.folder.join(format!("{name}.jsonl")),
                at: 0,
                rest: Vec::new(),
            });
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
        let mut shards = self
            .aws
            .kinesis()
            .lock()
            .list_shards(
                "orders",
                &ShardFilter::AtLatest,
                None,
                10_000,
                system_wall(),
            )
            .expect("the stream lists its shards")
            .shards;
        shards.sort_by_key(|shard| shard.starting_hash_key);
        shards
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

    /// The numbers of records that were put and not delivered.
    pub fn missing(&self) -> Vec<u64> {
        let delivered: BTreeSet<u64> = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.data.parse().ok())
            .collect();
        let made = self.put().len() as u64;
        (0..made)
            .filter(|number| !delivered.contains(number))
            .collect()
    }

    /// The longest time between a put after `from` and its first delivery.
    pub fn longest_wait(&self, from: Instant) -> Duration {
        self.longest_wait_between(from, from + Duration::from_secs(86_400))
    }

    /// The longest time between a put in this span and its first delivery.
    pub fn longest_wait_between(&self, from: Instant, to: Instant) -> Duration {
        let put = self.put();
        let mut first: BTreeMap<usize, Instant> = BTreeMap::new();
        for delivery in &self.deliveries {
            if let Ok(number) = delivery.data.parse() {
                first.entry(number).or_insert(delivery.seen);
            }
        }
        first
            .iter()
            .filter(|(number, _)| (from..to).contains(&put[**number].at))
            .map(|(number, seen)| seen.saturating_duration_since(put[*number].at))
            .max()
            .unwrap_or_default()
    }

    /// Reads what the workers write, for this long.
    pub fn watch(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let seen = Instant::now();
            for tail in &mut self.tails {
                self.deliveries.extend(tail.read(seen));
            }
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
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

    /// A client of the embedded DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
            .endpoint_url(self.aws.dynamodb_url())
            .credentials_provider(aws_sdk_dynamodb::config::Credentials::new(
                "test", "test", None, None, "test",
            ))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        aws_sdk_dynamodb::Client::from_conf(config)
    }

    /// The lease table.
    pub fn table(&self) -> DynamoTable {
        DynamoTable::new(&self.dynamodb(), "orders-app")
    }

    /// The rows of the lease table; none while it cannot be read.
    pub fn leases(&self) -> Vec<Lease> {
        self.runtime
            .block_on(self.table().list(Consistency::Strong))
            .map(|view| view.leases)
            .unwrap_or_default()
    }

    /// Who leads, by the lock row.
    pub fn leader(&self) -> Option<String> {
        let view = self
            .runtime
            .block_on(self.table().list(Consistency::Strong))
            .ok()?;
        Some(view.lock?.owner.to_string())
    }

    /// How many unfinished leases each worker reads.
    pub fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for lease in self.leases().iter().filter(|lease| !lease.ended()) {
            if let Some(reader) = lease.reader().filter(|_| !lease.handing_over()) {
                *shares.entry(reader.to_string()).or_default() += 1;
            }
        }
        shares
    }

    /// Waits until these workers share all shards evenly.
    pub fn balanced(&mut self, workers: &[&str], shards: usize) {
        let fair = |shares: BTreeMap<String, usize>| {
            shares.len() == workers.len()
                && shares.values().sum::<usize>() == shards
                && shares.values().max().unwrap_or(&0) - shares.values().min().unwrap_or(&0) <= 1
        };
        self.until("an even share", Duration::from_secs(20), |world| {
            fair(world.shares())
        });
    }

    /// Per shard, first deliveries rise – over all workers, in the order in which they were seen.
    pub fn assert_order(&self) {
        let disorder = self.disorder();
        assert!(disorder.is_empty(), "{disorder:#?}");
    }

    /// First deliveries that come after a later record of their shard was delivered.
    ///
    /// Files of different workers are read one after the other, so within one look nothing is known about their order:
    /// what was seen together is judged in the order of the shard.
    pub fn disorder(&self) -> Vec<String> {
        let mut looks: Vec<&Delivery> = self.deliveries.iter().collect();
        looks.sort_by_key(|delivery| (delivery.seen, delivery.place()));
        let mut last: BTreeMap<&str, (usize, &str, u64)> = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut wrong = Vec::new();
        for delivery in looks {
            let place = delivery.place();
            if !known.insert((delivery.shard.as_str(), place)) {
                continue;
            }
            match last.get(delivery.shard.as_str()) {
                Some(before) if *before > place => {
                    wrong.push(format!("{}: {place:?} after {before:?}", delivery.shard));
                }
                _ => {
                    last.insert(&delivery.shard, place);
                }
            }
        }
        wrong
    }

    /// The same record, handed over more than once: how often over all.
    pub fn repeats(&self) -> usize {
        let mut known = BTreeSet::new();
        self.deliveries
            .iter()
            .filter(|delivery| {
                !known.insert((&delivery.shard, &delivery.sequence, delivery.sub_sequence))
            })
            .count()
    }
}

impl Delivery {
    /// Its place in the shard, comparable.
    fn place(&self) -> (usize, &str, u64) {
        (self.sequence.len(), &self.sequence, self.sub_sequence)
    }
}

impl Tail {
    fn read(&mut self, seen: Instant) -> Vec<Delivery> {
        let Ok(mut file) = File::open(&self.path) else {
            return Vec::new();
        };
        file.seek(SeekFrom::Start(self.at)).expect("a plain file");
        self.at += file.read_to_end(&mut self.rest).expect("a plain file") as u64;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        whole
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .map(|line| Delivery {
                worker: self.worker.clone(),
                shard: text(&line["shard"]),
                sequence: text(&line["sequence"]),
                sub_sequence: line["sub_sequence"].as_u64().unwrap_or_default(),
                data: text(&line["data"]),
                seen,
            })
            .collect()
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
