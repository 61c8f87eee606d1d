//! Rows as others write them: older formats, and every kind in one table.

use std::{collections::BTreeSet, time::Duration};

use checkpoint::Position;
use lease::{
    Assign, Consistency, DynamoTable, Lease, LeaseKey, Renew, Seize, ShardId, StreamId, Table,
    TableError, View, WorkerId, WorkerRow, Write,
};
use serde_json::{Value, json};

use crate::fixture::Dynamo;

mod nonsense;
mod pages;

const STREAM: &str = "123456789012:orders:1690000000";

async fn view(table: &DynamoTable) -> View {
    table.list(Consistency::Strong).await.expect("a list")
}

/// A row as KCL 2.x wrote it: no type, no optional attribute.
fn old_row(key: &str) -> Value {
    json!({
        "leaseKey": {"S": key},
        "leaseCounter": {"N": "12"},
        "checkpoint": {"S": "00420"},
    })
}

/// The old row with one attribute as given.
fn with(key: &str, name: &str, value: Value) -> Value {
    let mut row = old_row(key);
    row[name] = value;
    row
}

#[tokio::test]
async fn absent_attributes_have_defaults() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("old").await;
    dynamo.put("old", &old_row("shardId-000000000000"));
    let mut expected = Lease::new(
        None,
        "shardId-000000000000".into(),
        "00420/0".parse().expect("a position"),
    );
    expected.counter = 12;
    assert_eq!(view(&table).await.leases, [expected.clone()]);

    // One end of a range alone tells nothing; the mark of an heir counts only while it is one.
    let mut row = old_row("shardId-000000000000");
    row["startingHashKey"] = json!({"S": "5"});
    row["skHeirReady"] = json!({"S": "b"});
    row["leaseOwner"] = json!({"S": "b"});
    dynamo.put("old", &row);
    expected.owner = Some("b".into());
    assert_eq!(view(&table).await.leases, [expected.clone()]);
    row["checkpointOwner"] = json!({"S": "a"});
    dynamo.put("old", &row);
    expected.checkpoint_owner = Some("a".into());
    expected.heir_ready = true;
    assert_eq!(view(&table).await.leases, [expected]);
}

#[tokio::test]
async fn the_stream_comes_from_attributes_or_from_the_key() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("streams").await;
    let key = format!("{STREAM}:shardId-000000000001");
    let mut row = old_row(&key);
    for attributes in [
        json!({}),
        json!({"streamName": {"S": STREAM}, "shardId": {"S": "shardId-000000000001"}}),
    ] {
        for (name, value) in attributes.as_object().expect("attributes") {
            row[name] = value.clone();
        }
        dynamo.put("streams", &row);
        let lease = view(&table).await.leases.remove(0);
        assert_eq!(lease.stream, Some(StreamId::from(STREAM)));
        assert_eq!(lease.shard, ShardId::from("shardId-000000000001"));
    }
    // A key with colons that is none of several streams is a shard id of its own.
    dynamo.put("streams", &old_row("not:a:stream:shard"));
    let lease = table.get(&"not:a:stream:shard".into()).await;
    let lease = lease.expect("an answer").expect("a row");
    assert_eq!(
        (lease.stream, lease.shard.as_str()),
        (None, "not:a:stream:shard")
    );
}

#[tokio::test]
async fn rows_of_other_kinds_are_no_leases() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("kinds").await;
    let entity = |key: &str, kind: &str| with(key, "entityType", json!({"S": kind}));
    for row in [
        entity("Migration3.0", "CLIENT_VERSION_MIGRATION"),
        entity("TableMigration3.5", "TABLE_MIGRATION"),
        entity("orders", "STREAM"),
        entity("shardId-000000000009", "OF_A_LATER_KCL"),
        json!({"leaseKey": {"S": "Migration3.0"}, "cv": {"S": "CLIENT_VERSION_2X"}}),
        json!({"leaseKey": {"S": "TableMigration3.5"}, "tm": {"S": "TABLE_MIGRATION_STATUS_INIT"}}),
        json!({"leaseKey": {"S": "Leader"}, "ownerName": {"S": "w"}, "leaseDuration": {"S": "120000"},
               "recordVersionNumber": {"S": "v"}, "isReleased": {"S": "1"}}),
        json!({"leaseKey": {"S": "w"}, "entityType": {"S": "WORKER_METRIC_STATS"}, "lut": {"N": "17"}}),
    ] {
        dynamo.put("kinds", &row);
    }
    let view = view(&table).await;
    assert_eq!((view.leases, view.unreadable), (vec![], vec![]));
    let lock = view.lock.expect("a lock without a type is one");
    assert!(lock.released);
    assert_eq!(
        (lock.owner.as_str(), lock.duration),
        ("w", Duration::from_secs(120))
    );
    assert_eq!(view.workers.len(), 1);

    // Asked for as a lease, such a row is refused rather than misread.
    let answer = table.get(&"orders".into()).await;
    assert_eq!(
        answer,
        Err(TableError::Unreadable(
            "orders: the row is no lease but of type STREAM".to_owned()
        ))
    );
    let create = Write::Create(Box::new(Lease::new(
        None,
        "orders".into(),
        Position::Latest,
    )));
    assert!(matches!(
        table.write(&create).await,
        Err(TableError::Unreadable(_))
    ));
}

