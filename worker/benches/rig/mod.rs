//! What the benches share: a server in a process of its own, whole workers, and what this process has used so far.
#![allow(dead_code, unreachable_pub)] // each bench uses its part

pub mod bare;
pub mod server;
pub mod usage;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_kinesis::config::{BehaviorVersion, Builder, Credentials, Region, retry::RetryConfig};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{Intercept, context::BeforeTransmitInterceptorContextRef},
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::ConfigBag;
use lease::{
    DynamoTable, Table, TableSpec, Timing, WorkerId, leases::Stream as LeaseStream, sync::Start,
};
use shardkeeper::{
    admin::Health,
    budget::Budget,
    clock::Clock,
    delivery::BatchLimits,
    handler::{Batch, Checkpointer, HandlerError, Processor, ProcessorFactory, ShardContext},
    run::{Delivery, Outcome, Pulse, Stop, Stream, Worker},
    source::{
        Source,
        kinesis::{KinesisClient, KinesisSource, Protocol},
        polling::Pace,
    },
};
use tokio::{sync::watch, task::JoinHandle};

/// The measures that the command line asks for.
pub struct Wanted(Option<String>);

impl Wanted {
    /// Whether it asks for this one: every one whose name holds its word, and all without a word.
    pub fn has(&self, name: &str) -> bool {
        let Wanted(only) = self;
        only.as_deref().is_none_or(|only| name.contains(only))
    }
}

/// Reads the command line. `None`: this process was the server of a bench, and is done.
pub fn wanted() -> Option<Wanted> {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    if first.as_deref() == Some(server::SERVE) {
        server::serve(args);
        return None;
    }
    // `cargo bench` adds words of its own.
    Some(Wanted(first.filter(|word| !word.starts_with('-'))))
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// The configuration of a client of the server, as plain as it can be.
pub fn client_config(url: &str) -> Builder {
    aws_sdk_kinesis::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
}

/// A lease table of its own in the server's DynamoDB, made if need be; every call goes by `count`.
pub async fn table(url: &str, name: &str, count: Calls) -> DynamoTable {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .interceptor(count);
    let client = aws_sdk_dynamodb::Client::from_conf(config.build());
    let table = DynamoTable::new(&client, name);
    let spec = TableSpec {
        provisioned: None,
        tags: Vec::new(),
        deletion_protection: false,
        point_in_time_recovery: false,
        create: true,
    };
    table
        .ensure(&spec, tokio::time::sleep)
        .await
        .expect("a table");
    table
}

/// Counts the calls of a client by operation.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<String, u64>>>);

impl Calls {
    /// The counts so far; begins anew.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for Calls {
    fn name(&self) -> &'static str {
        "Calls"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let target = context.request().headers().get("x-amz-target");
        let operation = target.and_then(|target| target.rsplit('.').next());
        let mut counts = self.0.lock().expect("not poisoned");
        *counts
            .entry(operation.unwrap_or_default().to_owned())
            .or_default() += 1;
        Ok(())
    }
}

/// A source as the worker has it by default.
pub fn source(url: &str, stream: &str) -> KinesisSource {
    let client = KinesisClient::from_conf(client_config(url), Protocol::Auto);
    KinesisSource::new(client, stream.to_owned(), None)
}

/// The defaults of the configuration file.
pub fn delivery() -> Delivery {
    Delivery {
        pace: Pace {
            min: Duration::from_millis(200),
            max: Duration::from_secs(1),
            limit: 10_000,
        },
        batch: BatchLimits {
            records: 500,
            bytes: 4 << 20,
            wait: Duration::ZERO,
        },
        retry: (Duration::from_millis(100), Duration::from_secs(30)),
        hash_range: checkpoint::HashRangePolicy::DropRecord,
        retention: Some(Duration::from_secs(86_400)),
    }
}

/// A worker that runs.
pub struct Running {
    stop: watch::Sender<Stop>,
    task: JoinHandle<Outcome>,
}

impl Running {
    /// Starts one with the defaults of the configuration file, on the current runtime.
    pub fn start<T: Table, S: Source, F: ProcessorFactory>(
        id: &str,
        seed: u64,
        stream: &str,
        table: Arc<T>,
        source: Arc<S>,
        processors: F,
    ) -> Self {
        let clock = Clock::start();
        let pulse = Arc::new(Pulse::default());
        let (beat, beat_clock) = (pulse.clone(), clock.clone());
        let worker = Worker {
            id: WorkerId::from(id),
            table,
            streams: vec![Stream {
                name: stream.to_owned(),
                lease: LeaseStream {
                    id: None,
                    made_for: stream.to_owned(),
                    start: Start::TrimHorizon,
                },
                source,
                delivery: delivery(),
            }],
            processors,
            timing: Timing::new(Duration::from_secs(10), Duration::from_secs(5)),
            max_leases: usize::MAX,
            budget: Budget::new(256 << 20),
            stuck_after: Duration::from_secs(300),
            deadline: Duration::from_secs(25),
            clock,
            seed,
            data: tokio::runtime::Handle::current().into(),
            health: Health::new(Duration::from_secs(30), move || beat.age(beat_clock.mono())),
            pulse,
        };
        let (stop, told) = watch::channel(Stop::No);
        let task = tokio::spawn(async move { worker.run(told).await.expect("the worker works") });
        Running { stop, task }
    }

    /// Stops it in order.
    pub async fn stop(self) {
        self.stop.send_replace(Stop::Drain);
        let outcome = self.task.await.expect("the worker ends");
        assert_eq!(outcome, Outcome::Drained);
    }
}

/// A handler that only counts.
#[derive(Clone)]
pub struct Counter {
    records: Arc<AtomicU64>,
    told: Arc<watch::Sender<u64>>,
}

impl Default for Counter {
    fn default() -> Self {
        Counter {
            records: Arc::default(),
            told: Arc::new(watch::channel(0).0),
        }
    }
}

impl Counter {
    /// Waits until so many user records were handed over.
    pub async fn until(&self, records: u64) {
        let mut told = self.told.subscribe();
        let waited = tokio::time::timeout(
            Duration::from_secs(120),
            told.wait_for(|count| *count >= records),
        );
        if waited.await.is_err() {
            let seen = self.records.load(Ordering::Relaxed);
            panic!("{seen} of {records} records came in two minutes");
        }
    }

    /// User records so far.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

impl ProcessorFactory for Counter {
    type Processor = Counter;

    fn processor(&self, _: &ShardContext) -> Counter {
        self.clone()
    }
}

impl Processor for Counter {
    async fn process(&mut self, batch: &Batch, _: &Checkpointer) -> Result<(), HandlerError> {
        let count = batch.records.len() as u64;
        let before = self.records.fetch_add(count, Ordering::Relaxed);
        self.told.send_replace(before + count);
        Ok(())
    }
}

/// Prints one measure. `ok`: `ours` over `beside` is at most the goal.
pub fn ratio(bench: &str, unit: &str, ours: f64, beside: f64, goal: f64) {
    let ratio = ours / beside;
    println!(
        r#"{{"bench":"{bench}","unit":"{unit}","ours":{ours:.3},"beside":{beside:.3},"ratio":{ratio:.3},"goal":{goal},"ok":{}}}"#,
        ratio <= goal
    );
}

/// Prints a measure that has nothing beside it. `ok`: it is at most the goal.
pub fn most(bench: &str, unit: &str, ours: f64, goal: f64) {
    println!(
        r#"{{"bench":"{bench}","unit":"{unit}","ours":{ours:.3},"beside":null,"ratio":null,"goal":{goal},"ok":{}}}"#,
        ours <= goal
    );
}
