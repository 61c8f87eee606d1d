//! A stream on the embedded AWS, a producer that never stops, workers as processes, and a watch over what they write.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lease::{Consistency, DynamoTable, Lease, Table as _};
use rustix::process::{Pid, Signal, kill_process};
use shardkeeper::{
    clock::system_wall,
    local::{
        LocalAws, LocalOptions,
        model::{CreateStream, PutEntry, ShardFilter, ShardInfo},
    },
};
use tokio::runtime::Runtime;

/// Whoever holds this runs alone.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failover time of these tests.
pub(crate) const FAILOVER: Duration = Duration::from_secs(3);
/// How late a shard may be read again after its worker died: the failover time and two seconds.
pub(crate) const AFTER_DEATH: Duration = Duration::from_secs(5);

/// One line of a worker's file.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) worker: String,
    pub(crate) shard: String,
    pub(crate) sequence: String,
    pub(crate) sub_sequence: u64,
    pub(crate) data: String,
    pub(crate) seen: Instant,
}

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) aws: LocalAws,
    pub(crate) folder: PathBuf,
    pub(crate) workers: BTreeMap<String, Process>,
    pub(crate) deliveries: Vec<Delivery>,
    tails: Vec<Tail>,
    producer: Option<Producer>,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) struct Process {
    pub(crate) child: Child,
    log: PathBuf,
}

struct Tail {
    worker: String,
    path: PathBuf,
    at: u64,
    rest: Vec<u8>,
}

struct Producer {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    put: Arc<Mutex<Vec<Instant>>>,
    thread: std::thread::JoinHandle<()>,
}

impl World {
    /// An embedded AWS with a stream `orders`.
    pub(crate) fn new(name: &str, shards: u32) -> Self {
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
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardkeeper"));
        command
            .args(arguments)
            .arg("--config")
            .arg(self.folder.join("worker.toml"))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env_remove("AWS_PROFILE")
            .stdin(Stdio::null());
        command
    }

    /// Starts a worker that writes to a file of its own.
    pub(crate) fn start(&mut self, name: &str, sets: &[&str]) {
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

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        let id = i32::try_from(self.workers[name].child.id()).expect("a process id");
        kill_process(Pid::from_raw(id).expect("not zero"), signal).expect("it lives");
    }

    /// Waits for a process to end.
    pub(crate) fn wait(&mut self, name: &str, patience: Duration) -> ExitStatus {
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
    pub(crate) fn wait_watching(&mut self, name: &str, patience: Duration) -> ExitStatus {
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
    pub(crate) fn fault(&self, rule: &str) {
        let rule = serde_json::from_str(rule).expect("a rule");
        self.aws
            .faults()
            .add(rule, system_wall())
            .expect("a good rule");
    }

    pub(crate) fn clear_faults(&self) {
        self.aws.faults().clear();
    }

    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(&self.workers[name].log).unwrap_or_default()
    }

    pub(crate) fn open_shards(&self) -> Vec<ShardInfo> {
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

    /// Puts a record into every open shard each 20 ms, from now on. A record's data is its number.
    pub(crate) fn produce(&mut self) {
        let (stop, made) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let put: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let kinesis = self.aws.kinesis();
        let thread = std::thread::spawn({
            let (stop, made, put) = (stop.clone(), made.clone(), put.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut kinesis = kinesis.lock();
                    let mut put = put.lock().unwrap_or_else(PoisonError::into_inner);
                    let open = kinesis
                        .list_shards(
                            "orders",
                            &ShardFilter::AtLatest,
                            None,
                            10_000,
                            system_wall(),
                        )
                        .expect("the stream lists its shards")
                        .shards;
                    for shard in open {
                        let number = put.len();
                        let entry = PutEntry::new("key", number.to_string().into_bytes())
                            .at(shard.starting_hash_key);
                        kinesis
                            .put_record("orders", &entry, system_wall())
                            .expect("the shard is open");
                        put.push(Instant::now());
                    }
                    made.store(put.len() as u64, Ordering::Release);
                    drop((kinesis, put));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        self.producer = Some(Producer {
            stop,
            made,
            put,
            thread,
        });
    }

    /// Stops the producer and waits until everything it put is delivered.
    pub(crate) fn finish(&mut self, patience: Duration) {
        let producer = self.producer.as_ref().expect("a producer");
        producer.stop.store(true, Ordering::Relaxed);
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
    pub(crate) fn missing(&self) -> Vec<u64> {
        let delivered: BTreeSet<u64> = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.data.parse().ok())
            .collect();
        let made = self
            .producer
            .as_ref()
            .map_or(0, |producer| producer.made.load(Ordering::Acquire));
        (0..made)
            .filter(|number| !delivered.contains(number))
            .collect()
    }

    /// The longest time between a put after `from` and its first delivery.
    pub(crate) fn longest_wait(&self, from: Instant) -> Duration {
        let producer = self.producer.as_ref().expect("a producer");
        let put = producer.put.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first: BTreeMap<usize, Instant> = BTreeMap::new();
        for delivery in &self.deliveries {
            if let Ok(number) = delivery.data.parse() {
                first.entry(number).or_insert(delivery.seen);
            }
        }
        first
            .iter()
            .filter(|(number, _)| put[**number] >= from)
            .map(|(number, seen)| seen.saturating_duration_since(put[*number]))
            .max()
            .unwrap_or_default()
    }

    /// Reads what the workers write, for this long.
    pub(crate) fn watch(&mut self, time: Duration) {
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
    pub(crate) fn until(&mut self, what: &str, patience: Duration, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + patience;
        while !done(self) {
            assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
            self.watch(Duration::from_millis(20));
        }
    }

    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
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

    pub(crate) fn table(&self) -> DynamoTable {
        DynamoTable::new(&self.dynamodb(), "orders-app")
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.runtime
            .block_on(self.table().list(Consistency::Strong))
            .map(|view| view.leases)
            .unwrap_or_default()
    }

    /// Who leads, by the lock row.
    pub(crate) fn leader(&self) -> Option<String> {
        let view = self
            .runtime
            .block_on(self.table().list(Consistency::Strong))
            .ok()?;
        Some(view.lock?.owner.to_string())
    }

    /// How many unfinished leases each worker reads.
    pub(crate) fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for lease in self.leases().iter().filter(|lease| !lease.ended()) {
            if let Some(reader) = lease.reader().filter(|_| !lease.handing_over()) {
                *shares.entry(reader.to_string()).or_default() += 1;
            }
        }
        shares
    }

    /// Waits until these workers share all shards evenly.
    pub(crate) fn balanced(&mut self, workers: &[&str], shards: usize) {
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
    pub(crate) fn assert_order(&self) {
        let mut last: BTreeMap<&str, (usize, &str, u64)> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for delivery in &self.deliveries {
            let position = (
                delivery.sequence.len(),
                delivery.sequence.as_str(),
                delivery.sub_sequence,
            );
            if !known.insert((delivery.shard.as_str(), position)) {
                continue;
            }
            if let Some(before) = last.insert(&delivery.shard, position) {
                assert!(
                    before < position,
                    "{}: {position:?} after {before:?}",
                    delivery.shard
                );
            }
        }
    }

    /// The same record, handed over more than once: how often over all.
    pub(crate) fn repeats(&self) -> usize {
        let mut known = BTreeSet::new();
        self.deliveries
            .iter()
            .filter(|delivery| {
                !known.insert((&delivery.shard, &delivery.sequence, delivery.sub_sequence))
            })
            .count()
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
        if let Some(producer) = self.producer.take() {
            producer.stop.store(true, Ordering::Relaxed);
            let _ = producer.thread.join();
        }
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
