//! Putting records: where each goes, its number, and what is too much.

use aws_sdk_kinesis::operation::put_records::builders::PutRecordsFluentBuilder;
use aws_sdk_kinesis::primitives::Blob;
use shardkeeper::local::model::ModelOptions;

use crate::world::{HALF, World, code, entry, shard, start};

const MIB: usize = 1 << 20;

async fn world() -> World {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    world
}

#[tokio::test]
async fn records_go_to_the_shard_of_their_hash_key_in_order() {
    let world = world().await;
    let mut last = String::new();
    for hash_key in [0, HALF - 1] {
        let (at, number) = world.put("s", "x", hash_key).await;
        assert_eq!((at, number.len()), (shard(0), 56));
        assert!(number > last);
        last = number;
    }
    assert_eq!(world.put("s", "x", HALF).await.0, shard(1));
    assert_eq!(world.put("s", "x", u128::MAX).await.0, shard(1));

    let beyond = world
        .kinesis
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .explicit_hash_key("340282366920938463463374607431768211456")
        .data(Blob::new("x"));
    assert_eq!(code(beyond.send().await), "InvalidArgumentException");
}

#[tokio::test]
async fn a_batch_of_five_hundred_keeps_its_order() {
    let world = world().await;
    world.create("t", 1).await;
    world.put("s", "x", 0).await;
    let numbers = || (0..500).map(|i: i32| i.to_string());
    let batch = numbers().map(|n| entry(n.into_bytes())).collect();
    let put = world.kinesis.put_records().stream_name("t");
    let put = put.set_records(Some(batch)).send().await.expect("put");
    assert_eq!((put.failed_record_count, put.records.len()), (Some(0), 500));
    assert!(put.records.is_sorted_by_key(|r| r.sequence_number.clone()));
    assert_eq!(world.drain("t", 0).await.0, numbers().collect::<Vec<_>>());
    assert_eq!(
        world.drain("s", 0).await.0.len(),
        1,
        "the streams are apart"
    );
}

#[tokio::test]
async fn too_many_records_and_too_large_ones_are_refused() {
    let world = world().await;
    let batch = |record: Vec<u8>, times| {
        let put = world.kinesis.put_records().stream_name("s");
        put.set_records(Some(vec![entry(record); times]))
    };
    let refused = async |put: PutRecordsFluentBuilder| code(put.send().await);
    assert_eq!(refused(batch(vec![0], 501)).await, "ValidationException");
    assert_eq!(
        refused(batch(vec![0; MIB + 1], 1)).await,
        "ValidationException"
    );
    assert_eq!(
        refused(batch(vec![0; MIB], 1)).await,
        "ValidationException",
        "no room for the key"
    );
    assert_eq!(
        refused(batch(vec![0; MIB - 1], 11)).await,
        "InvalidArgumentException",
        "more than 10 MiB"
    );
    let single = world
        .kinesis
        .put_record()
        .stream_name("s")
        .partition_key("k")
        .data(Blob::new(vec![0; MIB + 1]));
    assert_eq!(code(single.send().await), "ValidationException");
    assert_eq!(
        world.drain("s", 0).await.0,
        Vec::<String>::new(),
        "nothing of a refused call is kept"
    );
}

#[tokio::test]
async fn throughput_is_enforced_when_asked_for() {
    let world = start(ModelOptions {
        enforce_throughput: true,
        ..ModelOptions::default()
    })
    .await;
    world.create("s", 1).await;
    let mut failed = Vec::new();
    for _ in 0..3 {
        let put = world.kinesis.put_records().stream_name("s");
        let put = put.set_records(Some(vec![entry("x"); 500])).send().await;
        let put = put.expect("put");
        failed.push((put.failed_record_count, put.records[499].error_code.clone()));
    }
    let code_499 = Some("ProvisionedThroughputExceededException".to_owned());
    assert_eq!(
        failed,
        [(Some(0), None), (Some(0), None), (Some(500), code_499)]
    );
    let iterator = world.trim_horizon("s", 0).await;
    for _ in 0..5 {
        world.page(&iterator).await;
    }
    let sixth = world.kinesis.get_records().shard_iterator(&iterator);
    assert_eq!(
        code(sixth.send().await),
        "ProvisionedThroughputExceededException"
    );
    world.advance(1000);
    world.page(&iterator).await;
}
