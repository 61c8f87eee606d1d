//! Requests recorded from the Java KCL 3.5.1, replayed beside ours.
//!
//! The recorded request goes to one table, ours to another, both from the same row. Both must leave the same row; and
//! from a row that changed meanwhile ours is refused where the KCL's is, and where `stricter` says so.

use checkpoint::Position;
use lease::{Assign, DynamoTable, Lease, Renew, Table, TableError, Write};
use serde_json::{Value, json};

use crate::{
    fixture::{Dynamo, key_of},
    recorded::{KCL, OURS, moments, recorded, renewal, rows_of, text},
};

const UPDATE: &str = "UpdateItem";

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
    let mut rows = rows_of(&moments[1]).iter();
    let row = rows.find(|row| row["leaseKey"]["S"] == *key);
    let mut row = row.expect("a recorded row").clone();
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

fn throughput(request: &Value) -> f64 {
    let digits = text(request, "/AttributeUpdates/throughputKBps/Value/N");
    digits.parse().expect("a number")
}

/// The lease as our worker reads it from a row.
async fn read(dynamo: &Dynamo, table: &DynamoTable, row: &Value) -> Lease {
    dynamo.put(table.name(), row);
    let lease = table.get(&key_of(row).into()).await;
    lease.expect("a readable row").expect("a row")
}

async fn pairs(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let mut pairs = begin(dynamo, table).await;
    pairs.extend(renewals(dynamo, table).await);
    pairs.extend(checkpoint(dynamo, table).await);
    pairs.extend(hand_over(dynamo, table).await);
    pairs
}

/// How a row comes to be and to its first owner.
async fn begin(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let create = recorded("PutItem", &["/Item/checkpoint"], &[]);
    let lease = read(dynamo, table, &create["Item"]).await;
    let create = Pair {
        name: "create",
        operation: "PutItem",
        ours: Write::Create(Box::new(lease)),
        start: None,
        recorded: create,
        stricter: &[],
    };

    let assign = recorded(
        UPDATE,
        &["/AttributeUpdates/leaseOwner"],
        &["/Expected/leaseOwner/Value"],
    );
    let start = start_of(&assign, None, None);
    let lease = read(dynamo, table, &start).await;
    let assign = Pair {
        name: "assign",
        operation: UPDATE,
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
    };
    vec![create, assign]
}

/// The heartbeats of an owner, with and without a measurement.
async fn renewals(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let owner = "/Expected/checkpointOwner";
    let measured = "/AttributeUpdates/throughputKBps";
    let mut pairs = Vec::new();
    for (name, with, without) in [
        ("renew", [owner, "/Expected/leaseCounter"], &[measured][..]),
        ("renew with throughput", [owner, measured], &[]),
    ] {
        let renew = recorded(UPDATE, &with, without);
        let start = start_of(&renew, Some("worker-1"), None);
        let lease = read(dynamo, table, &start).await;
        pairs.push(Pair {
            name,
            operation: UPDATE,
            ours: Write::Renew(Renew {
                throughput_kbps: with.contains(&measured).then(|| throughput(&renew)),
                ..renewal(&lease, "worker-1")
            }),
            start: Some(start),
            recorded: renew,
            stricter: &["other owner"],
        });
    }
    pairs
}

/// The KCL stores a checkpoint without looking at the owners; the counter alone fences it.
async fn checkpoint(dynamo: &Dynamo, table: &DynamoTable) -> Vec<Pair> {
    let store = recorded(UPDATE, &["/AttributeUpdates/checkpoint"], &[]);
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
        operation: UPDATE,
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
    let begin = recorded(UPDATE, &["/AttributeUpdates/checkpointOwner/Value"], &[]);
    let start = start_of(&begin, Some("worker-1"), None);
    let lease = read(dynamo, table, &start).await;
    let begin = Pair {
        name: "hand off",
        operation: UPDATE,
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
        UPDATE,
        &["/Expected/leaseCounter", "/AttributeUpdates/throughputKBps"],
        &["/Expected/checkpointOwner"],
    );
    let start = start_of(&renew, Some("worker-2"), Some("worker-1"));
    let lease = read(dynamo, table, &start).await;
    let renew = Pair {
        name: "renew in hand-over",
        operation: UPDATE,
        ours: Write::Renew(Renew {
            throughput_kbps: Some(throughput(&renew)),
            ..renewal(&lease, "worker-1")
        }),
        start: Some(start),
        recorded: renew,
        stricter: &["other checkpoint owner", "hand-over ended"],
    };

    let end = recorded(UPDATE, &["/Expected/checkpointOwner/Value"], &[]);
    let start = start_of(&end, Some("worker-2"), Some("worker-1"));
    let lease = read(dynamo, table, &start).await;
    let end = Pair {
        name: "complete",
        operation: UPDATE,
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
