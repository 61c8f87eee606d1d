//! CBOR as the Java SDK writes and reads it: what each kind of value looks like on the wire.

use super::encode::{blob, contains, head, indefinite_map, map, text, text_member};
use super::{Answer, CBOR, call};
use crate::world::{T0, World, shard, start};
use hyper::StatusCode;
use shardkeeper::local::model::ModelOptions;

const DATA: &[u8] = &[0, 0xFF, 1];
const KEY: &str = "k\"é";

/// A stream `s` that was made in CBOR, and two records that were put in CBOR.
async fn two_records() -> World {
    let world = start(ModelOptions::default()).await;
    let create = map(&[("StreamName", text("s")), ("ShardCount", vec![1])]);
    let created = call(&world, CBOR, "CreateStream", create).await;
    assert_eq!(
        (
            created.status,
            created.content_type.as_str(),
            created.body.len()
        ),
        (StatusCode::OK, CBOR, 0)
    );

    // Indefinite lengths, and a list within, as the Java SDK writes them.
    let record = indefinite_map(&[("Data", blob(DATA)), ("PartitionKey", text(KEY))]);
    let records = [&[0x9F][..], &record, &record, &[0xFF]].concat();
    let put = indefinite_map(&[("Records", records), ("StreamName", text("s"))]);
    let put = call(&world, CBOR, "PutRecords", put).await;
    assert_eq!(put.status, StatusCode::OK);
    assert!(contains(
        &put.body,
        &[&text("FailedRecordCount")[..], &[0]].concat()
    ));
    world
}

/// A timestamp: tag 1 and a whole number, which counts milliseconds in this service.
fn timestamp(millis: i64) -> Vec<u8> {
    [&[0xC1, 0x1B][..], &millis.to_be_bytes()].concat()
}

/// An iterator of the first shard of `s`.
async fn iterator(world: &World, kind: &str, further: &[(&str, Vec<u8>)]) -> String {
    let members = [
        ("StreamName", text("s")),
        ("ShardId", text(&shard(0))),
        ("ShardIteratorType", text(kind)),
    ];
    let request = map(&[&members, further].concat());
    let answer = call(world, CBOR, "GetShardIterator", request).await;
    text_member(&answer.body, "ShardIterator")
}

async fn page(world: &World, iterator: &str) -> Answer {
    let request = map(&[("ShardIterator", text(iterator)), ("Limit", vec![1])]);
    call(world, CBOR, "GetRecords", request).await
}

#[tokio::test]
async fn records_are_read_as_they_were_put() {
    let world = two_records().await;
    let page = page(&world, &iterator(&world, "TRIM_HORIZON", &[]).await).await;
    assert_eq!(
        (page.status, page.content_type.as_str()),
        (StatusCode::OK, CBOR)
    );
    let data = [&text("Data")[..], &blob(DATA)].concat();
    assert!(contains(&page.body, &data), "blobs are byte strings");
    assert!(contains(&page.body, &text(KEY)));
    let arrival = [&text("ApproximateArrivalTimestamp")[..], &timestamp(T0)].concat();
    assert!(
        contains(&page.body, &arrival),
        "timestamps are tag 1 and whole milliseconds"
    );
    let number = text_member(&page.body, "SequenceNumber");
    assert_eq!(number.len(), 56);

    // The same record by the other protocol.
    let sdk = world.page(&world.trim_horizon("s", 0).await).await;
    assert_eq!(
        (
            sdk.records[0].data.as_ref(),
            sdk.records[0].sequence_number.as_str()
        ),
        (DATA, number.as_str())
    );
}

#[tokio::test]
async fn a_timestamp_in_a_request_counts_milliseconds() {
    let world = two_records().await;
    world.advance(1000);
    // At the first time both records are there, a millisecond later none.
    for (at, expect) in [(T0, true), (T0 + 1, false)] {
        let from = [("Timestamp", timestamp(at))];
        let page = page(&world, &iterator(&world, "AT_TIMESTAMP", &from).await).await;
        assert_eq!(contains(&page.body, &text("Data")), expect, "at {at}");
    }
}

#[tokio::test]
async fn shard_end_is_told_in_cbor() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    world.split("s", 0, 5).await.expect("split");
    let page = page(&world, &world.trim_horizon("s", 0).await).await;
    assert!(!contains(&page.body, &text("NextShardIterator")));
    let child = map(&[
        ("ShardId", text(&shard(1))),
        ("ParentShards", [head(4, 1), text(&shard(0))].concat()),
        (
            "HashKeyRange",
            map(&[("StartingHashKey", text("0")), ("EndingHashKey", text("4"))]),
        ),
    ]);
    assert!(contains(
        &page.body,
        &[&text("ChildShards")[..], &head(4, 2), &child].concat()
    ));
}
