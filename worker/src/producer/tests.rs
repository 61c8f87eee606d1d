//! The rule on its own. The whole against the embedded Kinesis: `worker/tests/cli/put.rs`.

mod aggregates;
mod any_answers;

use std::time::Duration;

use checkpoint::{HashKey, HashRange, PutRecord};
use lease::{Shard, ShardId, Time};

use super::{
    Options, Summary,
    lanes::{Answer, Call, Lanes, Outcome},
    shard_map::ShardMap,
};
use crate::{backoff::Random, limits, source::SourceError};

const SOON: Time = Time::new(Duration::from_secs(1));

fn lanes(options: &Options) -> Lanes {
    Lanes::new(options, Random::seeded(1))
}

fn one_call() -> Options {
    Options {
        calls: 1,
        ..Options::default()
    }
}

fn record(key: &str, data: &str) -> PutRecord {
    PutRecord {
        partition_key: key.to_owned(),
        explicit_hash_key: None,
        data: data.to_owned().into(),
    }
}

fn payloads(call: &Call) -> Vec<&str> {
    let text = |data| std::str::from_utf8(data).expect("text");
    call.entries.iter().map(|entry| text(&entry.data)).collect()
}

fn placed(call: &Call) -> Answer {
    let placed = |_| Outcome::Placed(ShardId::from("shardId-0"));
    Answer::Results(call.entries.iter().map(placed).collect())
}

fn shard(id: &str, start: u128, end: u128, closed: bool) -> Shard {
    Shard {
        id: ShardId::from(id),
        parents: [].into(),
        range: HashRange {
            start: HashKey(start),
            end: HashKey(end),
        },
        starting_sequence: None,
        closed,
    }
}

fn tags(summary: &Summary) -> Vec<u64> {
    let mut tags: Vec<u64> = summary.unplaced.iter().map(|one| one.tag).collect();
    tags.sort_unstable();
    tags
}

const HALF: u128 = 1 << 127;

fn two_shards() -> ShardMap {
    let shards = vec![
        shard("left", 0, HALF - 1, false),
        shard("right", HALF, u128::MAX, false),
    ];
    ShardMap::new(shards).expect("open shards")
}

fn at(key: u128, data: &str) -> PutRecord {
    PutRecord {
        explicit_hash_key: Some(HashKey(key)),
        ..record("k", data)
    }
}

fn aggregating(calls: usize) -> Options {
    Options {
        aggregate: Some(1 << 20),
        calls,
        ..Options::default()
    }
}

#[test]
fn waits_for_company_then_sends() {
    let mut lanes = lanes(&one_call());
    lanes.add(record("a", "1"), 1, Time::ZERO);
    assert!(lanes.next_call(Time::ZERO, false).is_none());
    let due = lanes.timeout(false);
    assert_eq!(due, Time::ZERO + Options::default().linger);
    lanes.add(record("b", "2"), 2, Time::ZERO);
    let call = lanes.next_call(due, false).expect("due");
    assert_eq!(payloads(&call), ["1", "2"]);
    assert!(!lanes.is_empty(), "in flight");
    let answer = placed(&call);
    assert!(lanes.answered(call, answer, due).is_none());
    assert!(lanes.is_empty());
    assert_eq!((lanes.summary().records, lanes.summary().bytes), (2, 2));
}

#[test]
fn a_full_call_waits_for_nothing_and_holds_no_more_than_kinesis_takes() {
    let mut lanes = lanes(&one_call());
    for number in 0..=limits::PUT_RECORDS_MOST_RECORDS as u64 {
        lanes.add(record("a", "x"), number, Time::ZERO);
    }
    let call = lanes.next_call(Time::ZERO, false).expect("full");
    assert_eq!(call.entries.len(), limits::PUT_RECORDS_MOST_RECORDS);
    assert!(lanes.next_call(SOON, true).is_none(), "one call at a time");

    let big = "x".repeat(2 << 20);
    let mut lanes = self::lanes(&one_call());
    for number in 0..3 {
        lanes.add(record("a", &big), number, Time::ZERO);
    }
    let call = lanes.next_call(Time::ZERO, false).expect("full");
    assert_eq!(call.entries.len(), 2, "the third is above 5 MiB");
}

