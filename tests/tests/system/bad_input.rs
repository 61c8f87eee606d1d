//! Input that is wrong: a clear word, and nothing lost.

use std::time::Duration;

use bytes::Bytes;
use shardkeeper::{clock::system_wall, local::model::PutEntry};

use shardkeeper_tests::processes::Kind;

/// An aggregate whose second item names a key that is not there (golden vector `pk-oob`).
const POISONED: &[u8] = &[
    0xf3, 0x89, 0x9a, 0xc2, 0x0a, 0x01, 0x61, 0x1a, 0x06, 0x08, 0x00, 0x1a, 0x02, 0x72, 0x30, 0x1a,
    0x06, 0x08, 0x07, 0x1a, 0x02, 0x72, 0x31, 0x1a, 0x06, 0x08, 0x00, 0x1a, 0x02, 0x72, 0x32, 0x41,
    0x75, 0xb7, 0xe9, 0xea, 0x25, 0xc2, 0x40, 0xf4, 0xa2, 0xc7, 0x76, 0x1d, 0xc9, 0x7f, 0xeb,
];

#[test]
fn malformed_aggregates_pass_through_or_keep_their_good_part() {
    let mut world = crate::world("malformed", 1);
    let mut broken = POISONED.to_vec();
    *broken.last_mut().expect("not empty") ^= 1;
    for data in [&b"before"[..], POISONED, &broken, b"after"] {
        world
            .aws
            .kinesis()
            .lock()
            .put_record(
                "orders",
                &PutEntry::new("key", Bytes::copy_from_slice(data)),
                system_wall(),
            )
            .expect("the shard is open");
    }
    world.start("one", &[]);
    world.until("all four", Duration::from_secs(10), |world| {
        world.deliveries.len() >= 4
    });
    let data: Vec<&str> = world
        .deliveries
        .iter()
        .map(|delivery| delivery.data.as_str())
        .collect();
    // The wrong digest makes it a plain record; it is not UTF-8, so its `data` is absent and `data_base64` there.
    assert_eq!(data, ["before", "r0", "", "after"]);
}

#[test]
fn a_row_with_nonsense_in_it_is_reported_and_left_alone_while_the_others_are_read() {
    let mut world = crate::world("nonsense", 2);
    world.produce(Kind::Mixed);
    world.start("one", &[]);
    world.until("deliveries", Duration::from_secs(10), |world| {
        world.deliveries.len() > 10
    });
    world.signal("one", rustix::process::Signal::TERM);
    world.wait("one", Duration::from_secs(10));
    let client = world.dynamodb();
    let bogus = aws_sdk_dynamodb::types::AttributeValue::S("bogus".into());
    world
        .runtime
        .block_on(
            client
                .update_item()
                .table_name("orders-app")
                .key(
                    "leaseKey",
                    aws_sdk_dynamodb::types::AttributeValue::S("shardId-000000000000".into()),
                )
                .update_expression("SET checkpoint = :bogus")
                .expression_attribute_values(":bogus", bogus)
                .send(),
        )
        .expect("the row is there");
    let before = world.deliveries.len();
    world.start("two", &[]);
    world.until("the other shard", Duration::from_secs(10), |world| {
        world.deliveries[before..]
            .iter()
            .any(|delivery| delivery.worker == "two" && delivery.shard == "shardId-000000000001")
    });
    let log = world.log("two");
    assert!(
        log.contains("shardId-000000000000") && log.contains("checkpoint"),
        "{log}"
    );
    assert!(
        !world.deliveries.iter().any(|delivery| {
            delivery.worker == "two" && delivery.shard == "shardId-000000000000"
        })
    );
}
