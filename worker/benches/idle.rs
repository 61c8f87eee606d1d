//! A thousand idle shards in one process: its memory over that of a worker with one shard, its threads, and its CPU per
//! poll – leases, rules and all – beside bare polls of the SDK at the same pace. Each side is a process of its own.
//!
//! `cargo bench -p shardkeeper --bench idle`
#![allow(clippy::disallowed_methods)] // a bench reads its arguments

mod rig;

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_kinesis::{Client, types::ShardIteratorType};
use lease::{Shard, ShardId};
use rig::{
    Calls, Counter, Running,
    server::{Filling, SERVE, Server},
    usage,
};
use shardkeeper::{
    metrics::{self, ShardLabels},
    source::{From, Page, ShardIterator, Source, SourceError, kinesis::KinesisSource},
};

const SHARDS: u32 = 1_000;
const SETTLE: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_secs(40);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [SERVE, ..] => rig::server::serve(args.into_iter().skip(1)),
        ["worker", stream, kinesis, dynamodb] => side(worker(stream, kinesis, dynamodb)),
        ["bare", stream, kinesis] => side(bare(stream, kinesis)),
        _ => compare(),
    }
}

fn compare() {
    let server = Server::start(&[("one", 1, Filling::Empty), ("many", SHARDS, Filling::Empty)]);
    let (kinesis, dynamodb) = (server.kinesis.as_str(), server.dynamodb.as_str());
    let empty = child(&["worker", "one", kinesis, dynamodb]);
    let many = child(&["worker", "many", kinesis, dynamodb]);
    let bare = child(&["bare", "many", kinesis]);
    let cores = std::thread::available_parallelism()
        .expect("a number")
        .get();
    rig::most("idle-1-memory", "MiB", empty.memory, 20.0);
    rig::most(
        "idle-1000-memory",
        "MiB over an empty worker",
        many.memory - empty.memory,
        64.0,
    );
    rig::most(
        "idle-1000-threads",
        "threads",
        many.threads,
        (cores + 4) as f64,
    );
    rig::ratio(
        "idle-1000-cpu",
        "CPU ms per poll",
        many.cpu_per_poll,
        bare.cpu_per_poll,
        1.1,
    );
}

/// What a side has used.
struct Used {
    memory: f64,
    threads: f64,
    cpu_per_poll: f64,
}

fn child(args: &[&str]) -> Used {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .expect("started");
    assert!(output.status.success(), "{args:?} failed");
    let line = String::from_utf8(output.stdout).expect("text");
    let mut numbers = line
        .split_whitespace()
        .map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    Used {
        memory: next(),
        threads: next(),
        cpu_per_poll: next(),
    }
}

fn side(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(work);
}

/// Lets things settle, then measures a window and tells the parent.
async fn observe(polls: &AtomicU64) {
    tokio::time::sleep(SETTLE).await;
    let (cpu, before) = (usage::cpu(), polls.load(Ordering::Relaxed));
    tokio::time::sleep(WINDOW).await;
    let (cpu, polls) = (usage::cpu() - cpu, polls.load(Ordering::Relaxed) - before);
    let per_poll = cpu.as_secs_f64() * 1e3 / polls as f64;
    println!(
        "{} {} {per_poll}",
        usage::memory(),
        usage::status("Threads")
    );
}

async fn worker(stream: &str, kinesis: &str, dynamodb: &str) {
    let _exporter = metrics::install(ShardLabels::Shard).expect("the first of this process");
    let table = Arc::new(rig::table(dynamodb, stream, Calls::default()).await);
    let source = Counted {
        inner: rig::source(kinesis, stream),
        polls: Arc::default(),
    };
    let polls = source.polls.clone();
    let running = Running::start(
        "bench",
        1,
        stream,
        table,
        Arc::new(source),
        Counter::default(),
    );
    observe(&polls).await;
    running.stop().await;
}

/// A source that counts its polls.
struct Counted {
    inner: KinesisSource,
    polls: Arc<AtomicU64>,
}

impl Source for Counted {
    async fn list_shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.inner.list_shards().await
    }

    async fn open_at(&self, millis: i64) -> Result<BTreeSet<ShardId>, SourceError> {
        self.inner.open_at(millis).await
    }

    async fn iterator(&self, shard: &ShardId, from: &From) -> Result<ShardIterator, SourceError> {
        self.inner.iterator(shard, from).await
    }

    async fn records(&self, iterator: &ShardIterator, limit: u32) -> Result<Page, SourceError> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.inner.records(iterator, limit).await
    }
}

async fn bare(stream: &str, kinesis: &str) {
    let client = Client::from_conf(rig::client_config(kinesis).build());
    let polls = Arc::new(AtomicU64::new(0));
    let shards = client
        .list_shards()
        .stream_name(stream)
        .send()
        .await
        .expect("listed");
    for shard in shards.shards.expect("shards") {
        let (client, polls, stream) = (client.clone(), polls.clone(), stream.to_owned());
        tokio::spawn(async move {
            let mut iterator = client
                .get_shard_iterator()
                .stream_name(stream)
                .shard_id(shard.shard_id)
                .shard_iterator_type(ShardIteratorType::TrimHorizon)
                .send()
                .await
                .expect("an iterator")
                .shard_iterator;
            while let Some(next) = iterator {
                polls.fetch_add(1, Ordering::Relaxed);
                let page = client
                    .get_records()
                    .shard_iterator(next)
                    .limit(10_000)
                    .send()
                    .await;
                iterator = page.expect("a page").next_shard_iterator;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    observe(&polls).await;
}
