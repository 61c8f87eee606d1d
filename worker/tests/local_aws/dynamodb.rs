//! The real SDK against the embedded DynamoDB, through the gate.

use crate::sdk;
use crate::world::{World, code, start};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, PointInTimeRecoverySpecification, PointInTimeRecoveryStatus,
};
use shardkeeper::local::faults::{Action, Rule, Service};
use shardkeeper::local::model::ModelOptions;

/// A gate that lets through to a table `leases`.
async fn world() -> (World, Client) {
    let world = start(ModelOptions::default()).await;
    let db = Client::new(&sdk::config(&world.aws.dynamodb_url()));
    sdk::create_table(&db, "leases", "leaseKey").await;
    (world, db)
}

async fn add_one(db: &Client, key: &str) -> Result<(), String> {
    let update = db
        .update_item()
        .table_name("leases")
        .key("leaseKey", AttributeValue::S(key.to_owned()));
    let update = update
        .update_expression("ADD n :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
    match update.send().await {
        Ok(_) => Ok(()),
        Err(error) if error.as_service_error().is_some() => Err(code::<(), _>(Err(error))),
        Err(_) => Err("no reply".to_owned()),
    }
}

async fn count(db: &Client, key: &str) -> Option<String> {
    let item = db
        .get_item()
        .table_name("leases")
        .key("leaseKey", AttributeValue::S(key.to_owned()))
        .send()
        .await
        .expect("read")
        .item?;
    item["n"].as_n().ok().cloned()
}

/// A fault of the next update.
fn update(action: Action) -> Rule {
    Rule::new(action)
        .on(Service::DynamoDb, "UpdateItem")
        .times(1)
}

/// What the update gets that meets this fault.
async fn met(world: &World, db: &Client, rule: Rule) -> Result<(), String> {
    add(world, rule);
    add_one(db, "a").await
}

fn add(world: &World, rule: Rule) {
    let faults = world.aws.faults();
    faults.add(rule, world.now()).expect("a good rule");
}

#[tokio::test]
async fn a_fault_before_dynamodb_keeps_the_call_from_it() {
    let (world, db) = world().await;
    add_one(&db, "a").await.expect("no rule yet");
    let conflict = Rule {
        code: Some("TransactionConflictException".to_owned()),
        ..update(Action::Error)
    };
    for (rule, answer) in [
        (
            update(Action::Throttle),
            "ProvisionedThroughputExceededException",
        ),
        (update(Action::Internal), "InternalServerError"),
        (conflict, "TransactionConflictException"),
        (update(Action::Cut), "no reply"),
    ] {
        assert_eq!(met(&world, &db, rule).await, Err(answer.to_owned()));
    }
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("1"),
        "none of these was carried out"
    );
}

#[tokio::test]
async fn a_fault_behind_dynamodb_loses_only_the_reply() {
    let (world, db) = world().await;
    add_one(&db, "a").await.expect("no rule yet");
    assert_eq!(
        met(&world, &db, update(Action::Lost)).await,
        Err("no reply".to_owned())
    );
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("2"),
        "a lost one was carried out"
    );
    let cut_short = Rule {
        after_bytes: Some(1),
        ..update(Action::Cut)
    };
    let _ = met(&world, &db, cut_short).await;
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("3"),
        "so is one whose reply is cut short"
    );
}

#[tokio::test]
async fn a_fault_meets_only_its_key_its_service_and_its_operation() {
    let (world, db) = world().await;
    let of_b = Rule {
        key: Some("b".to_owned()),
        ..update(Action::Throttle)
    };
    add(&world, of_b);
    add_one(&db, "a").await.expect("another key");
    assert!(add_one(&db, "b").await.is_err());
    let of_kinesis = Rule::new(Action::Throttle).on(Service::Kinesis, "UpdateItem");
    add(&world, of_kinesis);
    add_one(&db, "b").await.expect("another service");
    let of_lists = Rule::new(Action::Throttle).on(Service::DynamoDb, "ListTables");
    add(&world, of_lists.times(1));
    add_one(&db, "b").await.expect("another operation");
    assert_eq!(code(db.list_tables().send().await), "ThrottlingException");
    assert_eq!(
        db.list_tables().send().await.expect("listed").table_names(),
        ["leases"]
    );
}

#[tokio::test]
async fn conditions_hold_through_the_gate_under_contention() {
    let (_world, db) = world().await;
    for round in 0..10 {
        let racers = (0..16).map(|i| {
            let key = AttributeValue::S(format!("round {round}"));
            let put = db
                .put_item()
                .table_name("leases")
                .item("leaseKey", key)
                .item("owner", AttributeValue::S(i.to_string()));
            put.condition_expression("attribute_not_exists(leaseKey)")
                .send()
        });
        let results = futures::future::join_all(racers).await;
        assert_eq!(
            results.iter().filter(|r| r.is_ok()).count(),
            1,
            "round {round}"
        );
        assert!(
            results
                .into_iter()
                .filter(Result::is_err)
                .all(|r| code(r) == "ConditionalCheckFailedException")
        );
    }
}

#[tokio::test]
async fn point_in_time_recovery_is_remembered() {
    let (_world, db) = world().await;
    let status = async |table| {
        let described = db.describe_continuous_backups().table_name(table);
        let described = described.send().await;
        described.map(|d| {
            let description = d.continuous_backups_description.expect("description");
            description
                .point_in_time_recovery_description
                .expect("recovery")
                .point_in_time_recovery_status
                .expect("status")
        })
    };
    assert_eq!(code(status("another").await), "TableNotFoundException");
    assert_eq!(
        status("leases").await.expect("described"),
        PointInTimeRecoveryStatus::Disabled
    );
    let on = PointInTimeRecoverySpecification::builder()
        .point_in_time_recovery_enabled(true)
        .build()
        .expect("complete");
    db.update_continuous_backups()
        .table_name("leases")
        .point_in_time_recovery_specification(on)
        .send()
        .await
        .expect("updated");
    assert_eq!(
        status("leases").await.expect("described"),
        PointInTimeRecoveryStatus::Enabled
    );
    db.delete_table()
        .table_name("leases")
        .send()
        .await
        .expect("deleted");
    sdk::create_table(&db, "leases", "leaseKey").await;
    assert_eq!(
        status("leases").await.expect("described"),
        PointInTimeRecoveryStatus::Disabled,
        "a new table"
    );
}
