//! Rows that make no sense: reported by name, while all others are read.

use lease::{LeaseKey, Table, TableError};
use serde_json::Value;

use super::{old_row, view};
use crate::fixture::{Dynamo, key_of};

/// What is different in a row that is good otherwise (`null` is an attribute that is not there), and how the reason begins.
const WRONG: [&str; 23] = [
    // The counter.
    r#"{"leaseCounter": null} => `leaseCounter` is missing"#,
    r#"{"leaseCounter": {"S": "12"}} => `leaseCounter` is of type S, not N"#,
    r#"{"leaseCounter": {"N": "-1"}} => `leaseCounter`: -1 is negative"#,
    r#"{"leaseCounter": {"N": "1.5"}} => `leaseCounter`: 1.5: invalid digit"#,
    r#"{"leaseCounter": {"N": "9223372036854775808"}} => `leaseCounter`: 9223372036854775808: number too large"#,
    // Positions.
    r#"{"checkpoint": null} => `checkpoint` is missing"#,
    r#"{"checkpoint": {"S": "bogus"}} => `checkpoint`: checkpoint "bogus" is neither"#,
    r#"{"checkpoint": {"N": "420"}} => `checkpoint` is of type N, not S"#,
    r#"{"checkpoint": {"S": ""}} => `checkpoint`: is an empty string"#,
    r#"{"checkpointSubSequenceNumber": {"N": "-2"}} => `checkpointSubSequenceNumber`: sub-sequence number "-2""#,
    r#"{"pendingCheckpoint": {"S": "soon"}} => `pendingCheckpoint`: checkpoint "soon""#,
    r#"{"skPinnedAt": {"S": "today"}} => `skPinnedAt` is of type S, not N"#,
    // Family, range, owners.
    r#"{"parentShardId": {"L": [{"S": "p"}]}} => `parentShardId` is of type L, not SS"#,
    r#"{"childShardIds": {"S": "c"}} => `childShardIds` is of type S, not SS"#,
    r#"{"startingHashKey": {"S": "0x1"}} => `startingHashKey`: hash key "0x1" is not a decimal number"#,
    r#"{"startingHashKey": {"S": "6"}, "endingHashKey": {"S": "5"}} => `startingHashKey`: 6 is above endingHashKey 5"#,
    r#"{"checkpointOwner": {"NULL": true}} => `checkpointOwner` is of type NULL, not S"#,
    r#"{"throughputKBps": {"BOOL": true}} => `throughputKBps` is of type BOOL, not N"#,
    // What it is a row of.
    r#"{"streamName": {"M": {}}} => `streamName` is of type M, not S"#,
    r#"{"streamName": {"S": "1:other:1"}} => `leaseKey`: does not fit stream 1:other:1 and shard"#,
    r#"{"entityType": {"N": "1"}} => `entityType` is of type N, not S"#,
    r#"{"entityType": {"S": "WORKER_METRIC_STATS"}} => `lut` is missing"#,
    r#"{"entityType": {"S": "LEADER"}} => `leaseDuration` is missing"#,
];

/// The good row with these differences.
fn row(key: &str, differences: &str) -> Value {
    let mut row = old_row(key);
    let differences: Value = serde_json::from_str(differences).expect("JSON");
    for (name, value) in differences.as_object().expect("attributes") {
        if value.is_null() {
            row.as_object_mut().expect("a row").remove(name);
        } else {
            row[name] = value.clone();
        }
    }
    row
}

#[tokio::test]
async fn nonsense_is_reported_by_name_and_hides_nothing() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("nonsense").await;
    dynamo.put("nonsense", &old_row("good"));
    let wrong: Vec<(Value, &str)> = WRONG
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let (differences, reason) = case.split_once(" => ").expect("two parts");
            (row(&format!("wrong-{number:02}"), differences), reason)
        })
        .collect();
    for (row, _) in &wrong {
        dynamo.put("nonsense", row);
    }

    let view = view(&table).await;
    assert_eq!(view.leases.len(), 1, "the good one");
    assert_eq!(view.unreadable.len(), wrong.len());
    for ((row, expected), unreadable) in wrong.iter().zip(&view.unreadable) {
        assert_eq!(unreadable.key, key_of(row));
        assert!(
            unreadable.reason.starts_with(expected),
            "{unreadable:?}, expected {expected}"
        );
        let answer = table.get(&LeaseKey::from(key_of(row))).await;
        assert!(
            matches!(answer, Err(TableError::Unreadable(_))),
            "{answer:?}"
        );
    }
}
