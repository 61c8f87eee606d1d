//! Puts records into every open shard, through splits and merges, and remembers what it put where and when.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use checkpoint::{Aggregator, Position, PutRecord};
use shardkeeper::{
    clock::system_wall,
    local::{
        SharedKinesis,
        model::{Kinesis, PutEntry, ShardFilter, ShardInfo},
    },
};

/// What is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One plain record per shard and turn.
    Plain,
    /// Plain records and KPL aggregates in turns.
    Mixed,
}

/// One user record that was put; its number is its place in the log.
#[derive(Clone, Debug)]
pub struct Put {
    /// The shard that took it.
    pub shard: String,
    /// Its place there.
    pub position: Position,
    /// When.
    pub at: Instant,
}

/// A thread that puts records.
pub(super) struct Producer {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Vec<Put>>>,
    thread: Option<JoinHandle<()>>,
}

/// Between two turns.
const TURN: Duration = Duration::from_millis(20);
/// User records of an aggregate.
const ITEMS: usize = 5;

impl Producer {
    pub(super) fn start(kinesis: SharedKinesis, kind: Kind) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let log: Arc<Mutex<Vec<Put>>> = Arc::default();
        let thread = std::thread::spawn({
            let (stop, log) = (stop.clone(), log.clone());
            move || {
                for turn in 0_usize.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    put_all(&kinesis, &log, kind, turn);
                    std::thread::sleep(TURN);
                }
            }
        });
        Producer {
            stop,
            log,
            thread: Some(thread),
        }
    }

    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the producer does not panic");
        }
    }

    pub(super) fn log(&self) -> Vec<Put> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The shards that take records.
pub(super) fn open_shards(kinesis: &mut Kinesis) -> Vec<ShardInfo> {
    kinesis
        .list_shards(
            "orders",
            &ShardFilter::AtLatest,
            None,
            10_000,
            system_wall(),
        )
        .expect("the stream lists its shards")
        .shards
}

/// One turn: the shards cannot change meanwhile.
fn put_all(kinesis: &SharedKinesis, log: &Mutex<Vec<Put>>, kind: Kind, turn: usize) {
    let mut kinesis = kinesis.lock();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open_shards(&mut kinesis);
    for (index, shard) in open.iter().enumerate() {
        let aggregate = kind == Kind::Mixed && (turn + index).is_multiple_of(2);
        put(
            &mut kinesis,
            &mut log,
            shard,
            if aggregate { ITEMS } else { 1 },
        );
    }
}

fn put(kinesis: &mut Kinesis, log: &mut Vec<Put>, shard: &ShardInfo, items: usize) {
    let first = log.len();
    let mut aggregator = Aggregator::new(1 << 20);
    for number in first..first + items {
        aggregator
            .add(PutRecord {
                partition_key: "key".to_owned(),
                explicit_hash_key: Some(checkpoint::HashKey(shard.starting_hash_key)),
                data: Bytes::from(number.to_string()),
            })
            .expect("there is room");
    }
    let data = aggregator.finish().expect("not empty").data;
    let entry = PutEntry::new("key", data).at(shard.starting_hash_key);
    let placed = kinesis
        .put_record("orders", &entry, system_wall())
        .expect("the shard is open");
    let sequence: checkpoint::SequenceNumber =
        placed.sequence_number.to_string().parse().expect("digits");
    log.extend((0..items as u64).map(|item| Put {
        shard: placed.shard_id.clone(),
        position: Position::at(sequence.clone(), item),
        at: Instant::now(),
    }));
}
