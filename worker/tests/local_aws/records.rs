//! Putting and getting records.

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, ShardIteratorType};
use shardkeeper::local::model::ModelOptions;

use crate::world::{T0, code, millis, payloads, shard, start};

const HALF: u128 = 1 << 127;

#[tokio::test]
async fn records_are_placed_numbered_and_limited() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    world.create("t", 1).await;
    let mut last = String::new();
    for hash_key in [0, HALF - 1] {
        let (at, number) = world.put("s", "x", hash_key).await;
        assert_eq!((at, number.len()), (shard(0), 56));
        assert!(number > last);
        last = number;
    }
    assert_eq!(world.put("s", "x", HALF).await.0, shard(1));
    assert_eq!(world.put("s", "x", u128::MAX).await.0, shard(1));
    let bad_key = k
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .explicit_hash_key("340282366920938463463374607431768211456");
    assert_eq!(
        code(bad_key.data(Blob::new("x")).send().await),
        "InvalidArgumentException"
    );

    let entry = |data: Vec<u8>| {
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .explicit_hash_key("0")
            .data(Blob::new(data))
            .build()
            .expect("complete")
    };
    let numbered: Vec<_> = (0..500)
        .map(|i: i32| entry(i.to_string().into_bytes()))
        .collect();
    let put = k
        .put_records()
        .stream_name("t")
        .set_records(Some(numbered))
        .send()
        .await
        .expect("put");
    assert_eq!((put.failed_record_count, put.records.len()), (Some(0), 500));
    assert!(put.records.is_sorted_by_key(|r| r.sequence_number.clone()));
    assert_eq!(
        world.drain("t", &shard(0)).await.0,
        (0..500).map(|i: i32| i.to_string()).collect::<Vec<_>>()
    );

    let refused = |records: Vec<PutRecordsRequestEntry>| {
        k.put_records()
            .stream_name("t")
            .set_records(Some(records))
            .send()
    };
    assert_eq!(
        code(refused(vec![entry(vec![0]); 501]).await),
        "ValidationException"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; (1 << 20) + 1])]).await),
        "ValidationException"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; 1 << 20])]).await),
        "ValidationException",
        "no room for the key"
    );
    assert_eq!(
        code(refused(vec![entry(vec![0; (1 << 20) - 1]); 11]).await),
        "InvalidArgumentException",
        "more than 10 MiB"
    );
    let single = k
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .data(Blob::new(vec![0; (1 << 20) + 1]));
    assert_eq!(code(single.send().await), "ValidationException");
    assert_eq!(
        world.drain("s", &shard(0)).await.0.len(),
        2,
        "the streams are apart"
    );
}

#[tokio::test]
async fn iterators_start_where_they_say() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("s", 2).await;
    let mut numbers = Vec::new();
    for data in ["r0", "r1", "r2", "r3"] {
        numbers.push(world.put("s", data, 0).await.1);
        world.advance(100);
    }
    let other = world.put("s", "other", u128::MAX).await.1;
    let get = || k.get_shard_iterator().stream_name("s").shard_id(shard(0));
    let at = |millis| DateTime::from_millis(T0 + millis);
    let cases = [
        (
            get().shard_iterator_type(ShardIteratorType::TrimHorizon),
            &["r0", "r1", "r2", "r3"][..],
        ),
        (get().shard_iterator_type(ShardIteratorType::Latest), &[]),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
                .starting_sequence_number(&numbers[1]),
            &["r1", "r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
                .starting_sequence_number(&numbers[1]),
            &["r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AfterSequenceNumber)
                .starting_sequence_number(&numbers[3]),
            &[],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(100)),
            &["r1", "r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(101)),
            &["r2", "r3"],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(at(400)),
            &[],
        ),
        (
            get()
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(DateTime::from_millis(0)),
            &["r0", "r1", "r2", "r3"],
        ),
    ];
    let mut open = Vec::new();
    for (request, expect) in cases {
        let iterator = request
            .send()
            .await
            .expect("iterator")
            .shard_iterator
            .expect("iterator");
        let page = world.page(&iterator).await;
        assert_eq!(payloads(&page.records), expect);
        assert_eq!(page.millis_behind_latest, Some(0));
        open.push(page.next_shard_iterator.expect("open shard"));
    }
    world.put("s", "new", 0).await;
    for iterator in open {
        assert_eq!(payloads(&world.page(&iterator).await.records), ["new"]);
    }
    let page = world
        .page(
            &world
                .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
                .await,
        )
        .await;
    assert_eq!(
        millis(page.records[1].approximate_arrival_timestamp.as_ref()),
        T0 + 100,
        "arrival in milliseconds"
    );
    assert_eq!(
        (
            page.records[1].sequence_number.as_str(),
            page.records[1].partition_key.as_deref()
        ),
        (numbers[1].as_str(), Some("k"))
    );

    let by_number = |number: &str| {
        get()
            .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
            .starting_sequence_number(number)
            .send()
    };
    assert_eq!(
        code(by_number(&other).await),
        "InvalidArgumentException",
        "a number of another shard"
    );
    assert_eq!(code(by_number("12345").await), "InvalidArgumentException");
    assert_eq!(
        code(
            get()
                .shard_iterator_type(ShardIteratorType::AtSequenceNumber)
                .send()
                .await
        ),
        "InvalidArgumentException",
        "no number"
    );
    let future = get()
        .shard_iterator_type(ShardIteratorType::AtTimestamp)
        .timestamp(at(401));
    assert_eq!(code(future.send().await), "InvalidArgumentException");
    let no_shard = k
        .get_shard_iterator()
        .stream_name("s")
        .shard_id(shard(99))
        .shard_iterator_type(ShardIteratorType::Latest);
    assert_eq!(code(no_shard.send().await), "ResourceNotFoundException");
}

