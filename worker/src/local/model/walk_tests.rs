//! Random histories of puts and reshards, walked as a consumer would: from the trim horizon, parents before children, children
//! learnt from the end of their parents. Every record must come exactly once, and per key in the order put, however it is read.

use std::collections::{BTreeMap, BTreeSet};

use super::testing::{T0, with_stream};
use super::{
    ChildShard, Kinesis, ModelOptions, PutEntry, Record, ShardFilter, ShardInfo, StartingPosition,
    Step,
};

const DAY: i64 = 86_400_000;

/// What was put: per key the payloads in order.
type History = BTreeMap<String, Vec<String>>;

fn open_shards(kinesis: &mut Kinesis, now: i64) -> Vec<ShardInfo> {
    let listed = kinesis.list_shards("s", &ShardFilter::AtLatest, None, 10_000, now);
    let mut open = listed.expect("listed").shards;
    open.sort_by_key(|shard| shard.starting_hash_key);
    open
}

/// A random operation; refusals (such as a merge with a single shard) are part of life.
fn step(
    kinesis: &mut Kinesis,
    dice: &mut fastrand::Rng,
    history: &mut History,
    number: usize,
    now: i64,
) {
    let open = open_shards(kinesis, now);
    let chosen = dice.usize(..open.len());
    match dice.u32(..40) {
        0 if open.len() < 20 => {
            let (start, end) = (open[chosen].starting_hash_key, open[chosen].ending_hash_key);
            if end > start {
                let at = dice.u128(start + 1..=end);
                kinesis
                    .split_shard("s", &open[chosen].shard_id, at, now)
                    .expect("split");
            }
        }
        1 if chosen > 0 => {
            let (left, right) = (&open[chosen - 1].shard_id, &open[chosen].shard_id);
            kinesis.merge_shards("s", left, right, now).expect("merged");
        }
        2 => {
            let target = u32::try_from(open.len()).expect("few") * dice.u32(50..=200) / 100;
            drop(kinesis.update_shard_count("s", target.max(1), now));
        }
        _ => {
            let key = format!("key-{}", dice.u32(..8));
            let payload = number.to_string();
            let entry = PutEntry::new(key.clone(), payload.clone());
            kinesis.put_record("s", &entry, now).expect("put");
            history.entry(key).or_default().push(payload);
        }
    }
}

/// Reads a shard to its end, or as far as there is; answers its children.
type ReadShard =
    fn(&mut Kinesis, &mut fastrand::Rng, &str, i64, &mut Vec<Record>) -> Vec<ChildShard>;

fn by_polling(
    kinesis: &mut Kinesis,
    dice: &mut fastrand::Rng,
    shard: &str,
    now: i64,
    out: &mut Vec<Record>,
) -> Vec<ChildShard> {
    let first = kinesis.get_shard_iterator("s", shard, &StartingPosition::TrimHorizon, now);
    let mut iterator = first.expect("iterator");
    loop {
        let page = kinesis
            .get_records(&iterator, Some(dice.usize(1..20)), now)
            .expect("read");
        let behind = page.millis_behind_latest;
        out.extend(page.records);
        match page.next {
            None => return page.child_shards,
            Some(_) if behind == 0 => return Vec::new(),
            Some(next) => iterator = next,
        }
    }
}

/// Subscribes again after each event, at the continuation, by either kind of position.
fn by_subscribing(
    kinesis: &mut Kinesis,
    dice: &mut fastrand::Rng,
    shard: &str,
    now: i64,
    out: &mut Vec<Record>,
) -> Vec<ChildShard> {
    let stream = kinesis.stream_arn("s");
    let consumer = kinesis
        .list_consumers("s", None, 1, now)
        .expect("listed")
        .consumers
        .pop();
    let consumer = consumer.unwrap_or_else(|| {
        kinesis
            .register_consumer("s", "c", now)
            .expect("registered")
    });
    assert!(consumer.arn.starts_with(&stream));
    let mut position = StartingPosition::TrimHorizon;
    loop {
        let mut subscription = kinesis
            .subscribe_to_shard(&consumer.arn, shard, &position, now)
            .expect("subscribed");
        let Step::Event(event) = kinesis.next_step(&mut subscription, now).expect("alive") else {
            panic!("the first step is always an event");
        };
        let caught_up = event.records.is_empty();
        out.extend(event.records);
        match event.continuation {
            None => return event.child_shards,
            Some(_) if caught_up => return Vec::new(),
            Some(place) if dice.bool() => {
                position = StartingPosition::AtSequenceNumber(place.to_string())
            }
            Some(place) => position = StartingPosition::AfterSequenceNumber(place.to_string()),
        }
    }
}

