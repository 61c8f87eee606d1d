//! Fault rules over HTTP: set, listed and removed, and what a cut connection looks like from outside.

use super::{JSON, send};
use crate::world::{World, code, kinesis_client, shard, start};
use aws_sdk_kinesis::primitives::Blob;
use hyper::Method;
use serde_json::{Value, json};
use shardkeeper::local::model::ModelOptions;

async fn world() -> World {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    world
}

/// One call of the fault rules' interface; status and answer.
async fn faults(url: &str, method: Method, path: &str, body: String) -> (u16, Value) {
    let answer = send(url, method, path, &[], body).await.expect("answered");
    (answer.status.as_u16(), answer.json())
}

/// Sets these rules by the port of Kinesis.
async fn set(world: &World, rules: Value) -> (u16, Value) {
    let url = world.aws.kinesis_url();
    faults(&url, Method::POST, "/_faults", rules.to_string()).await
}

/// The rules as the port at `url` lists them.
async fn listed(url: &str) -> Vec<Value> {
    let (status, listed) = faults(url, Method::GET, "/_faults", String::new()).await;
    assert_eq!(status, 200);
    listed.as_array().expect("a list").clone()
}

/// Removes a rule, or all of them with an empty name.
async fn removed(url: &str, which: &str) -> (u16, Value) {
    let path = format!("/_faults{which}");
    faults(url, Method::DELETE, &path, String::new()).await
}

#[tokio::test]
async fn rules_of_a_list_meet_their_calls_and_count_them() {
    let world = world().await;
    let rules = json!([
        {"service": "kinesis", "operation": "ListShards", "action": "throttle", "count": 1},
        {"service": "kinesis", "operation": "GetShardIterator", "key": shard(1), "action": "internal"},
        {"service": "kinesis", "operation": "ListStreams", "action": "error", "code": "AccessDeniedException", "skip": 1},
    ]);
    assert_eq!(set(&world, rules).await, (200, json!({"ids": [1, 2, 3]})));

    let k = &world.kinesis;
    let list_shards = || k.list_shards().stream_name("s").send();
    assert_eq!(
        code(list_shards().await),
        "LimitExceededException",
        "as AWS throttles this operation"
    );
    list_shards().await.expect("once only");
    let iterator = |index| {
        let get = k.get_shard_iterator().stream_name("s");
        let get = get.shard_id(shard(index));
        get.shard_iterator_type("LATEST".into()).send()
    };
    iterator(0).await.expect("another shard");
    assert_eq!(code(iterator(1).await), "InternalFailure");
    let skipped = k.list_streams().send().await;
    skipped.expect("the first is skipped");
    assert_eq!(code(k.list_streams().send().await), "AccessDeniedException");

    let (kinesis, dynamodb) = (world.aws.kinesis_url(), world.aws.dynamodb_url());
    let rules = listed(&dynamodb).await;
    let hits: Vec<_> = rules
        .iter()
        .map(|rule| (rule["id"].as_u64(), rule["hits"].as_u64()))
        .collect();
    assert_eq!(
        hits,
        [(Some(1), Some(1)), (Some(2), Some(1)), (Some(3), Some(1))],
        "the same rules on both ports"
    );
    assert_eq!(removed(&kinesis, "/2").await.0, 200);
    iterator(1).await.expect("the rule is gone");
    assert_eq!(removed(&kinesis, "/2").await.0, 404);
}

#[tokio::test]
async fn of_a_list_with_a_bad_rule_none_is_set() {
    let world = world().await;
    let bad = json!([{"action": "throttle"}, {"action": "throttle", "probability": 7}]);
    let (status, refused) = set(&world, bad).await;
    assert_eq!(
        (status, refused["error"].as_str()),
        (
            400,
            Some("rule 2: \"probability\" is 7; it must be between 0 and 1")
        )
    );
    assert_eq!(
        listed(&world.aws.kinesis_url()).await,
        Vec::<Value>::new(),
        "none of a bad list"
    );
}

#[tokio::test]
async fn all_rules_are_removed_at_once() {
    let world = world().await;
    let two = json!([{"action": "throttle"}, {"action": "internal"}]);
    assert_eq!(set(&world, two).await, (200, json!({"ids": [1, 2]})));
    let (kinesis, dynamodb) = (world.aws.kinesis_url(), world.aws.dynamodb_url());
    assert_eq!(listed(&kinesis).await.len(), 2);
    assert_eq!(removed(&dynamodb, "").await, (200, json!([])));
    assert_eq!(listed(&kinesis).await, Vec::<Value>::new());
    assert_eq!(
        faults(&kinesis, Method::PUT, "/_faults", String::new())
            .await
            .0,
        405
    );
}

#[tokio::test]
async fn cut_and_lost_calls_close_the_connection() {
    let world = world().await;
    let add = async |operation: &str, action: &str| {
        let rule = json!({"operation": operation, "action": action, "count": 1});
        assert_eq!(set(&world, rule).await.0, 200);
    };
    let url = world.aws.kinesis_url();
    let put = |data: &str| {
        let put = kinesis_client(&url).put_record().stream_name("s");
        let put = put.partition_key("k").explicit_hash_key("0");
        put.data(Blob::new(data)).send()
    };
    for action in ["cut", "lost"] {
        add("PutRecord", action).await;
        let error = put(action).await.expect_err(action);
        assert!(error.as_service_error().is_none(), "{error:?}");
    }
    put("kept").await.expect("put");
    assert_eq!(
        world.drain("s", 0).await.0,
        ["lost", "kept"],
        "a cut call is not carried out, a lost one is"
    );
}

#[tokio::test]
async fn a_body_that_is_cut_ends_early() {
    let world = world().await;
    let cut = json!({"operation": "DescribeLimits", "action": "cut", "after_bytes": 10});
    assert_eq!(set(&world, cut).await.0, 200);
    let headers = [
        ("content-type", JSON),
        ("x-amz-target", "Kinesis_20131202.DescribeLimits"),
    ];
    let url = world.aws.kinesis_url();
    let answer = send(&url, Method::POST, "/", &headers, "{}").await;
    assert!(answer.is_err(), "the body ends early");
}
