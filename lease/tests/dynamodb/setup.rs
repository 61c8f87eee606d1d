//! Making the table, finding it made, and finding it to be somebody else's.

use std::{
    future::{Future, ready},
    sync::Mutex,
    time::Duration,
};

use lease::{DynamoTable, EnsureError, Ensured, SetupWarning, TableSpec};
use serde_json::{Value, json};

use crate::canned::{Answer, Canned};
use crate::fixture::{Dynamo, no_wait};

fn spec() -> TableSpec {
    TableSpec {
        create: true,
        ..TableSpec::default()
    }
}

/// DescribeTable's answer for a table as it should be.
fn described(status: &str) -> Value {
    json!({"Table": {
        "TableName": "t",
        "TableStatus": status,
        "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        "AttributeDefinitions": [
            {"AttributeName": "leaseKey", "AttributeType": "S"},
            {"AttributeName": "leaseOwner", "AttributeType": "S"},
        ],
        "GlobalSecondaryIndexes": [{
            "IndexName": "LeaseOwnerToLeaseKeyIndex",
            "KeySchema": [
                {"AttributeName": "leaseOwner", "KeyType": "HASH"},
                {"AttributeName": "leaseKey", "KeyType": "RANGE"},
            ],
        }],
    }})
}

fn absent() -> Answer {
    Answer::error(400, "ResourceNotFoundException")
}

/// Waits that are only counted.
#[derive(Default)]
struct Waits(Mutex<Vec<Duration>>);

impl Waits {
    fn wait(&self) -> impl Fn(Duration) -> std::future::Ready<()> {
        |pause| {
            self.0.lock().expect("no test panicked in here").push(pause);
            ready(())
        }
    }

    fn millis(&self) -> Vec<u128> {
        let waits = self.0.lock().expect("no test panicked in here");
        waits.iter().map(Duration::as_millis).collect()
    }
}

#[tokio::test]
async fn a_table_is_made_once() {
    let dynamo = Dynamo::start().await;
    let table = DynamoTable::new(&dynamo.client, "orders");
    assert_eq!(
        table.ensure(&TableSpec::default(), no_wait).await,
        Err(EnsureError::Absent("orders".to_owned()))
    );
    let spec = TableSpec {
        provisioned: Some((7, 5)),
        tags: vec![("team".to_owned(), "orders".to_owned())],
        deletion_protection: true,
        ..spec()
    };
    let made = table.ensure(&spec, no_wait).await.expect("a table");
    assert_eq!((made.created, made.warnings), (true, vec![]));
    let found = table.ensure(&TableSpec::default(), no_wait).await;
    assert_eq!(found, Ok(Ensured::default()));

    let answer = dynamo.call("DescribeTable", json!({"TableName": "orders"}));
    let described = answer.expect("a table")["Table"].take();
    assert_eq!(described["DeletionProtectionEnabled"], true);
    let index = &described["GlobalSecondaryIndexes"][0];
    for units in [
        &described["ProvisionedThroughput"],
        &index["ProvisionedThroughput"],
    ] {
        assert_eq!(
            (&units["ReadCapacityUnits"], &units["WriteCapacityUnits"]),
            (&json!(7), &json!(5))
        );
    }
    let arn = described["TableArn"].as_str().expect("an ARN");
    let tags = dynamo
        .client
        .list_tags_of_resource()
        .resource_arn(arn)
        .send()
        .await;
    let tags = tags.expect("tags").tags.expect("tags");
    assert_eq!((tags[0].key(), tags[0].value()), ("team", "orders"));
}