/// Walks the whole stream; answers the records per key and the shards visited.
fn walk(
    kinesis: &mut Kinesis,
    dice: &mut fastrand::Rng,
    read: ReadShard,
    now: i64,
) -> (History, BTreeSet<String>) {
    let roots = kinesis.list_shards("s", &ShardFilter::AtTrimHorizon, None, 10_000, now);
    let mut ready: Vec<String> = roots
        .expect("listed")
        .shards
        .into_iter()
        .map(|s| s.shard_id)
        .collect();
    let mut waiting: BTreeMap<String, ChildShard> = BTreeMap::new();
    let mut told = BTreeMap::<String, usize>::new();
    let mut visited = BTreeSet::new();
    let mut history = History::new();
    while !ready.is_empty() {
        let shard = ready.swap_remove(dice.usize(..ready.len()));
        let mut records = Vec::new();
        for child in read(kinesis, dice, &shard, now, &mut records) {
            assert!(child.parents.contains(&shard));
            *told.entry(child.shard_id.clone()).or_default() += 1;
            waiting.insert(child.shard_id.clone(), child);
        }
        assert!(visited.insert(shard), "no shard comes twice");
        for record in records {
            let payload = String::from_utf8(record.data().to_vec()).expect("text");
            history
                .entry(record.partition_key().to_owned())
                .or_default()
                .push(payload);
        }
        let free = |child: &ChildShard| child.parents.iter().all(|parent| visited.contains(parent));
        for (id, child) in waiting.extract_if(.., |_, child| free(child)) {
            assert_eq!(told[&id], child.parents.len(), "every parent tells of {id}");
            ready.push(id);
        }
    }
    assert!(
        waiting.is_empty(),
        "children of parents that are not there: {waiting:?}"
    );
    (history, visited)
}

#[test]
fn every_record_comes_once_and_in_order_however_it_is_read() {
    for seed in 0..25 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let options = ModelOptions {
            event_bytes: 40,
            takeover_after_ms: 0,
            empty_page_every: dice.u64(..4) * 2,
            ..ModelOptions::default()
        };
        let mut kinesis = with_stream(dice.u32(1..4), options);
        let (mut put, mut now) = (History::new(), T0);
        for number in 0..300 {
            now += dice.i64(0..50);
            step(&mut kinesis, &mut dice, &mut put, number, now);
        }
        let all = kinesis
            .list_shards("s", &ShardFilter::FromTrimHorizon, None, 10_000, now)
            .expect("listed");
        let all: BTreeSet<String> = all.shards.into_iter().map(|s| s.shard_id).collect();
        for read in [by_polling as ReadShard, by_subscribing] {
            let (seen, visited) = walk(&mut kinesis, &mut dice, read, now);
            assert_eq!(seen, put, "seed {seed}");
            assert_eq!(visited, all, "seed {seed}");
        }
    }
}

#[test]
fn what_retention_leaves_is_still_walked_without_gap() {
    for seed in 0..20 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut kinesis = with_stream(2, ModelOptions::default());
        let (mut put, mut now) = (History::new(), T0);
        let mut arrived = BTreeMap::new();
        for number in 0..300 {
            now += dice.i64(0..DAY / 100);
            step(&mut kinesis, &mut dice, &mut put, number, now);
            arrived.insert(number.to_string(), now);
        }
        for left in put.values_mut() {
            left.retain(|payload| arrived[payload] >= now - DAY);
        }
        put.retain(|_, left| !left.is_empty());
        let (seen, _) = walk(&mut kinesis, &mut dice, by_polling, now);
        assert_eq!(seen, put, "seed {seed}");
    }
}
