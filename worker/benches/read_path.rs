//! CPU per GB from a poll to a handler that does nothing, checkpoints included, beside a bare loop of the SDK in JSON that
//! only calls GetRecords. Both read the same pages from a server in another process, in alternating rounds; only the CPU
//! of this process counts. `ours` and `beside` are CPU seconds per GB (10^9 bytes) of user payload. The leases are in
//! memory: what DynamoDB costs does not depend on the bytes, and `whole_worker` counts it.
//!
//! `cargo bench -p shardkeeper --bench read_path`
#![allow(clippy::disallowed_methods)] // a bench reads its arguments

mod rig;

use std::sync::Arc;

use aws_sdk_kinesis::Client;
use lease::MemoryTable;
use rig::{
    Counter, Running, bare,
    server::{Filled, Filling, Server},
    usage,
};
use shardkeeper::metrics::{self, ShardLabels};

const SHARDS: u32 = 12;
const ROUNDS: u32 = 8;

struct Case {
    name: &'static str,
    filling: Filling,
    goal: f64,
}

const CASES: [Case; 4] = [
    Case {
        name: "plain-1KiB",
        filling: Filling::Plain(1_024),
        goal: 0.40,
    },
    Case {
        name: "aggregates-1KiB",
        filling: Filling::Aggregates(1_024),
        goal: 0.65,
    },
    Case {
        name: "aggregates-100B",
        filling: Filling::Aggregates(100),
        goal: 1.0,
    },
    Case {
        name: "plain-100B",
        filling: Filling::Plain(100),
        goal: 0.40,
    },
];

fn main() {
    let Some(wanted) = rig::wanted() else { return };
    // Metrics cost what they cost.
    let _exporter = metrics::install(ShardLabels::Shard).expect("the first of this process");
    let runtime = rig::runtime();
    for case in &CASES {
        if wanted.has(case.name) {
            runtime.block_on(run(case));
        }
    }
}

async fn run(case: &Case) {
    let server = Server::start(&[("bench", SHARDS, case.filling)]);
    let filled = server.filled[0];
    let client = bare::client(&server.kinesis);
    let source = Arc::new(rig::source(&server.kinesis, "bench"));
    let (mut ours, mut beside) = (0.0, 0.0);
    for round in 0..=ROUNDS {
        let before = usage::cpu();
        let counter = Counter::default();
        let table = Arc::new(MemoryTable::new());
        let seed = u64::from(round) + 1;
        let worker = Running::start(
            "bench",
            seed,
            "bench",
            table,
            source.clone(),
            counter.clone(),
        );
        counter.until(filled.user_records).await;
        worker.stop().await;
        assert_eq!(counter.records(), filled.user_records);
        let between = usage::cpu();
        bare_loop(&client, filled).await;
        let after = usage::cpu();
        // The first round opens connections and warms caches.
        if round > 0 {
            ours += (between - before).as_secs_f64();
            beside += (after - between).as_secs_f64();
        }
    }
    let gigabytes = filled.bytes as f64 * f64::from(ROUNDS) / 1e9;
    let name = format!("read_path-{}", case.name);
    rig::ratio(
        &name,
        "CPU s/GB",
        ours / gigabytes,
        beside / gigabytes,
        case.goal,
    );
}

/// Reads everything, and does nothing with it.
async fn bare_loop(client: &Client, filled: Filled) {
    let shards = bare::shards(client, "bench").await;
    let loops = shards.into_iter().map(|shard| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut iterator = bare::iterator(&client, "bench", shard).await;
            let mut records = 0;
            loop {
                let page = client
                    .get_records()
                    .set_shard_iterator(iterator)
                    .send()
                    .await
                    .expect("a page");
                records += page.records.len() as u64;
                if page.millis_behind_latest == Some(0) {
                    return records;
                }
                iterator = page.next_shard_iterator;
            }
        })
    });
    let counts = futures::future::join_all(loops).await;
    let records: u64 = counts.into_iter().map(|count| count.expect("read")).sum();
    assert_eq!(records, filled.kinesis_records);
}
