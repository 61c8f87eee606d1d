//! Both tables do the same, and what [`lease::write`] says.

#[path = "support/suite.rs"]
mod suite;
mod support;

use lease::MemoryTable;
use support::Dynamo;

#[tokio::test]
async fn the_table_in_memory() {
    suite::suite(&MemoryTable::new()).await;
}

#[tokio::test]
async fn the_table_in_dynamodb() {
    let dynamo = Dynamo::start().await;
    suite::suite(&dynamo.table("suite").await).await;
}
