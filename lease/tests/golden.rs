//! Rows and requests recorded from the Java KCL 3.5.1 (`data/README.md`).
//!
//! Rows are read and written back. Requests are replayed: the recorded one on one table, ours on another that starts
//! from the same row; both must leave the same row, and where the KCL's is refused ours must be refused, too.

mod support;

use std::{collections::BTreeSet, time::Duration};

use checkpoint::Position;
use lease::{
    Assign, Consistency, DynamoTable, Lease, LockWrite, Renew, Seize, Session, Table, TableError,
    WorkerRow, Write,
};
use serde_json::{Value, json};
use support::{Dynamo, key_of};

const KCL: &str = "orders-app";
const OURS: &str = "ours";

fn moments() -> Vec<Value> {
    serde_json::from_str(include_str!("data/kcl-3.5.1-table.json")).expect("recorded JSON")
}

fn rows_of(moment: &Value) -> &Vec<Value> {
    moment["items"].as_array().expect("recorded rows")
}

/// The first recorded request of an operation that has this member, by JSON pointer.
fn recorded(operation: &str, has: &[&str], has_not: &[&str]) -> Value {
    let calls: Vec<Value> =
        serde_json::from_str(include_str!("data/kcl-3.5.1-calls.json")).expect("recorded JSON");
    calls
        .iter()
        .filter(|call| call["operation"] == operation)
        .map(|call| &call["examples"][0])
        .find(|request| {
            has.iter().all(|pointer| request.pointer(pointer).is_some())
                && has_not
                    .iter()
                    .all(|pointer| request.pointer(pointer).is_none())
        })
        .unwrap_or_else(|| panic!("no {operation} with {has:?} was recorded"))
        .clone()
}

#[tokio::test]
async fn every_recorded_row_is_read_and_written_back() {
    for (number, moment) in moments().iter().enumerate() {
        let dynamo = Dynamo::start().await;
        let theirs = dynamo.table(KCL).await;
        let ours = dynamo.table(OURS).await;
        for row in rows_of(moment) {
            dynamo.put(KCL, row);
        }
        let view = theirs.list(Consistency::Strong).await.expect("a list");
        assert_eq!(view.unreadable, []);
        assert_eq!(view.leases.len(), 4);
        assert_eq!(view.workers.len(), if number < 2 { 1 } else { 2 });

        for lease in view.leases {
            let made = ours.write(&Write::Create(Box::new(lease.clone()))).await;
            assert_eq!(made, Ok(Some(lease)));
        }
        let lock = view.lock.expect("a leader");
        let acquire = LockWrite::Acquire {
            me: lock.owner.clone(),
            version: lock.version.clone(),
            duration: lock.duration,
            seen: None,
        };
        assert_eq!(ours.lock(&acquire).await, Ok(Some(lock)));
        let mut expected = dynamo.rows(KCL);
        expected.remove("Migration3.0").expect("it was recorded");
        for worker in &view.workers {
            ours.put_worker(worker).await.expect("a put");
            // We measure no CPU, and say so: maps without a metric.
            let row = expected.get_mut(worker.id.as_str()).expect("a worker");
            for maps in ["sts", "opr"] {
                row[maps] = json!({"M": {}});
            }
        }
        assert_eq!(dynamo.rows(OURS), expected);
    }
}

/// An update changes what it must and nothing else, in rows with attributes of a KCL we do not know.
#[tokio::test]
async fn updates_keep_what_they_do_not_know() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table(KCL).await;
    let mut put = 0;
    for row in rows_of(&moments()[2]) {
        let mut row = row.clone();
        row["ofTheFuture"] = json!({"M": {"a": {"L": [{"N": "1"}, {"NULL": true}]}}});
        dynamo.put(KCL, &row);
        put += 1;
    }
    assert_eq!(put, 8);
    let mut expected = dynamo.rows(KCL);
    let view = table.list(Consistency::Strong).await.expect("a list");
    for lease in view.leases {
        let me = lease.owner.clone().expect("all are owned");
        let renew = Renew {
            checkpoint: Some(Position::ShardEnd),
            ..renewal(&lease, me.as_str())
        };
        table.write(&Write::Renew(renew)).await.expect("a renewal");
        let row = expected.get_mut(lease.key.as_str()).expect("a lease");
        row["leaseCounter"] = json!({"N": (lease.counter + 1).to_string()});
        row["checkpoint"] = json!({"S": "SHARD_END"});
        row["checkpointSubSequenceNumber"] = json!({"N": "0"});
    }
    for mut worker in view.workers {
        worker.updated += 30;
        worker.leaving = true;
        table.put_worker(&worker).await.expect("a put");
        let row = expected.get_mut(worker.id.as_str()).expect("a worker");
        for (name, value) in [
            ("lut", json!({"N": worker.updated.to_string()})),
            ("slu", json!({"N": worker.updated.to_string()})),
            ("sts", json!({"M": {}})),
            ("opr", json!({"M": {}})),
            ("skLeaving", json!({"BOOL": true})),
        ] {
            row[name] = value;
        }
    }
    assert_eq!(dynamo.rows(KCL), expected);
}

