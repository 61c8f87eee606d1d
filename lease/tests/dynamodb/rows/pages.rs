//! Tables too large for one answer.

use serde_json::json;

use super::{old_row, view, with};
use crate::fixture::Dynamo;

/// A page of a Scan is one mebibyte; rows this large make several of few.
#[tokio::test]
async fn a_list_reads_every_page() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("pages").await;
    for number in 0..8 {
        let large = json!({"S": "x".repeat(300_000)});
        dynamo.put("pages", &with(&format!("shard-{number}"), "notes", large));
    }
    let first_page = dynamo
        .call("Scan", json!({"TableName": "pages"}))
        .expect("a page");
    assert!(
        first_page["LastEvaluatedKey"].is_object(),
        "one page holds them all"
    );
    assert_eq!(view(&table).await.leases.len(), 8);
}

/// After a list of a large table the next one reads it in several segments: together they are the table.
#[tokio::test]
async fn a_large_table_is_read_in_segments() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("segments").await;
    let rows = 4_500;
    for number in 0..rows {
        dynamo.put("segments", &old_row(&format!("shard-{number:05}")));
    }
    let first = view(&table).await;
    let second = view(&table).await;
    assert_eq!(first.leases.len(), rows);
    assert_eq!(first, second);
}
