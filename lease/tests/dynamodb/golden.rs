//! Rows recorded from the Java KCL 3.5.1 are read and written back; its lock, its worker's row and its table are ours.

use std::time::Duration;

use checkpoint::Position;
use lease::{Consistency, Lease, LockWrite, Renew, Seize, Session, Table, WorkerRow, Write};
use serde_json::{Value, json};

use crate::{
    fixture::Dynamo,
    recorded::{KCL, OURS, moments, recorded, renewal, rows_of, text},
};

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
