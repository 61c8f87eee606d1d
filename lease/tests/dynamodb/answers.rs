//! What DynamoDB may answer, and what a caller is told.

use std::{collections::BTreeSet, time::Duration};

use aws_credential_types::provider::{error::CredentialsError, future};
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, ProvideCredentials, Region, timeout::TimeoutConfig},
};
use lease::{Consistency, DynamoTable, LockWrite, Renew, Table, TableError, WorkerRow, Write};
use serde_json::json;

use crate::canned::{Answer, Canned};

fn renew() -> Write {
    Write::Renew(Renew {
        key: "shard".into(),
        me: "a".into(),
        counter: 3,
        handing_over: false,
        checkpoint: None,
        children: BTreeSet::new(),
        throughput_kbps: None,
    })
}

/// The name of a variant.
fn kind(error: &TableError) -> &'static str {
    match error {
        TableError::Changed(_) => "changed",
        TableError::Throttled(_) => "throttled",
        TableError::Unknown(_) => "unknown",
        TableError::Missing(_) => "missing",
        TableError::Refused(_) => "refused",
        TableError::Unreadable(_) => "unreadable",
    }
}

/// Each of these answers is an error of this kind that says so much, after one attempt.
async fn all_are(expected: &str, cases: impl IntoIterator<Item = (Answer, &str)>) {
    for (answer, says) in cases {
        let (canned, client) = Canned::client([answer.clone()]);
        let table = DynamoTable::new(&client, "t");
        let error = table.write(&renew()).await.expect_err("an error");
        assert_eq!(kind(&error), expected, "{answer:?}: {error}");
        assert!(error.to_string().contains(says), "{answer:?}: {error}");
        assert_eq!(
            canned.operations(),
            ["UpdateItem"],
            "{answer:?}: one attempt"
        );
    }
}

/// Errors with these names and this status; each says its name.
fn named<'a>(status: u16, names: &'a [&'a str]) -> impl Iterator<Item = (Answer, &'a str)> {
    names
        .iter()
        .map(move |name| (Answer::error(status, name), *name))
}

#[tokio::test]
async fn a_condition_that_does_not_hold_is_a_changed_row() {
    let refused = Answer::error(400, "ConditionalCheckFailedException");
    all_are("changed", [(refused, "")]).await;
}

#[tokio::test]
async fn too_many_calls_are_throttled() {
    let throughput = Answer::error(400, "ProvisionedThroughputExceededException");
    all_are("throttled", [(throughput, "so it is")]).await;
    let names = ["RequestLimitExceeded", "ThrottlingException"];
    all_are("throttled", named(400, &names)).await;
    let unnamed = Answer::Http(429, String::new());
    all_are("throttled", [(unnamed, "HTTP 429")]).await;
}

#[tokio::test]
async fn a_table_that_is_not_there_is_missing() {
    let missing = Answer::error(400, "ResourceNotFoundException");
    all_are("missing", [(missing, "so it is")]).await;
}

#[tokio::test]
async fn what_may_have_happened_is_unknown() {
    all_are("unknown", named(400, &["TransactionConflictException"])).await;
    all_are("unknown", named(500, &["InternalServerError"])).await;
    let html = Answer::Http(503, "<html>".to_owned());
    let half = Answer::Http(200, "{\"Attributes\": [".to_owned());
    let cases = [
        (html, "HTTP 503"),
        (half, "UpdateItem"),
        (Answer::Broken, "connection reset"),
        (Answer::TimedOut, "too slow"),
    ];
    all_are("unknown", cases).await;
}

#[tokio::test]
async fn what_will_not_get_better_is_refused() {
    let invalid = Answer::error(400, "ValidationException");
    let says = "ValidationException: so it is (HTTP 400)";
    all_are("refused", [(invalid, says)]).await;
    let names = [
        "AccessDeniedException",
        "UnrecognizedClientException",
        "ExpiredTokenException",
    ];
    all_are("refused", named(400, &names)).await;
}

#[tokio::test]
async fn every_call_is_one_attempt() {
    let key = "shard".into();
    for number in 0..5 {
        let (canned, client) = Canned::client([Answer::error(500, "InternalServerError")]);
        let table = DynamoTable::new(&client, "t");
        let row = WorkerRow {
            id: "a".into(),
            updated: 1,
            every: None,
            leaving: false,
        };
        let release = LockWrite::Release {
            me: "a".into(),
            version: "v".to_owned(),
        };
        let (operation, error) = match number {
            0 => ("Scan", table.list(Consistency::Eventual).await.map(|_| ())),
            1 => ("GetItem", table.get(&key).await.map(|_| ())),
            2 => ("DeleteItem", table.lock(&release).await.map(|_| ())),
            3 => ("UpdateItem", table.put_worker(&row).await),
            _ => ("DeleteItem", table.remove_worker(&row.id, 1).await),
        };
        let error = error.expect_err("an error");
        assert_eq!(kind(&error), "unknown", "{error}");
        assert!(error.to_string().contains(operation), "{error}");
        assert_eq!(canned.operations(), [operation]);
    }
}

