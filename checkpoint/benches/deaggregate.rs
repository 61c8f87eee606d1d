//! How fast aggregates become user records, beside the MD5 that each aggregate carries and a decoder has to check.
//!
//! Both sides see the same bytes in alternating rounds of one run, and the best round of each counts, so that what else
//! the machine does meanwhile falls on neither. `ours` and `beside` are MB/s of payload (10^6 bytes); `ratio` is ours
//! over beside. Each line is one JSON object. `cargo bench -p shardkeeper-checkpoint`.
#![allow(clippy::disallowed_methods)] // a bench reads the clock

use std::hint::black_box;
use std::time::Instant;

use checkpoint::{
    Aggregator, Deaggregator, HashKey, HashRange, HashRangePolicy, KinesisRecord, PutRecord,
};
use md5::{Digest, Md5};

const AGGREGATE: usize = 50_000;
/// About as many aggregates as one GetRecords answer may hold.
const AGGREGATES: u128 = 200;
const ROUNDS: usize = 30;

struct Case {
    name: &'static str,
    user_record: usize,
    range: HashRange,
    goal: f64,
}

fn main() {
    let lower_half = HashRange {
        start: HashKey::MIN,
        end: HashKey(u128::MAX / 2),
    };
    let cases = [
        Case {
            name: "deaggregate-1KiB",
            user_record: 1024,
            range: HashRange::FULL,
            goal: 1.0,
        },
        Case {
            name: "deaggregate-100B",
            user_record: 100,
            range: HashRange::FULL,
            goal: 0.9,
        },
        Case {
            name: "deaggregate-1KiB-filtered",
            user_record: 1024,
            range: lower_half,
            goal: 1.0,
        },
        Case {
            name: "deaggregate-100B-filtered",
            user_record: 100,
            range: lower_half,
            goal: 0.9,
        },
    ];
    for case in &cases {
        run(case);
    }
}

fn run(case: &Case) {
    let records: Vec<KinesisRecord> = (0..AGGREGATES)
        .map(|sequence| aggregate(sequence, case))
        .collect();
    let bytes: usize = records.iter().map(|record| record.data.len()).sum();
    let deaggregator = Deaggregator::new(case.range, HashRangePolicy::DropRecord);
    let (mut ours, mut beside) = (0f64, 0f64);
    for _ in 0..ROUNDS {
        let batch = records.clone();
        ours = ours.max(speed(bytes, || {
            let counts = deaggregator.push_all(batch, &mut |record| drop(black_box(record)));
            assert!(counts.aggregates == AGGREGATES as u64 && counts.user_records > 0);
        }));
        beside = beside.max(speed(bytes, || {
            for record in &records {
                black_box(Md5::digest(&record.data));
            }
        }));
    }
    let ratio = ours / beside;
    println!(
        r#"{{"bench":"{}","ours":{ours:.0},"beside":{beside:.0},"ratio":{ratio:.2},"goal":{},"ok":{}}}"#,
        case.name,
        case.goal,
        ratio >= case.goal
    );
}

/// MB/s.
fn speed(bytes: usize, work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// An aggregate as the KPL fills one: every user record with a partition key of its own, which lies in the range.
fn aggregate(sequence: u128, case: &Case) -> KinesisRecord {
    let mut aggregator = Aggregator::new(AGGREGATE);
    let mut keys = (0..).map(|n| format!("customer-{sequence:04}-{n:07}"));
    loop {
        let partition_key = keys.next().expect("endless");
        if !case
            .range
            .contains(HashKey::of_partition_key(&partition_key))
        {
            continue;
        }
        let data = vec![partition_key.as_bytes()[20]; case.user_record].into();
        let put = PutRecord {
            partition_key,
            explicit_hash_key: None,
            data,
        };
        if aggregator.add(put).is_err() {
            break;
        }
    }
    let full = aggregator.finish().expect("some records");
    // Sequence numbers of Kinesis have 56 digits.
    let sequence = format!("49590338271490256608559692538361571095921{sequence:015}")
        .parse()
        .expect("digits");
    KinesisRecord::new(sequence, full.partition_key.as_str(), full.data)
}