/// A recorded request, ours, and the row from which both start.
struct Pair {
    name: &'static str,
    operation: &'static str,
    recorded: Value,
    ours: Write,
    start: Option<Value>,
    /// Disturbances of the row that stop ours and not the KCL's.
    stricter: &'static [&'static str],
}

/// What may have happened to a row before a request arrives.
const DISTURBANCES: [&str; 5] = [
    "row removed",
    "counter raised",
    "other owner",
    "other checkpoint owner",
    "hand-over ended",
];

fn disturbed(row: &Option<Value>, how: &str) -> Option<Value> {
    let mut row = row.clone()?;
    match how {
        "row removed" => return None,
        "counter raised" => {
            let counter = text(&row, "/leaseCounter/N")
                .parse::<u64>()
                .expect("a number");
            row["leaseCounter"] = json!({"N": (counter + 1).to_string()});
        }
        "other owner" => row["leaseOwner"] = json!({"S": "worker-9"}),
        "other checkpoint owner" => row["checkpointOwner"] = json!({"S": "worker-9"}),
        "hand-over ended" => {
            row.as_object_mut()
                .expect("a row")
                .remove("checkpointOwner");
        }
        other => panic!("{other}"),
    }
    Some(row)
}

/// A recorded row of the lease that a request is about, as it was when the request was sent.
fn start_of(request: &Value, owner: Option<&str>, checkpoint_owner: Option<&str>) -> Value {
    let moments = moments();
    let key = &request["Key"]["leaseKey"]["S"];
    let rows = rows_of(&moments[1]).iter();
    let mut row = rows
        .filter(|row| row["leaseKey"]["S"] == *key)
        .cloned()
        .next()
        .expect("a recorded row");
    if let Some(counter) = request.pointer("/Expected/leaseCounter/Value") {
        row["leaseCounter"] = counter.clone();
    }
    // The KCL writes the range again with each checkpoint; it never differs from the row's.
    for (name, owner) in [("leaseOwner", owner), ("checkpointOwner", checkpoint_owner)] {
        match owner {
            Some(owner) => row[name] = json!({"S": owner}),
            None => {
                row.as_object_mut().expect("a row").remove(name);
            }
        }
    }
    row
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn renewal(lease: &Lease, me: &str) -> Renew {
    Renew {
        key: lease.key.clone(),
        me: me.into(),
        counter: lease.counter,
        handing_over: lease.handing_over(),
        checkpoint: None,
        children: BTreeSet::new(),
        throughput_kbps: None,
    }
}

fn throughput(request: &Value) -> Option<f64> {
    let digits = text(request, "/AttributeUpdates/throughputKBps/Value/N");
    Some(digits.parse().expect("a number"))
}

/// The lease as our worker reads it from a row.
async fn read(dynamo: &Dynamo, table: &DynamoTable, row: &Value) -> Lease {
    dynamo.put(table.name(), row);
    let lease = table.get(&key_of(row).into()).await;
    lease.expect("a readable row").expect("a row")
}

async fn pairs(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let update = "UpdateItem";
    let mut pairs = Vec::new();

    let create = recorded("PutItem", &["/Item/checkpoint"], &[]);
    let lease = read(dynamo, table, &create["Item"]).await;
    pairs.push(Pair {
        name: "create",
        operation: "PutItem",
        ours: Write::Create(Box::new(lease)),
        start: None,
        recorded: create,
        stricter: &[],
    });

    let assign = recorded(
        update,
        &["/AttributeUpdates/leaseOwner"],
        &["/Expected/leaseOwner/Value"],
    );
    let start = start_of(&assign, None, None);
    let lease = read(dynamo, table, &start).await;
    pairs.push(Pair {
        name: "assign",
        operation: update,
        ours: Write::Assign(Assign {
            key: lease.key,
            to: text(&assign, "/AttributeUpdates/leaseOwner/Value/S").into(),
            owner: None,
            checkpoint_owner: None,
            counter: lease.counter,
        }),
        start: Some(start),
        recorded: assign,
        stricter: &["counter raised"],
    });

    let renew = recorded(
        update,
        &["/Expected/checkpointOwner", "/Expected/leaseCounter"],
        &["/AttributeUpdates/throughputKBps"],
    );
    let start = start_of(&renew, Some("worker-1"), None);
    let lease = read(dynamo, table, &start).await;
    pairs.push(Pair {
        name: "renew",
        operation: update,
        ours: Write::Renew(renewal(&lease, "worker-1")),
        start: Some(start),
        recorded: renew,
        stricter: &["other owner"],
    });

    let renew = recorded(
        update,
        &[
            "/Expected/checkpointOwner",
            "/AttributeUpdates/throughputKBps",
        ],
        &[],
    );
    let start = start_of(&renew, Some("worker-1"), None);
    let lease = read(dynamo, table, &start).await;
    pairs.push(Pair {
        name: "renew with throughput",
        operation: update,
        ours: Write::Renew(Renew {
            throughput_kbps: throughput(&renew),
            ..renewal(&lease, "worker-1")
        }),
        start: Some(start),
        recorded: renew,
        stricter: &["other owner"],
    });

    pairs.extend(checkpoint(dynamo, table).await);
    pairs.extend(hand_over(dynamo, table).await);
    pairs
}

/// The KCL stores a checkpoint without looking at the owners; the counter alone fences it.
async fn checkpoint(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let store = recorded("UpdateItem", &["/AttributeUpdates/checkpoint"], &[]);
    let mut start = start_of(&store, Some("worker-1"), None);
    start["ownerSwitchesSinceCheckpoint"] = json!({"N": "3"});
    start["pendingCheckpoint"] = json!({"S": "77"});
    start["pendingCheckpointSubSequenceNumber"] = json!({"N": "1"});
    start["pendingCheckpointState"] = json!({"B": "cHJlcGFyZWQ="});
    let lease = read(dynamo, table, &start).await;
    assert_eq!(
        lease.pending.as_ref().and_then(|p| p.state.as_deref()),
        Some(&b"prepared"[..])
    );
    let updates = &store["AttributeUpdates"];
    let sub_sequence = text(updates, "/checkpointSubSequenceNumber/Value/N");
    let position = Position::from_kcl(
        text(updates, "/checkpoint/Value/S"),
        Some(sub_sequence.parse().expect("a number")),
    );
    vec![Pair {
        name: "checkpoint",
        operation: "UpdateItem",
        ours: Write::Renew(Renew {
            checkpoint: Some(position.expect("a position")),
            ..renewal(&lease, "worker-1")
        }),
        start: Some(start),
        recorded: store,
        stricter: &["other owner", "other checkpoint owner"],
    }]
}

/// The three writes of a graceful hand-over: begin, renew meanwhile, end.
async fn hand_over(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let update = "UpdateItem";
    let begin = recorded(update, &["/AttributeUpdates/checkpointOwner/Value"], &[]);
    let start = start_of(&begin, Some("worker-1"), None);
    let lease = read(dynamo, table, &start).await;
    let begin = Pair {
        name: "hand off",
        operation: update,
        ours: Write::HandOff {
            key: lease.key,
            from: "worker-1".into(),
            to: "worker-2".into(),
        },
        start: Some(start),
        recorded: begin,
        stricter: &[],
    };

    let renew = recorded(
        update,
        &["/Expected/leaseCounter", "/AttributeUpdates/throughputKBps"],
        &["/Expected/checkpointOwner"],
    );
    let start = start_of(&renew, Some("worker-2"), Some("worker-1"));
    let lease = read(dynamo, table, &start).await;
    let renew = Pair {
        name: "renew in hand-over",
        operation: update,
        ours: Write::Renew(Renew {
            throughput_kbps: throughput(&renew),
            ..renewal(&lease, "worker-1")
        }),
        start: Some(start),
        recorded: renew,
        stricter: &["other checkpoint owner", "hand-over ended"],
    };

    let end = recorded(update, &["/Expected/checkpointOwner/Value"], &[]);
    let start = start_of(&end, Some("worker-2"), Some("worker-1"));
    let lease = read(dynamo, table, &start).await;
    let end = Pair {
        name: "complete",
        operation: update,
        ours: Write::Complete {
            renew: renewal(&lease, "worker-1"),
            to: "worker-2".into(),
        },
        start: Some(start),
        recorded: end,
        stricter: &["counter raised"],
    };
    vec![begin, renew, end]
}

#[tokio::test]
async fn our_writes_do_what_the_recorded_ones_did() {
    let dynamo = Dynamo::start().await;
    dynamo.table(KCL).await;
    let ours = dynamo.table(OURS).await;
    let scratch = dynamo.table("scratch").await;
    for pair in pairs(&dynamo, &scratch).await {
        let (theirs, mine) = both(&dynamo, &ours, &pair, &pair.start).await;
        assert!(theirs && mine, "{}: {theirs} {mine}", pair.name);
        let key = pair.ours.key().as_str();
        let row = dynamo.row(KCL, key);
        assert_eq!(dynamo.row(OURS, key), row, "after {}", pair.name);

        for how in DISTURBANCES {
            let row = disturbed(&pair.start, how);
            if row == pair.start {
                continue;
            }
            let (theirs, mine) = both(&dynamo, &ours, &pair, &row).await;
            let stricter = pair.stricter.contains(&how);
            assert_eq!(mine, theirs && !stricter, "{} with {how}", pair.name);
            assert!(
                theirs || !stricter,
                "{} with {how}: so is the KCL",
                pair.name
            );
            if mine {
                let row = dynamo.row(KCL, key);
                assert_eq!(dynamo.row(OURS, key), row, "{} with {how}", pair.name);
            }
        }
    }
}

/// Whether each of the two holds, both starting from `row`.
async fn both(
    dynamo: &Dynamo,
    ours: &DynamoTable,
    pair: &Pair,
    row: &Option<Value>,
) -> (bool, bool) {
    for name in [KCL, OURS] {
        let key = pair.ours.key().as_str();
        let key = json!({"TableName": name, "Key": {"leaseKey": {"S": key}}});
        dynamo.call("DeleteItem", key).expect("a removal");
        if let Some(row) = row {
            dynamo.put(name, row);
        }
    }
    let theirs = dynamo.call(pair.operation, pair.recorded.clone());
    if let Err(why) = &theirs {
        assert!(why.contains("conditional request failed"), "{why}");
    }
    let mine = ours.write(&pair.ours).await;
    assert!(
        matches!(mine, Ok(_) | Err(TableError::Changed(_))),
        "{}: {mine:?}",
        pair.name
    );
    (theirs.is_ok(), mine.is_ok())
}

/// A lock that our worker takes is one the KCL's heartbeat goes on from, and the other way round.
#[tokio::test]
async fn the_lock_is_the_recorded_one() {
    let dynamo = Dynamo::start().await;
    dynamo.table(KCL).await;
    let ours = dynamo.table(OURS).await;
    let acquire = recorded("PutItem", &["/Item/recordVersionNumber"], &[]);
    let heartbeat = recorded("UpdateItem", &["/ExpressionAttributeValues/:newRvn"], &[]);
    let me = text(&acquire, "/Item/ownerName/S");
    let version = text(&acquire, "/Item/recordVersionNumber/S");
    let duration = Duration::from_millis(120_000);
    let mine = LockWrite::Acquire {
        me: me.into(),
        version: version.to_owned(),
        duration,
        seen: None,
    };
    dynamo.call("PutItem", acquire.clone()).expect("a lock");
    ours.lock(&mine).await.expect("a lock");
    assert_eq!(dynamo.rows(OURS), dynamo.rows(KCL));
    assert!(dynamo.call("PutItem", acquire.clone()).is_err());
    assert!(ours.lock(&mine).await.is_err());

    let mine = LockWrite::Heartbeat {
        me: me.into(),
        version: version.to_owned(),
        next: text(&heartbeat, "/ExpressionAttributeValues/:newRvn/S").to_owned(),
        duration,
    };
    let mut crosswise = heartbeat.clone();
    crosswise["TableName"] = json!(OURS);
    dynamo
        .call("UpdateItem", heartbeat)
        .expect("their heartbeat on their lock");
    dynamo
        .call("UpdateItem", crosswise)
        .expect("their heartbeat on our lock");
    assert_eq!(dynamo.rows(OURS), dynamo.rows(KCL));
    assert!(ours.lock(&mine).await.is_err(), "the version has changed");
    ours.lock(&LockWrite::Release {
        me: me.into(),
        version: text(&dynamo.rows(OURS)["Leader"], "/recordVersionNumber/S").to_owned(),
    })
    .await
    .expect("a release");
    dynamo
        .call("PutItem", acquire)
        .expect_err("theirs is still held");
    assert_eq!(dynamo.row(OURS, "Leader"), None);
}

/// A worker's row is the recorded one but for the metrics, which we do not measure, and what is ours.
#[tokio::test]
async fn the_workers_row_is_the_recorded_one() {
    let dynamo = Dynamo::start().await;
    dynamo.table(KCL).await;
    let ours = dynamo.table(OURS).await;
    let report = recorded(
        "UpdateItem",
        &["/ExpressionAttributeValues/:AMZN_MAPPED_lut"],
        &[],
    );
    let updated = text(&report, "/ExpressionAttributeValues/:AMZN_MAPPED_lut/N");
    let row = WorkerRow {
        id: text(&report, "/Key/leaseKey/S").into(),
        updated: updated.parse().expect("seconds"),
        every: Some(Duration::from_secs(30)),
        leaving: false,
    };
    dynamo.call("UpdateItem", report).expect("a report");
    ours.put_worker(&row).await.expect("a put");
    let mut expected = dynamo.rows(KCL);
    let theirs = expected.get_mut(row.id.as_str()).expect("a row");
    theirs["sts"] = json!({"M": {}});
    theirs["opr"] = json!({"M": {}});
    theirs["skEvery"] = json!({"N": "30000"});
    assert_eq!(dynamo.rows(OURS), expected);
}

/// The tables that the two make are the same.
#[tokio::test]
async fn the_table_is_the_recorded_one() {
    let dynamo = Dynamo::start().await;
    dynamo
        .call("CreateTable", recorded("CreateTable", &[], &[]))
        .expect("a table");
    dynamo
        .call("UpdateTable", recorded("UpdateTable", &[], &[]))
        .expect("an index");
    dynamo.table(OURS).await;
    let shape = |name: &str| {
        let answer = dynamo.call("DescribeTable", json!({"TableName": name}));
        let mut table = answer.expect("a table")["Table"].take();
        let members = table.as_object_mut().expect("a description");
        for own in [
            "TableName",
            "TableArn",
            "TableId",
            "CreationDateTime",
            "BillingModeSummary",
        ] {
            members.remove(own);
        }
        if let Some(Value::Array(definitions)) = members.get_mut("AttributeDefinitions") {
            definitions.sort_by_key(|one| one["AttributeName"].to_string());
        }
        let index = &mut members["GlobalSecondaryIndexes"][0];
        index.as_object_mut().expect("an index").remove("IndexArn");
        table
    };
    assert_eq!(shape(OURS), shape(KCL));
    let billing = |name: &str| {
        let answer = dynamo.call("DescribeTable", json!({"TableName": name}));
        answer.expect("a table")["Table"]["BillingModeSummary"]["BillingMode"].clone()
    };
    assert_eq!(billing(OURS), "PAY_PER_REQUEST");
    assert_eq!(billing(OURS), billing(KCL));
}

/// Our own attributes stand beside the KCL's and leave its requests as they are.
#[tokio::test]
async fn the_kcl_goes_on_from_our_rows() {
    let dynamo = Dynamo::start().await;
    let theirs = dynamo.table(KCL).await;
    let assign = recorded(
        "UpdateItem",
        &["/AttributeUpdates/leaseOwner"],
        &["/Expected/leaseOwner/Value"],
    );
    let mut lease = Lease::new(
        None,
        text(&assign, "/Key/leaseKey/S").into(),
        Position::Latest,
    );
    lease.pinned = Some(1_796_064_868_289);
    lease.made_for = Some("orders".to_owned());
    theirs
        .write(&Write::Create(Box::new(lease.clone())))
        .await
        .expect("a row");
    dynamo.call("UpdateItem", assign).expect("their assignment");
    let acquire = Write::Acquire(Seize {
        key: lease.key.clone(),
        me: "worker-1".into(),
        session: Session::from("run"),
        seen_counter: 1,
        pin: None,
    });
    let row = theirs
        .write(&acquire)
        .await
        .expect("it is ours")
        .expect("a row");
    lease.counter = 2;
    lease.owner = Some("worker-1".into());
    lease.session = Some(Session::from("run"));
    assert_eq!(row, lease);
}