#[tokio::test]
async fn a_worker_never_writes_over_another_row() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("collide").await;
    dynamo.put("collide", &old_row("shardId-000000000000"));
    dynamo.put(
        "collide",
        &with("Leader", "entityType", json!({"S": "LEADER"})),
    );
    let before = dynamo.rows("collide");
    for id in ["shardId-000000000000", "Leader"] {
        let row = WorkerRow {
            id: WorkerId::from(id),
            updated: 12,
            every: None,
            leaving: false,
        };
        let Err(TableError::Refused(why)) = table.put_worker(&row).await else {
            panic!("{id} was written over");
        };
        assert!(why.contains(id), "{why}");
        assert!(table.remove_worker(&row.id, 12).await.is_err());
    }
    // Not even a row that has everything but the type.
    let mut look_alike = with("orders", "entityType", json!({"S": "STREAM"}));
    look_alike["lut"] = json!({"N": "12"});
    dynamo.put("collide", &look_alike);
    let answer = table.remove_worker(&"orders".into(), 12).await;
    assert_eq!(answer, Err(TableError::Changed(None)));
    dynamo.row("collide", "orders").expect("it is still there");
    let mut after = dynamo.rows("collide");
    after.remove("orders");
    assert_eq!(after, before);
}

/// A Java worker that ends a hand-over leaves our mark behind. It must not make the next heir look awake.
#[tokio::test]
async fn the_mark_of_an_heir_ends_with_its_hand_over() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("marks").await;
    let key = LeaseKey::from("s");
    let mut left = with("s", "skHeirReady", json!({"S": "b"}));
    left["leaseOwner"] = json!({"S": "a"});
    let hand_off = Write::HandOff {
        key: key.clone(),
        from: "a".into(),
        to: "b".into(),
    };
    dynamo.put("marks", &left);
    let row = table
        .write(&hand_off)
        .await
        .expect("it holds")
        .expect("a row");
    assert!(row.handing_over() && !row.heir_ready);

    left["leaseOwner"] = json!({"S": "b"});
    let seize = Seize {
        key: key.clone(),
        me: "b".into(),
        session: "run".into(),
        seen_counter: 12,
        pin: None,
    };
    let assign = Write::Assign(Assign {
        key: key.clone(),
        to: "c".into(),
        owner: Some("b".into()),
        checkpoint_owner: None,
        counter: 12,
    });
    let take = Write::Take {
        seize: seize.clone(),
        owner: Some("b".into()),
    };
    for write in [Write::Acquire(seize), take, assign] {
        dynamo.put("marks", &left);
        table.write(&write).await.expect("it holds");
        let row = dynamo.row("marks", "s").expect("a row");
        assert_eq!(row.get("skHeirReady"), None, "after {write}");
    }
}

#[tokio::test]
async fn a_measurement_that_is_no_number_does_not_cost_the_lease() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("throughput").await;
    let mut lease = Lease::new(None, "s".into(), Position::Latest);
    lease.owner = Some("a".into());
    table
        .write(&Write::Create(Box::new(lease)))
        .await
        .expect("a row");
    let mut stored = None;
    for (counter, (kbps, expected)) in [
        (f64::NAN, None),
        (f64::INFINITY, None),
        (1.0 / 3.0, Some(0.333333)),
        (f64::NAN, Some(0.333333)),
        (-1.0, Some(0.0)),
        (f64::MAX, Some(1e15)),
    ]
    .into_iter()
    .enumerate()
    {
        let renew = Write::Renew(Renew {
            key: "s".into(),
            me: "a".into(),
            counter: counter as u64,
            handing_over: false,
            checkpoint: None,
            children: BTreeSet::new(),
            throughput_kbps: Some(kbps),
        });
        let row = table
            .write(&renew)
            .await
            .expect("a renewal")
            .expect("a row");
        assert_eq!(row.throughput_kbps, expected, "after {kbps}");
        stored = dynamo.row("throughput", "s");
    }
    assert_eq!(
        stored.expect("a row")["throughputKBps"],
        json!({"N": "1000000000000000"})
    );
}