#[tokio::test]
async fn the_index_is_added_to_a_table_of_an_old_kcl() {
    let dynamo = Dynamo::start().await;
    for (name, billing) in [
        ("on-demand", json!({"BillingMode": "PAY_PER_REQUEST"})),
        (
            "provisioned",
            json!({"ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}}),
        ),
    ] {
        let mut request = json!({
            "TableName": name,
            "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
        });
        for (member, value) in billing.as_object().expect("members") {
            request[member] = value.clone();
        }
        dynamo.call("CreateTable", request).expect("a table");
        let table = DynamoTable::new(&dynamo.client, name);
        let found = table.ensure(&TableSpec::default(), no_wait).await;
        assert_eq!(found, Ok(Ensured::default()), "{name}");
        let answer = dynamo.call("DescribeTable", json!({"TableName": name}));
        let index = answer.expect("a table")["Table"]["GlobalSecondaryIndexes"][0].take();
        assert_eq!(index["IndexName"], "LeaseOwnerToLeaseKeyIndex");
        assert_eq!(index["Projection"]["ProjectionType"], "KEYS_ONLY");
    }

    // What capacity the index of a provisioned table is given, dynoxide does not keep.
    let mut bare = described("ACTIVE");
    bare["Table"]["GlobalSecondaryIndexes"] = json!([]);
    let units = json!({"ReadCapacityUnits": 3, "WriteCapacityUnits": 4});
    bare["Table"]["ProvisionedThroughput"] = units.clone();
    let (canned, client) = Canned::client([Answer::ok(bare), Answer::ok(json!({}))]);
    let ensured = DynamoTable::new(&client, "t")
        .ensure(&spec(), no_wait)
        .await;
    assert_eq!(ensured, Ok(Ensured::default()));
    let (_, request) = canned.requests().remove(1);
    let created = &request["GlobalSecondaryIndexUpdates"][0]["Create"];
    assert_eq!(created["ProvisionedThroughput"], units);
}

#[tokio::test]
async fn a_table_with_another_key_is_left_alone() {
    let dynamo = Dynamo::start().await;
    for (name, keys, kind, reason) in [
        (
            "coordinator",
            vec![("key", "HASH")],
            "S",
            "its key is key (HASH), not leaseKey (HASH)",
        ),
        (
            "ranged",
            vec![("leaseKey", "HASH"), ("at", "RANGE")],
            "S",
            "its key is leaseKey (HASH), at (RANGE), not leaseKey (HASH)",
        ),
        (
            "numbers",
            vec![("leaseKey", "HASH")],
            "N",
            "its key leaseKey is of type N, not S",
        ),
    ] {
        let schema = keys
            .iter()
            .map(|(name, kind)| json!({"AttributeName": name, "KeyType": kind}));
        let types = keys
            .iter()
            .map(|(name, _)| json!({"AttributeName": name, "AttributeType": kind}));
        let request = json!({
            "TableName": name,
            "KeySchema": schema.collect::<Vec<_>>(),
            "AttributeDefinitions": types.collect::<Vec<_>>(),
            "BillingMode": "PAY_PER_REQUEST",
        });
        dynamo.call("CreateTable", request).expect("a table");
        let before = dynamo.call("DescribeTable", json!({"TableName": name}));
        let table = DynamoTable::new(&dynamo.client, name);
        let foreign = EnsureError::Foreign {
            table: name.to_owned(),
            reason: reason.to_owned(),
        };
        assert_eq!(table.ensure(&spec(), no_wait).await, Err(foreign));
        assert_eq!(
            dynamo.call("DescribeTable", json!({"TableName": name})),
            before
        );
    }
}

/// Absent, being made by somebody else, unseen for a moment, busy, being made, active.
#[tokio::test]
async fn a_table_in_the_making_is_waited_for() {
    let (canned, client) = Canned::client([
        absent(),
        Answer::error(400, "ResourceInUseException"),
        absent(),
        Answer::error(400, "LimitExceededException"),
        Answer::error(400, "ThrottlingException"),
        Answer::ok(described("CREATING")),
        Answer::ok(described("CREATING")),
        Answer::ok(described("UPDATING")),
    ]);
    let waits = Waits::default();
    let table = DynamoTable::new(&client, "t");
    assert_eq!(
        table.ensure(&spec(), waits.wait()).await,
        Ok(Ensured::default())
    );
    assert_eq!(waits.millis(), [100, 200, 400, 800, 1000]);
    let describe = "DescribeTable";
    assert_eq!(
        canned.operations(),
        [
            describe,
            "CreateTable",
            describe,
            "CreateTable",
            describe,
            describe,
            describe,
            describe
        ]
    );
}

#[tokio::test]
async fn what_cannot_serve_is_an_error() {
    let forever = || std::iter::repeat_n(Answer::ok(described("CREATING")), 1_000);
    let cases: Vec<(Vec<Answer>, bool, &str)> = vec![
        (
            vec![Answer::error(400, "AccessDeniedException")],
            false,
            "DescribeTable: AccessDenied",
        ),
        (vec![Answer::Broken], true, "connection reset"),
        (
            vec![Answer::ok(described("ARCHIVED"))],
            false,
            "its status is ARCHIVED",
        ),
        (
            vec![absent(), Answer::error(400, "AccessDeniedException")],
            false,
            "CreateTable: AccessDenied",
        ),
        (
            vec![absent(), Answer::error(500, "InternalServerError")],
            true,
            "CreateTable: Internal",
        ),
        (forever().collect(), true, "not active after 600 s"),
    ];
    for (answers, expected, says) in cases {
        let (_, client) = Canned::client(answers);
        let error = DynamoTable::new(&client, "t")
            .ensure(&spec(), no_wait)
            .await;
        let Err(EnsureError::Failed {
            reason,
            transient,
            table,
        }) = error
        else {
            panic!("{error:?}, expected {says}");
        };
        assert!(reason.contains(says), "{reason}, expected {says}");
        assert_eq!((transient, table.as_str()), (expected, "t"), "{reason}");
    }
}

#[tokio::test]
async fn a_missing_index_is_a_warning_and_not_an_error() {
    let mut bare = described("ACTIVE");
    bare["Table"]["GlobalSecondaryIndexes"] = json!([]);
    let denied = Answer::error(400, "AccessDeniedException");
    let (_, client) = Canned::client([Answer::ok(bare.clone()), denied, Answer::ok(bare.clone())]);
    let ensured = DynamoTable::new(&client, "t")
        .ensure(&spec(), no_wait)
        .await;
    let warnings = ensured.expect("it serves").warnings;
    assert!(
        matches!(&warnings[..], [SetupWarning::IndexMissing(why)] if why.contains("AccessDenied"))
    );
    assert!(
        warnings[0]
            .to_string()
            .contains("LeaseOwnerToLeaseKeyIndex is missing")
    );

    // Another worker was adding it at the same time.
    let raced = Answer::error(400, "ResourceInUseException");
    let (_, client) = Canned::client([Answer::ok(bare), raced, Answer::ok(described("UPDATING"))]);
    let ensured = DynamoTable::new(&client, "t")
        .ensure(&spec(), no_wait)
        .await;
    assert_eq!(ensured, Ok(Ensured::default()));

    let mut foreign = described("ACTIVE");
    foreign["Table"]["GlobalSecondaryIndexes"][0]["KeySchema"][1]["AttributeName"] = json!("at");
    let (_, client) = Canned::client([Answer::ok(foreign)]);
    let ensured = DynamoTable::new(&client, "t")
        .ensure(&spec(), no_wait)
        .await;
    assert!(matches!(
        &ensured.expect("it serves").warnings[..],
        [SetupWarning::IndexForeign(_)]
    ));
}

#[tokio::test]
async fn recovery_is_switched_on_when_asked_for() {
    let spec = TableSpec {
        point_in_time_recovery: true,
        ..spec()
    };
    let young = Answer::error(400, "ContinuousBackupsUnavailableException");
    let done =
        Answer::ok(json!({"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED"}}));
    let (canned, client) = Canned::client([Answer::ok(described("ACTIVE")), young, done]);
    let waits = Waits::default();
    let ensured = DynamoTable::new(&client, "t")
        .ensure(&spec, waits.wait())
        .await;
    assert_eq!(ensured, Ok(Ensured::default()));
    assert_eq!(waits.millis(), [100]);
    let (operation, request) = canned.requests().remove(2);
    assert_eq!(operation, "UpdateContinuousBackups");
    assert_eq!(
        request["PointInTimeRecoverySpecification"],
        json!({"PointInTimeRecoveryEnabled": true})
    );

    // A DynamoDB that does not know the call.
    let dynamo = Dynamo::start().await;
    let ensured = DynamoTable::new(&dynamo.client, "orders")
        .ensure(&spec, no_wait)
        .await;
    let ensured = ensured.expect("it serves");
    assert!(ensured.created);
    assert!(matches!(
        &ensured.warnings[..],
        [SetupWarning::NoRecovery(_)]
    ));
}

/// A worker sets up its table in a task of its own.
#[test]
fn setting_up_can_be_spawned() {
    fn spawnable(_: impl Future + Send + 'static) {}
    let (_, client) = Canned::client([]);
    spawnable(async move {
        let table = DynamoTable::new(&client, "t");
        let _ = table.ensure(&spec(), no_wait).await;
        let _ = table.check().await;
    });
}
