//! Whole workers on the embedded AWS in another process, leases in its DynamoDB over HTTP: how soon they start, how late a
//! record is, what they ask of DynamoDB, how they share and what an outage costs. `ours` is seconds, or calls.
//!
//! `cargo bench -p shardkeeper --bench whole_worker [name]`
#![allow(clippy::disallowed_methods)] // a bench reads the clock and its arguments

mod rig;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use aws_sdk_kinesis::{Client, primitives::Blob};
use rig::{
    Calls, Counter, Running, bare,
    server::{Filling, Server},
};
use shardkeeper::handler::{
    Batch, Checkpointer, HandlerError, Processor, ProcessorFactory, ShardContext,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

fn main() {
    let Some(wanted) = rig::wanted() else { return };
    let runtime = rig::runtime();
    if wanted.has("start") {
        for shards in [1, 500] {
            runtime.block_on(start(shards));
        }
    }
    if wanted.has("latency") {
        runtime.block_on(latency());
    }
    if wanted.has("calls") {
        runtime.block_on(calls());
    }
    if wanted.has("join") {
        runtime.block_on(join());
    }
    if wanted.has("outage") {
        runtime.block_on(outage());
    }
}

/// From nothing – no table, no connection – to the first record, and to the first record of every shard.
async fn start(shards: u32) {
    let server = Server::start(&[("start", shards, Filling::One)]);
    let began = Instant::now();
    let table = Arc::new(rig::table(&server.dynamodb, "start", Calls::default()).await);
    let source = Arc::new(rig::source(&server.kinesis, "start"));
    let counter = Counter::default();
    let worker = Running::start("bench", 1, "start", table, source, counter.clone());
    counter.until(1).await;
    let first = began.elapsed().as_secs_f64();
    counter.until(u64::from(shards)).await;
    let every = began.elapsed().as_secs_f64();
    rig::most(
        &format!("start-first-record-{shards}-shards"),
        "s",
        first,
        1.0,
    );
    rig::most(
        &format!("start-every-shard-{shards}-shards"),
        "s",
        every,
        1.0,
    );
    worker.stop().await;
}

/// From a put to the handler, while records keep coming: the shard may be read five times a second.
async fn latency() {
    const PUTS: u64 = 200;
    let server = Server::start(&[("latency", 1, Filling::Empty)]);
    let table = Arc::new(rig::table(&server.dynamodb, "latency", Calls::default()).await);
    let source = Arc::new(rig::source(&server.kinesis, "latency"));
    let stopwatch = Stopwatch {
        began: Instant::now(),
        late: Arc::default(),
        counter: Counter::default(),
    };
    let worker = Running::start("bench", 1, "latency", table, source, stopwatch.clone());
    let client = bare::client(&server.kinesis);
    for n in 0..PUTS {
        let sent = stopwatch.began.elapsed().as_micros() as u64;
        put(&client, "latency", sent.to_be_bytes().to_vec()).await;
        // Out of step with the polls.
        tokio::time::sleep(Duration::from_millis(97 + n % 37)).await;
    }
    stopwatch.counter.until(PUTS).await;
    worker.stop().await;
    let mut late = stopwatch.late.lock().expect("not poisoned").clone();
    late.sort_unstable();
    let percentile =
        |percent: usize| late[(late.len() * percent / 100).min(late.len() - 1)] as f64 / 1e6;
    rig::most("latency-p50", "s", percentile(50), 0.150);
    rig::most("latency-p99", "s", percentile(99), 0.250);
}

/// Notes how old records are, whose payload says when they were sent.
#[derive(Clone)]
struct Stopwatch {
    began: Instant,
    late: Arc<Mutex<Vec<u64>>>,
    counter: Counter,
}

impl ProcessorFactory for Stopwatch {
    type Processor = Stopwatch;

    fn processor(&self, _: &ShardContext) -> Stopwatch {
        self.clone()
    }
}

impl Processor for Stopwatch {
    async fn process(
        &mut self,
        batch: &Batch,
        checkpointer: &Checkpointer,
    ) -> Result<(), HandlerError> {
        let now = self.began.elapsed().as_micros() as u64;
        {
            let mut late = self.late.lock().expect("not poisoned");
            for record in &batch.records {
                let sent = u64::from_be_bytes(record.data[..].try_into()?);
                late.push(now - sent);
            }
        }
        self.counter.process(batch, checkpointer).await
    }
}

/// Calls to DynamoDB per shard and hour while nothing happens, by operation.
async fn calls() {
    const SHARDS: u32 = 100;
    const WINDOW: Duration = Duration::from_secs(90);
    let server = Server::start(&[("calls", SHARDS, Filling::Empty)]);
    let calls = Calls::default();
    let table = Arc::new(rig::table(&server.dynamodb, "calls", calls.clone()).await);
    let source = Arc::new(rig::source(&server.kinesis, "calls"));
    let worker = Running::start("bench", 1, "calls", table, source, Counter::default());
    tokio::time::sleep(Duration::from_secs(15)).await;
    calls.take();
    tokio::time::sleep(WINDOW).await;
    let counts = calls.take();
    worker.stop().await;
    let per_hour = 3_600.0 / WINDOW.as_secs_f64() / f64::from(SHARDS);
    for (operation, count) in &counts {
        let calls = *count as f64 * per_hour;
        println!(
            r#"{{"bench":"calls-{operation}","unit":"calls per idle shard-hour","ours":{calls:.1}}}"#
        );
    }
    let all: u64 = counts.values().sum();
    rig::most(
        "calls",
        "calls per idle shard-hour",
        all as f64 * per_hour,
        1_099.0,
    );
}

/// A second worker comes: until both hold the same number of shards.
async fn join() {
    const SHARDS: u32 = 100;
    let server = Server::start(&[("join", SHARDS, Filling::Empty)]);
    let source = Arc::new(rig::source(&server.kinesis, "join"));
    let (first, second) = (Holdings::default(), Holdings::default());
    let table = rig::table(&server.dynamodb, "join", Calls::default()).await;
    let one = Running::start(
        "one",
        1,
        "join",
        Arc::new(table),
        source.clone(),
        first.clone(),
    );
    first.until(i64::from(SHARDS)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    let table = rig::table(&server.dynamodb, "join", Calls::default()).await;
    let two = Running::start("two", 2, "join", Arc::new(table), source, second.clone());
    second.until(i64::from(SHARDS) / 2).await;
    first.until(i64::from(SHARDS) / 2).await;
    rig::most("join-balanced", "s", began.elapsed().as_secs_f64(), 5.0);
    one.stop().await;
    two.stop().await;
}

/// Counts the shards that have a processor.
#[derive(Clone, Default)]
struct Holdings(Arc<AtomicI64>);

impl Holdings {
    async fn until(&self, shards: i64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.0.load(Ordering::Relaxed) != shards {
            let held = self.0.load(Ordering::Relaxed);
            assert!(
                Instant::now() < until,
                "{held} shards held after a minute, not {shards}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

struct Held(Holdings);

impl ProcessorFactory for Holdings {
    type Processor = Held;

    fn processor(&self, _: &ShardContext) -> Held {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Processor for Held {
    async fn process(&mut self, _: &Batch, _: &Checkpointer) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// DynamoDB is away for 30 s while records keep coming: until the first record after it is back, and none is missing.
async fn outage() {
    const AWAY: Duration = Duration::from_secs(30);
    let server = Server::start(&[("outage", 4, Filling::One)]);
    let table = Arc::new(rig::table(&server.dynamodb, "outage", Calls::default()).await);
    let source = Arc::new(rig::source(&server.kinesis, "outage"));
    let counter = Counter::default();
    let worker = Running::start("bench", 1, "outage", table, source, counter.clone());
    counter.until(4).await;
    let client = bare::client(&server.kinesis);
    let rule = format!(
        r#"{{"service":"dynamodb","action":"cut","for_ms":{}}}"#,
        AWAY.as_millis()
    );
    fault(&server.dynamodb, &rule).await;
    let back = Instant::now() + AWAY;
    // A little less, so that what is read before the end is not taken for what is read after it.
    tokio::time::sleep(AWAY - Duration::from_millis(500)).await;
    let before = counter.records();
    put(&client, "outage", b"while away".to_vec()).await;
    tokio::time::sleep(back.saturating_duration_since(Instant::now())).await;
    let held_back = counter.records() == before;
    counter.until(5).await;
    let after = back.elapsed().as_secs_f64();
    println!(r#"{{"bench":"outage-reading-stopped","ok":{held_back}}}"#);
    rig::most("outage-reading-again", "s", after, 2.0);
    worker.stop().await;
}

async fn put(client: &Client, stream: &str, data: Vec<u8>) {
    client
        .put_record()
        .stream_name(stream)
        .partition_key("key")
        .data(Blob::new(data))
        .send()
        .await
        .expect("put");
}

async fn fault(url: &str, rule: &str) {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!(
        "POST /_faults HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{rule}",
        rule.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
