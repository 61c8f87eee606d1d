use super::super::testing::{SHARD_0, T0, payloads, put, with_stream};
use super::super::{Code, ModelOptions, PutEntry};
use super::*;
use StartingPosition::{AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon};

fn with_consumer(options: ModelOptions) -> (Kinesis, String) {
    let mut kinesis = with_stream(1, options);
    let arn = kinesis
        .register_consumer("s", "c", T0)
        .expect("registered")
        .arn;
    (kinesis, arn)
}

fn event(kinesis: &mut Kinesis, subscription: &mut Subscription, now: i64) -> SubscribeEvent {
    match kinesis.next_step(subscription, now).expect("alive") {
        Step::Event(event) => event,
        other => panic!("expected an event, got {other:?}"),
    }
}

#[test]
fn one_subscription_at_a_time() {
    let (mut kinesis, arn) = with_consumer(ModelOptions::default());
    let mut first = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
        .expect("subscribed");
    let code = |k: &mut Kinesis, at| {
        k.subscribe_to_shard(&arn, SHARD_0, &Latest, at)
            .map_err(|e| e.code)
    };
    assert_eq!(
        code(&mut kinesis, T0 + 4_999).map(drop),
        Err(Code::ResourceInUse)
    );
    event(&mut kinesis, &mut first, T0 + 4_999);
    let mut second = code(&mut kinesis, T0 + 5_000).expect("takes over");
    assert_eq!(
        kinesis
            .next_step(&mut first, T0 + 5_000)
            .map(drop)
            .map_err(|e| e.code),
        Err(Code::ResourceInUse)
    );
    event(&mut kinesis, &mut second, T0 + 5_000);
    assert_eq!(
        code(&mut kinesis, T0 + 9_999).map(drop),
        Err(Code::ResourceInUse),
        "5 s from the last success"
    );
    let other = kinesis
        .register_consumer("s", "d", T0)
        .expect("registered")
        .arn;
    assert!(
        kinesis
            .subscribe_to_shard(&other, SHARD_0, &Latest, T0 + 5_001)
            .is_ok(),
        "another consumer"
    );
}

#[test]
fn who_may_not_subscribe() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        consumer_ms: 100,
        ..ModelOptions::default()
    });
    let other_stream = arn.replace("stream/s/", "stream/x/");
    let cases = [
        (arn.as_str(), SHARD_0, Latest, T0 + 99, Code::ResourceInUse),
        ("nonsense", SHARD_0, Latest, T0 + 100, Code::InvalidArgument),
        (
            &other_stream,
            SHARD_0,
            Latest,
            T0 + 100,
            Code::ResourceNotFound,
        ),
        (
            &arn.replace("/c:", "/d:"),
            SHARD_0,
            Latest,
            T0 + 100,
            Code::ResourceNotFound,
        ),
        (
            &arn,
            "shardId-000000000009",
            Latest,
            T0 + 100,
            Code::ResourceNotFound,
        ),
        (
            &arn,
            SHARD_0,
            AfterSequenceNumber("7".into()),
            T0 + 100,
            Code::InvalidArgument,
        ),
    ];
    for (arn, shard, position, at, code) in cases {
        let got = kinesis
            .subscribe_to_shard(arn, shard, &position, at)
            .map(drop)
            .map_err(|e| e.code);
        assert_eq!(got, Err(code), "{arn} {shard} {position:?}");
    }
    assert!(
        kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0 + 100)
            .is_ok(),
        "refused calls do not count"
    );
}

#[test]
fn continuations_resume_exactly() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        event_bytes: 5,
        takeover_after_ms: 0,
        ..ModelOptions::default()
    });
    for data in ["a", "b", "c", "d", "e"] {
        put(&mut kinesis, data, T0);
    }
    let mut subscription = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, T0)
        .expect("subscribed");
    let first = event(&mut kinesis, &mut subscription, T0 + 7);
    assert_eq!(
        (payloads(&first.records), first.millis_behind_latest),
        (vec!["a".to_owned(), "b".to_owned()], 7)
    );
    let place = first.continuation.expect("open shard").to_string();
    for position in [AfterSequenceNumber(place.clone()), AtSequenceNumber(place)] {
        let mut again = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &position, T0)
            .expect("subscribed");
        assert_eq!(
            payloads(&event(&mut kinesis, &mut again, T0).records),
            ["c", "d"],
            "{position:?}"
        );
        assert_eq!(
            payloads(&event(&mut kinesis, &mut again, T0).records),
            ["e"],
            "{position:?}"
        );
    }
    let mut at_time = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &AtTimestamp(T0 + 1), T0 + 1)
        .expect("subscribed");
    put(&mut kinesis, "f", T0 + 2);
    assert_eq!(
        payloads(&event(&mut kinesis, &mut at_time, T0 + 2).records),
        ["f"]
    );
}

