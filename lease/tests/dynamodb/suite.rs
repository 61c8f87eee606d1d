//! What every [`Table`] must do, whichever it is: all writes, in all states a row can be in.

mod every_write;
mod others;
mod story;

use checkpoint::Position;
use lease::{LeaseKey, MemoryTable, Seize, Session, Table, WorkerId};

use crate::fixture::Dynamo;

#[tokio::test]
async fn the_table_in_memory() {
    suite(&MemoryTable::new()).await;
}

#[tokio::test]
async fn the_table_in_dynamodb() {
    let dynamo = Dynamo::start().await;
    suite(&dynamo.table("suite").await).await;
}

/// Runs the whole suite on a table without rows.
async fn suite<T: Table>(table: &T) {
    every_write::in_every_state(table).await;
    every_write::rows_hold_everything(table).await;
    story::of_a_row(table).await;
    others::lock_protocol(table).await;
    others::worker_rows(table).await;
}

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name)
}

fn position(text: &str) -> Position {
    text.parse().expect("a position")
}

fn seize(key: &LeaseKey, me: &str, seen_counter: u64, pin: Option<i64>) -> Seize {
    Seize {
        key: key.clone(),
        me: worker(me),
        session: Session::from("this run"),
        seen_counter,
        pin,
    }
}