#[tokio::test]
async fn pages_are_limited_and_iterators_expire() {
    let world = start(ModelOptions::default()).await;
    let k = &world.kinesis;
    world.create("big", 1).await;
    for _ in 0..14 {
        let put = k
            .put_record()
            .stream_name("big")
            .partition_key("k")
            .data(Blob::new(vec![7; (1 << 20) - 10]));
        put.send().await.expect("put");
    }
    let iterator = world
        .iterator("big", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    let first = world.page(&iterator).await;
    assert_eq!(first.records.len(), 10, "10 MiB");
    let second = world.page(&first.next_shard_iterator.expect("more")).await;
    assert_eq!(second.records.len(), 4);

    world.create("many", 1).await;
    let entries = vec![
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .data(Blob::new("x"))
            .build()
            .expect("complete");
        500
    ];
    for _ in 0..21 {
        k.put_records()
            .stream_name("many")
            .set_records(Some(entries.clone()))
            .send()
            .await
            .expect("put");
    }
    world.advance(1500);
    let iterator = world
        .iterator("many", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    let few = k
        .get_records()
        .shard_iterator(&iterator)
        .limit(10)
        .send()
        .await
        .expect("read");
    assert_eq!(
        (few.records.len(), few.millis_behind_latest),
        (10, Some(1500))
    );
    assert_eq!(world.page(&iterator).await.records.len(), 10_000);
    assert_eq!(
        code(
            k.get_records()
                .shard_iterator(&iterator)
                .limit(10_001)
                .send()
                .await
        ),
        "ValidationException"
    );
    assert_eq!(
        code(k.get_records().shard_iterator("AAAAgarbage").send().await),
        "InvalidArgumentException"
    );
    world.advance(300_000);
    world.page(&iterator).await;
    world.advance(1);
    assert_eq!(
        code(k.get_records().shard_iterator(&iterator).send().await),
        "ExpiredIteratorException"
    );
}

#[tokio::test]
async fn throughput_is_enforced_when_asked_for() {
    let world = start(ModelOptions {
        enforce_throughput: true,
        ..ModelOptions::default()
    })
    .await;
    let k = &world.kinesis;
    world.create("s", 1).await;
    let entries = vec![
        PutRecordsRequestEntry::builder()
            .partition_key("k")
            .data(Blob::new("x"))
            .build()
            .expect("complete");
        500
    ];
    let mut failed = Vec::new();
    for _ in 0..3 {
        let put = k
            .put_records()
            .stream_name("s")
            .set_records(Some(entries.clone()))
            .send()
            .await
            .expect("put");
        failed.push((put.failed_record_count, put.records[499].error_code.clone()));
    }
    let code_499 = Some("ProvisionedThroughputExceededException".to_owned());
    assert_eq!(
        failed,
        [(Some(0), None), (Some(0), None), (Some(500), code_499)]
    );
    let iterator = world
        .iterator("s", &shard(0), ShardIteratorType::TrimHorizon)
        .await;
    for _ in 0..5 {
        world.page(&iterator).await;
    }
    assert_eq!(
        code(k.get_records().shard_iterator(&iterator).send().await),
        "ProvisionedThroughputExceededException"
    );
    world.advance(1000);
    world.page(&iterator).await;
}