#[test]
fn silence_is_broken_by_heartbeats_and_records() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        takeover_after_ms: 0,
        ..ModelOptions::default()
    });
    put(&mut kinesis, "before", T0);
    let mut subscription = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
        .expect("subscribed");
    let first = event(&mut kinesis, &mut subscription, T0);
    assert!(first.records.is_empty() && first.child_shards.is_empty());
    assert!(
        matches!(kinesis.next_step(&mut subscription, T0 + 1), Ok(Step::Wait(until)) if until == T0 + 3_000)
    );
    let heartbeat = event(&mut kinesis, &mut subscription, T0 + 3_000);
    assert!(
        heartbeat.records.is_empty() && heartbeat.continuation > first.continuation,
        "the continuation moves on"
    );
    put(&mut kinesis, "after", T0 + 3_001);
    assert_eq!(
        payloads(&event(&mut kinesis, &mut subscription, T0 + 3_001).records),
        ["after"]
    );
    // A record put between a heartbeat and the resumption from it is not lost.
    let place = heartbeat.continuation.expect("open").to_string();
    let mut again = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &AfterSequenceNumber(place), T0 + 3_002)
        .expect("subscribed");
    assert_eq!(
        payloads(&event(&mut kinesis, &mut again, T0 + 3_002).records),
        ["after"]
    );
}

#[test]
fn it_ends_after_five_minutes() {
    let (mut kinesis, arn) = with_consumer(ModelOptions::default());
    let mut subscription = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
        .expect("subscribed");
    event(&mut kinesis, &mut subscription, T0 + 299_998);
    assert!(
        matches!(kinesis.next_step(&mut subscription, T0 + 299_999), Ok(Step::Wait(until)) if until == T0 + 300_000)
    );
    for _ in 0..2 {
        assert!(matches!(
            kinesis.next_step(&mut subscription, T0 + 300_000),
            Ok(Step::End)
        ));
    }
}

#[test]
fn a_closed_shard_ends_with_one_event_of_children() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        takeover_after_ms: 0,
        ..ModelOptions::default()
    });
    put(&mut kinesis, "last", T0);
    let mut live = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
        .expect("subscribed");
    event(&mut kinesis, &mut live, T0);
    kinesis.split_shard("s", SHARD_0, 5, T0).expect("split");
    let end = event(&mut kinesis, &mut live, T0);
    assert_eq!(
        (end.records.len(), end.continuation, end.child_shards.len()),
        (0, None, 2)
    );
    assert!(matches!(kinesis.next_step(&mut live, T0), Ok(Step::End)));

    let mut late = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, T0)
        .expect("subscribed");
    let records = event(&mut kinesis, &mut late, T0);
    assert_eq!(
        (payloads(&records.records), records.child_shards.len()),
        (vec!["last".to_owned()], 0)
    );
    let place = records
        .continuation
        .expect("the end is not yet told")
        .to_string();
    assert_eq!(event(&mut kinesis, &mut late, T0).child_shards.len(), 2);
    for position in [AfterSequenceNumber(place), Latest] {
        let mut again = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &position, T0)
            .expect("subscribed");
        let end = event(&mut kinesis, &mut again, T0);
        assert_eq!(
            (end.records.len(), end.continuation, end.child_shards.len()),
            (0, None, 2),
            "{position:?}"
        );
    }
}

#[test]
fn it_fails_when_its_consumer_or_stream_goes() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        consumer_ms: 0,
        ..ModelOptions::default()
    });
    let mut subscription = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
        .expect("subscribed");
    kinesis
        .deregister_consumer("s", "c", T0)
        .expect("deregistered");
    assert_eq!(
        kinesis
            .next_step(&mut subscription, T0)
            .map(drop)
            .map_err(|e| e.code),
        Err(Code::ResourceNotFound)
    );
}

#[test]
fn it_carries_two_megabytes_a_second_when_enforced() {
    let (mut kinesis, arn) = with_consumer(ModelOptions {
        enforce_throughput: true,
        ..ModelOptions::default()
    });
    for i in 0..4 {
        kinesis
            .put_record(
                "s",
                &PutEntry::new("k", vec![0; (1 << 20) - 1]),
                T0 + i * 1000,
            )
            .expect("put");
    }
    let now = T0 + 10_000;
    let mut subscription = kinesis
        .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, now)
        .expect("subscribed");
    for _ in 0..2 {
        assert_eq!(event(&mut kinesis, &mut subscription, now).records.len(), 1);
    }
    assert!(
        matches!(kinesis.next_step(&mut subscription, now), Ok(Step::Wait(until)) if until > now)
    );
    assert_eq!(
        event(&mut kinesis, &mut subscription, now + 1000)
            .records
            .len(),
        1
    );
}