#[test]
fn what_was_refused_goes_first_and_in_order() {
    let mut lanes = lanes(&one_call());
    for (tag, data) in ["1", "2", "3", "4"].into_iter().enumerate() {
        lanes.add(record("a", data), tag as u64, Time::ZERO);
    }
    let call = lanes.next_call(Time::ZERO, true).expect("hurry");
    lanes.add(record("a", "5"), 4, Time::ZERO);
    let refused = || Outcome::Refused("ProvisionedThroughputExceededException: slow".into());
    let home = || Outcome::Placed(ShardId::from("shardId-0"));
    let answer = Answer::Results(vec![home(), refused(), refused(), home()]);
    lanes.answered(call, answer, Time::ZERO);
    assert!(
        lanes.next_call(Time::ZERO, true).is_none(),
        "waits after a refusal, even in a hurry"
    );
    let again = lanes.timeout(true);
    assert!(again > Time::ZERO && again < SOON);
    let call = lanes.next_call(again, false).expect("due");
    assert_eq!(payloads(&call), ["2", "3", "5"]);
    assert_eq!((lanes.summary().records, lanes.summary().resent), (2, 2));
}

#[test]
fn gives_up_after_long_enough_and_says_which() {
    let options = one_call();
    let mut lanes = lanes(&options);
    lanes.add(record("a", "1"), 7, Time::ZERO);
    let mut now = Time::ZERO;
    let mut calls = 0;
    while !lanes.is_empty() {
        let call = lanes.next_call(now, true).expect("due");
        calls += 1;
        let silence = Answer::Refused(SourceError::Failed("no answer".into()));
        assert!(lanes.answered(call, silence, now).is_none());
        now = lanes.timeout(true);
    }
    assert!(calls > 5, "{calls} tries");
    let unplaced = &lanes.summary().unplaced;
    assert_eq!(tags(lanes.summary()), [7]);
    assert_eq!(&*unplaced[0].reason, "no answer");
}

#[test]
fn one_record_at_fault_does_not_take_the_others_along() {
    let mut lanes = lanes(&one_call());
    for tag in 0..100 {
        lanes.add(record("a", &tag.to_string()), tag, Time::ZERO);
    }
    let mut calls = 0;
    let mut order: Vec<String> = Vec::new();
    while let Some(call) = lanes.next_call(SOON, true) {
        calls += 1;
        let answer = if payloads(&call).contains(&"37") {
            Answer::Refused(SourceError::Invalid("ValidationException: size".into()))
        } else {
            order.extend(payloads(&call).into_iter().map(str::to_owned));
            placed(&call)
        };
        lanes.answered(call, answer, SOON);
    }
    assert_eq!(tags(lanes.summary()), [37]);
    assert_eq!(lanes.summary().records, 99);
    let all = (0..100).filter(|tag| *tag != 37);
    assert_eq!(order, all.map(|tag| tag.to_string()).collect::<Vec<_>>());
    assert!(calls < 40, "{calls} calls");
}

#[test]
fn a_refusal_of_the_stream_ends_it() {
    let mut lanes = lanes(&one_call());
    lanes.add(record("a", "1"), 1, Time::ZERO);
    let call = lanes.next_call(Time::ZERO, true).expect("hurry");
    lanes.add(record("a", "2"), 2, Time::ZERO);
    let no = SourceError::NotFound("gone".into());
    let fatal = lanes.answered(call, Answer::Refused(no.clone()), Time::ZERO);
    assert_eq!(fatal, Some(no));
    lanes.abandon("gone");
    assert!(lanes.is_empty());
    assert_eq!(tags(lanes.summary()), [1, 2]);
}

#[test]
fn records_no_stream_can_take_are_not_sent() {
    let mut lanes = lanes(&one_call());
    let long = "k".repeat(limits::RECORD_KEY_LONGEST + 1);
    let big = "x".repeat(limits::RECORD_MOST_BYTES);
    for (tag, (key, data)) in [("", "x"), (&long, "x"), ("k", &big)]
        .into_iter()
        .enumerate()
    {
        lanes.add(record(key, data), tag as u64, Time::ZERO);
    }
    assert!(lanes.next_call(SOON, true).is_none());
    assert_eq!(tags(lanes.summary()), [0, 1, 2]);
    // Letters count, not bytes.
    lanes.add(
        record(&"ü".repeat(limits::RECORD_KEY_LONGEST), ""),
        3,
        Time::ZERO,
    );
    assert!(lanes.next_call(SOON, true).is_some());
}