/// The row of a refusal is read like any other: a row that became something else is no lease that changed.
#[tokio::test]
async fn a_refusal_tells_the_row() {
    let refused = |item| {
        let body =
            json!({"__type": "x#ConditionalCheckFailedException", "message": "no", "Item": item});
        Answer::Http(400, body.to_string())
    };
    let lease =
        json!({"leaseKey": {"S": "shard"}, "leaseCounter": {"N": "9"}, "checkpoint": {"S": "5"}});
    let nonsense =
        json!({"leaseKey": {"S": "shard"}, "leaseCounter": {"S": "9"}, "checkpoint": {"S": "5"}});
    let (_, client) = Canned::client([refused(lease), refused(nonsense)]);
    let table = DynamoTable::new(&client, "t");
    let Err(TableError::Changed(Some(row))) = table.write(&renew()).await else {
        panic!("the row was told");
    };
    assert_eq!((row.key.as_str(), row.counter), ("shard", 9));
    let error = table.write(&renew()).await.expect_err("an error");
    assert_eq!(
        error.to_string(),
        "unreadable row: shard: `leaseCounter` is of type S, not N"
    );
}

/// The time-outs are the caller's; here they end an attempt that would hang for ever.
#[tokio::test(start_paused = true)]
async fn a_hung_call_ends_when_the_caller_said() {
    let (_, client) = Canned::client([Answer::Never]);
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_millis(2_500));
    let config = client
        .config()
        .to_builder()
        .timeout_config(timeouts.build());
    let table = DynamoTable::new(&Client::from_conf(config.build()), "t");
    let error = table.write(&renew()).await.expect_err("an error");
    assert_eq!(kind(&error), "unknown");
    assert!(error.to_string().contains("2.5s"), "{error}");
}

#[tokio::test]
async fn without_credentials_the_reason_is_named() {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Nothing)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let table = DynamoTable::new(&Client::from_conf(config), "t");
    let error = table.write(&renew()).await.expect_err("an error");
    assert_eq!(kind(&error), "refused", "{error}");
    assert!(error.to_string().contains("credential"), "{error}");
}

/// A provider that has nothing to give.
#[derive(Debug)]
struct Nothing;

impl ProvideCredentials for Nothing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let error = CredentialsError::not_loaded("none were configured");
        future::ProvideCredentials::ready(Err(error))
    }
}

/// Small tables are read by one request; after a large one the next list asks for its segments at the same time.
#[tokio::test]
async fn segments_follow_the_size_of_the_table() {
    let row =
        |number| json!({"leaseKey": {"S": format!("s{number}")}, "entityType": {"S": "STREAM"}});
    let rows: Vec<_> = (0..4_100).map(row).collect();
    let large = Answer::ok(json!({"Items": rows}));
    let empty = Answer::ok(json!({"Items": []}));
    let answers = [large, empty.clone(), empty.clone(), empty.clone(), empty];
    let (canned, client) = Canned::client(answers);
    let table = DynamoTable::new(&client, "t");
    for consistency in [
        Consistency::Eventual,
        Consistency::Strong,
        Consistency::Strong,
    ] {
        table.list(consistency).await.expect("a list");
    }
    let scans = canned.requests().into_iter().map(|(_, body)| {
        (
            body["ConsistentRead"] == true,
            body["Segment"].as_i64(),
            body["TotalSegments"].as_i64(),
        )
    });
    let segment = |consistent, segment, of| (consistent, Some(segment), Some(of));
    assert_eq!(
        scans.collect::<Vec<_>>(),
        [
            segment(false, 0, 1),
            segment(true, 0, 3),
            segment(true, 1, 3),
            segment(true, 2, 3),
            segment(true, 0, 1),
        ]
    );
}

/// The rest of a list that failed on a later page is no list.
#[tokio::test]
async fn a_list_is_whole_or_an_error() {
    let page = json!({"Items": [], "LastEvaluatedKey": {"leaseKey": {"S": "s"}}});
    let (canned, client) = Canned::client([
        Answer::ok(page),
        Answer::error(400, "ProvisionedThroughputExceededException"),
    ]);
    let error = DynamoTable::new(&client, "t")
        .list(Consistency::Strong)
        .await;
    assert_eq!(kind(&error.expect_err("an error")), "throttled");
    let (_, second) = &canned.requests()[1];
    assert_eq!(second["ExclusiveStartKey"], json!({"leaseKey": {"S": "s"}}));
    assert_eq!(second["ConsistentRead"], true);
}

/// The SDK reads an empty body as an answer in which nothing is present.
#[tokio::test]
async fn an_answer_in_which_nothing_is_present_is_none() {
    let (_, client) = Canned::client([Answer::ok(json!({})), Answer::ok(json!({}))]);
    let table = DynamoTable::new(&client, "t");
    let error = table.list(Consistency::Strong).await;
    assert_eq!(kind(&error.expect_err("no table without rows")), "unknown");
    let error = table.write(&renew()).await;
    assert_eq!(kind(&error.expect_err("no row that is gone")), "unknown");
}

/// What a write asks for, beside its expressions, which other tests run.
#[tokio::test]
async fn writes_ask_for_the_row() {
    let row =
        json!({"leaseKey": {"S": "shard"}, "leaseCounter": {"N": "4"}, "checkpoint": {"S": "5"}});
    let (canned, client) = Canned::client([Answer::ok(json!({"Attributes": row}))]);
    let row = DynamoTable::new(&client, "t").write(&renew()).await;
    assert_eq!(row.expect("a write").expect("a row").counter, 4);
    let (_, request) = canned.requests().remove(0);
    assert_eq!(request["ReturnValues"], "ALL_NEW");
    assert_eq!(request["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    assert_eq!(
        request["UpdateExpression"],
        "SET #leaseCounter = :new_leaseCounter"
    );
    assert_eq!(
        request["ConditionExpression"],
        "#leaseCounter = :seen_leaseCounter AND #leaseOwner = :seen_leaseOwner \
         AND attribute_not_exists(#checkpointOwner)"
    );
}
