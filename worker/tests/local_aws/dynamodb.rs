//! The real SDK against the embedded DynamoDB, through the gate.

use crate::world::{code, start};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, ScalarAttributeType,
};
use shardkeeper::local::faults::{Action, Rule, Service};
use shardkeeper::local::model::ModelOptions;

fn client(url: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .build();
    Client::from_conf(config)
}

async fn create(db: &Client, table: &str) {
    let attribute = AttributeDefinition::builder()
        .attribute_name("leaseKey")
        .attribute_type(ScalarAttributeType::S)
        .build()
        .expect("complete");
    let key = KeySchemaElement::builder()
        .attribute_name("leaseKey")
        .key_type(KeyType::Hash)
        .build()
        .expect("complete");
    let create = db
        .create_table()
        .table_name(table)
        .attribute_definitions(attribute)
        .key_schema(key)
        .billing_mode(BillingMode::PayPerRequest);
    create.send().await.expect("created");
}

async fn add_one(db: &Client, table: &str, key: &str) -> Result<(), String> {
    let update = db
        .update_item()
        .table_name(table)
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

#[tokio::test]
async fn faults_stand_before_dynamodb() {
    let world = start(ModelOptions::default()).await;
    let db = client(&world.aws.dynamodb_url());
    create(&db, "leases").await;
    let faults = world.aws.faults();
    let update = |action| {
        Rule::new(action)
            .on(Service::DynamoDb, "UpdateItem")
            .times(1)
    };
    let add = |rule: Rule| faults.add(rule, world.now()).expect("a good rule");

    add_one(&db, "leases", "a").await.expect("no rule yet");
    add(update(Action::Throttle));
    assert_eq!(
        add_one(&db, "leases", "a").await,
        Err("ProvisionedThroughputExceededException".to_owned())
    );
    add(update(Action::Internal));
    assert_eq!(
        add_one(&db, "leases", "a").await,
        Err("InternalServerError".to_owned())
    );
    add(Rule {
        code: Some("TransactionConflictException".to_owned()),
        ..update(Action::Error)
    });
    assert_eq!(
        add_one(&db, "leases", "a").await,
        Err("TransactionConflictException".to_owned())
    );
    add(update(Action::Cut));
    assert_eq!(
        add_one(&db, "leases", "a").await,
        Err("no reply".to_owned())
    );
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("1"),
        "none of these was carried out"
    );
    add(update(Action::Lost));
    assert_eq!(
        add_one(&db, "leases", "a").await,
        Err("no reply".to_owned())
    );
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("2"),
        "a lost one was"
    );
    add(Rule {
        after_bytes: Some(1),
        ..update(Action::Cut)
    });
    let _ = add_one(&db, "leases", "a").await;
    assert_eq!(
        count(&db, "a").await.as_deref(),
        Some("3"),
        "so is one whose reply is cut short"
    );

    add(Rule {
        key: Some("b".to_owned()),
        ..update(Action::Throttle)
    });
    add_one(&db, "leases", "a").await.expect("another key");
    assert!(add_one(&db, "leases", "b").await.is_err());
    add(Rule::new(Action::Throttle).on(Service::Kinesis, "UpdateItem"));
    add_one(&db, "leases", "b").await.expect("another service");
    add(Rule::new(Action::Throttle)
        .on(Service::DynamoDb, "ListTables")
        .times(1));
    assert_eq!(code(db.list_tables().send().await), "ThrottlingException");
    assert_eq!(
        db.list_tables().send().await.expect("listed").table_names(),
        ["leases"]
    );
}

#[tokio::test]
async fn conditions_hold_through_the_gate_under_contention() {
    let world = start(ModelOptions::default()).await;
    let db = client(&world.aws.dynamodb_url());
    create(&db, "leases").await;
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
    let world = start(ModelOptions::default()).await;
    let db = client(&world.aws.dynamodb_url());
    let status = || async {
        let described = db
            .describe_continuous_backups()
            .table_name("leases")
            .send()
            .await;
        described.map(|d| {
            let description = d.continuous_backups_description.expect("description");
            description
                .point_in_time_recovery_description
                .expect("recovery")
                .point_in_time_recovery_status
                .expect("status")
        })
    };
    assert_eq!(code(status().await), "TableNotFoundException");
    create(&db, "leases").await;
    assert_eq!(
        status().await.expect("described"),
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
        status().await.expect("described"),
        PointInTimeRecoveryStatus::Enabled
    );
    db.delete_table()
        .table_name("leases")
        .send()
        .await
        .expect("deleted");
    create(&db, "leases").await;
    assert_eq!(
        status().await.expect("described"),
        PointInTimeRecoveryStatus::Disabled,
        "a new table"
    );
}
