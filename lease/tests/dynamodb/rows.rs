//! Rows as others write them: every kind in one table, older formats, and nonsense.

use std::{collections::BTreeSet, time::Duration};

use checkpoint::Position;
use lease::{
    Assign, Consistency, DynamoTable, Lease, LeaseKey, Renew, Seize, ShardId, StreamId, Table,
    TableError, View, WorkerId, WorkerRow, Write,
};
use serde_json::{Value, json};

use crate::fixture::{Dynamo, key_of};

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
async fn nonsense_is_reported_by_name_and_hides_nothing() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("nonsense").await;
    dynamo.put("nonsense", &old_row("good"));
    let mut wrong = vec![
        (
            "`leaseCounter` is of type S, not N",
            with("", "leaseCounter", json!({"S": "12"})),
        ),
        (
            "`leaseCounter`: -1 is negative",
            with("", "leaseCounter", json!({"N": "-1"})),
        ),
        (
            "`leaseCounter`: 1.5: invalid digit",
            with("", "leaseCounter", json!({"N": "1.5"})),
        ),
        (
            "`leaseCounter`: 9223372036854775808: number too large",
            with("", "leaseCounter", json!({"N": "9223372036854775808"})),
        ),
        (
            "`checkpoint`: checkpoint \"bogus\" is neither",
            with("", "checkpoint", json!({"S": "bogus"})),
        ),
        (
            "`checkpoint` is of type N, not S",
            with("", "checkpoint", json!({"N": "420"})),
        ),
        (
            "`checkpoint`: is an empty string",
            with("", "checkpoint", json!({"S": ""})),
        ),
        (
            "`checkpointSubSequenceNumber`: sub-sequence number \"-2\"",
            with("", "checkpointSubSequenceNumber", json!({"N": "-2"})),
        ),
        (
            "`pendingCheckpoint`: checkpoint \"soon\"",
            with("", "pendingCheckpoint", json!({"S": "soon"})),
        ),
        (
            "`parentShardId` is of type L, not SS",
            with("", "parentShardId", json!({"L": [{"S": "p"}]})),
        ),
        (
            "`childShardIds` is of type S, not SS",
            with("", "childShardIds", json!({"S": "c"})),
        ),
        (
            "`checkpointOwner` is of type NULL, not S",
            with("", "checkpointOwner", json!({"NULL": true})),
        ),
        (
            "`throughputKBps` is of type BOOL, not N",
            with("", "throughputKBps", json!({"BOOL": true})),
        ),
        (
            "`startingHashKey`: hash key \"0x1\" is not a decimal number",
            with("", "startingHashKey", json!({"S": "0x1"})),
        ),
        (
            "`streamName` is of type M, not S",
            with("", "streamName", json!({"M": {}})),
        ),
        (
            "`leaseKey`: does not fit stream 1:other:1 and shard",
            with("", "streamName", json!({"S": "1:other:1"})),
        ),
        (
            "`skPinnedAt` is of type S, not N",
            with("", "skPinnedAt", json!({"S": "today"})),
        ),
        (
            "`entityType` is of type N, not S",
            with("", "entityType", json!({"N": "1"})),
        ),
        (
            "`lut` is missing",
            with("", "entityType", json!({"S": "WORKER_METRIC_STATS"})),
        ),
        (
            "`leaseDuration` is missing",
            with("", "entityType", json!({"S": "LEADER"})),
        ),
    ];
    let mut upside_down = with("", "startingHashKey", json!({"S": "6"}));
    upside_down["endingHashKey"] = json!({"S": "5"});
    wrong.push(("`startingHashKey`: 6 is above endingHashKey 5", upside_down));
    let mut no_counter = old_row("");
    no_counter
        .as_object_mut()
        .expect("a row")
        .remove("leaseCounter");
    wrong.push(("`leaseCounter` is missing", no_counter));
    let mut no_checkpoint = old_row("");
    no_checkpoint
        .as_object_mut()
        .expect("a row")
        .remove("checkpoint");
    wrong.push(("`checkpoint` is missing", no_checkpoint));
    for (number, (_, row)) in wrong.iter_mut().enumerate() {
        row["leaseKey"] = json!({"S": format!("wrong-{number:02}")});
        dynamo.put("nonsense", row);
    }

    let view = view(&table).await;
    assert_eq!(view.leases.len(), 1, "the good one");
    assert_eq!(view.unreadable.len(), wrong.len());
    for ((expected, row), unreadable) in wrong.iter().zip(&view.unreadable) {
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
