//! The embedded AWS as a child process – this very program with other arguments – so that its CPU is not ours.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
};

use checkpoint::{Aggregator, HashKey, HashRange, PutRecord};
use shardkeeper::{
    clock,
    local::{
        LocalAws, LocalOptions, SharedKinesis,
        model::{CreateStream, ModelOptions, PutEntry},
    },
};

/// The first argument that makes this program a server.
pub const SERVE: &str = "serve";

/// What to put into a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filling {
    /// Nothing.
    Empty,
    /// One small record per shard.
    One,
    /// Plain records of so many bytes, [`SHARD_BYTES`] with their keys in each shard.
    Plain(usize),
    /// As many bytes in aggregates of 50 kB that hold user records of so many bytes.
    Aggregates(usize),
}

/// The largest page of Kinesis has 10 MiB or 10,000 records: one page, or several if the records are small.
const SHARD_BYTES: usize = 9_500_000;
const AGGREGATE_BYTES: usize = 50_000;

/// A server that ends when this is dropped.
pub struct Server {
    child: Child,
    /// Its end tells the child to end, whatever becomes of us.
    _alive: ChildStdin,
    /// Base URLs.
    pub kinesis: String,
    pub dynamodb: String,
    /// What is in the streams, in the order they were asked for.
    pub filled: Vec<Filled>,
}

/// What a stream holds.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    pub kinesis_records: u64,
    pub user_records: u64,
    /// Bytes of payload, of user records.
    pub bytes: u64,
}

impl Server {
    /// Starts one with these streams: name, shards, filling.
    pub fn start(streams: &[(&str, u32, Filling)]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.arg(SERVE);
        for (name, shards, filling) in streams {
            let (kind, size) = match filling {
                Filling::Empty => ("empty", 0),
                Filling::One => ("one", 100),
                Filling::Plain(size) => ("plain", *size),
                Filling::Aggregates(size) => ("aggregates", *size),
            };
            command.arg(format!("{name}:{shards}:{kind}:{size}"));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let alive = child.stdin.take().expect("piped");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let told: serde_json::Value = serde_json::from_str(&line).expect("the server's line");
        let filled = told["filled"].as_array().expect("an array").iter();
        Server {
            child,
            _alive: alive,
            kinesis: told["kinesis"].as_str().expect("a URL").to_owned(),
            dynamodb: told["dynamodb"].as_str().expect("a URL").to_owned(),
            filled: filled
                .map(|stream| Filled {
                    kinesis_records: stream[0].as_u64().expect("a number"),
                    user_records: stream[1].as_u64().expect("a number"),
                    bytes: stream[2].as_u64().expect("a number"),
                })
                .collect(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the child does: serves until its standard input ends.
pub fn serve(streams: impl Iterator<Item = String>) {
    let runtime = super::runtime();
    let options = LocalOptions {
        model: ModelOptions {
            create_ms: 0,
            ..ModelOptions::default()
        },
        ..LocalOptions::default()
    };
    let aws = runtime
        .block_on(LocalAws::start(options))
        .expect("the embedded AWS");
    let filled: Vec<[u64; 3]> = streams
        .map(|stream| {
            let filled = fill(&aws.kinesis(), &stream);
            [filled.kinesis_records, filled.user_records, filled.bytes]
        })
        .collect();
    let line = serde_json::json!({
        "kinesis": aws.kinesis_url(),
        "dynamodb": aws.dynamodb_url(),
        "filled": filled,
    });
    println!("{line}");
    std::io::stdout().flush().expect("written");
    let mut rest = Vec::new();
    // An error means that nobody is there either.
    let _ = std::io::stdin().read_to_end(&mut rest);
}

fn fill(kinesis: &SharedKinesis, stream: &str) -> Filled {
    let parts: Vec<&str> = stream.split(':').collect();
    let &[name, shards, kind, size] = parts.as_slice() else {
        panic!("{stream}: write name:shards:kind:size");
    };
    let shards: u32 = shards.parse().expect("a number");
    let size: usize = size.parse().expect("a number");
    let mut kinesis = kinesis.lock();
    kinesis
        .create_stream(
            CreateStream::provisioned(name, shards),
            clock::system_wall(),
        )
        .expect("created");
    let mut filled = Filled {
        kinesis_records: 0,
        user_records: 0,
        bytes: 0,
    };
    for shard in 0..shards {
        let range = range(shard, shards);
        let mut put = |key: String, data: Vec<u8>, users: u64, bytes: usize| {
            let entry = PutEntry::new(key, data).at(range.start.0);
            kinesis
                .put_record(name, &entry, clock::system_wall())
                .expect("put");
            filled.kinesis_records += 1;
            filled.user_records += users;
            filled.bytes += bytes as u64;
        };
        match kind {
            "one" => put("a".into(), vec![b'x'; size], 1, size),
            "plain" => {
                for n in 0..SHARD_BYTES / (size + 16) {
                    put(format!("customer-{n:07}"), vec![b'x'; size], 1, size);
                }
            }
            "aggregates" => {
                let mut keys = keys_in(range);
                for _ in 0..SHARD_BYTES / AGGREGATE_BYTES {
                    let (data, users) = aggregate(&mut keys, size);
                    put(
                        "a".into(),
                        data,
                        users,
                        usize::try_from(users).expect("few") * size,
                    );
                }
            }
            _ => {}
        }
    }
    filled
}

/// The hash range of a shard of a stream that was made with so many.
fn range(shard: u32, shards: u32) -> HashRange {
    let width = u128::MAX / u128::from(shards);
    let start = width * u128::from(shard);
    HashRange {
        // Rounding may put the very edge into the neighbour.
        start: HashKey(start + 1_000),
        end: HashKey(start + width - 1_000),
    }
}

/// Partition keys that belong to a shard, as a producer would find them there.
fn keys_in(range: HashRange) -> impl Iterator<Item = String> {
    (0..)
        .map(|n: u64| format!("customer-{n:07}"))
        .filter(move |key| range.contains(HashKey::of_partition_key(key)))
}

fn aggregate(keys: &mut impl Iterator<Item = String>, size: usize) -> (Vec<u8>, u64) {
    let mut aggregator = Aggregator::new(AGGREGATE_BYTES);
    let mut users = 0;
    loop {
        let put = PutRecord {
            partition_key: keys.next().expect("endless"),
            explicit_hash_key: None,
            data: vec![b'x'; size].into(),
        };
        if aggregator.add(put).is_err() {
            break;
        }
        users += 1;
    }
    let full = aggregator.finish().expect("some records");
    (full.data.to_vec(), users)
}
