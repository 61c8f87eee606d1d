//! Refused requests: the shape of an error in each protocol, and the code for each kind of nonsense.

use super::encode::{map, text, text_member};
use super::{Answer, CBOR, JSON, call, send};
use crate::world::{World, start};
use hyper::{Method, StatusCode};
use serde_json::json;
use shardkeeper::local::model::ModelOptions;

async fn world() -> World {
    start(ModelOptions::default()).await
}

fn head(answer: &Answer) -> (StatusCode, &str) {
    (answer.status, &answer.content_type)
}

#[tokio::test]
async fn errors_have_the_shape_of_their_protocol() {
    let world = world().await;
    let describe = "DescribeStreamSummary";
    let refused = call(&world, JSON, describe, r#"{"StreamName":"x"}"#).await;
    assert_eq!(head(&refused), (StatusCode::BAD_REQUEST, JSON));
    assert_eq!(
        refused.json(),
        json!({"__type": "ResourceNotFoundException", "message": "Stream x under account 123456789012 not found."})
    );
    let refused = call(&world, CBOR, describe, map(&[("StreamName", text("x"))])).await;
    assert_eq!(head(&refused), (StatusCode::BAD_REQUEST, CBOR));
    assert_eq!(
        text_member(&refused.body, "__type"),
        "ResourceNotFoundException"
    );
    assert!(text_member(&refused.body, "message").starts_with("Stream x"));
}

/// Each of these requests in JSON is refused with this code.
async fn all_refused(expect: &str, cases: &[(&str, &str)]) {
    let world = world().await;
    for (operation, body) in cases {
        let answer = call(&world, JSON, operation, (*body).to_owned()).await;
        assert_eq!(
            (answer.status, answer.json()["__type"].as_str()),
            (StatusCode::BAD_REQUEST, Some(expect)),
            "{operation} {body}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_serialization_exception() {
    let cases = [
        ("DescribeStream", ""),
        ("DescribeStream", r#"{"StreamName":"#),
        ("DescribeStream", "[]"),
        ("DescribeStream", r#"{"StreamName":5}"#),
        ("CreateStream", r#"{"StreamName":"s","ShardCount":"1"}"#),
        (
            "PutRecord",
            r#"{"StreamName":"s","PartitionKey":"k","Data":"not base64"}"#,
        ),
    ];
    all_refused("SerializationException", &cases).await;

    let world = world().await;
    let broken_cbor = call(&world, CBOR, "DescribeStream", vec![0xA1, 0x61]).await;
    assert_eq!(
        text_member(&broken_cbor.body, "__type"),
        "SerializationException"
    );
    let xml = call(&world, "text/xml", "ListStreams", "<x/>").await;
    assert_eq!(xml.json()["__type"], "SerializationException");
}

#[tokio::test]
async fn what_is_missing_or_out_of_range_is_a_validation_exception() {
    let cases = [
        ("DescribeStream", "{}"),
        ("CreateStream", r#"{"ShardCount":1}"#),
        ("CreateStream", r#"{"StreamName":"s","ShardCount":0}"#),
        ("PutRecord", r#"{"StreamName":"s","PartitionKey":"k"}"#),
        ("GetRecords", r#"{"Limit":1}"#),
        (
            "ListShards",
            r#"{"StreamName":"s","ShardFilter":{"Type":"SOMETIMES"}}"#,
        ),
        (
            "GetShardIterator",
            r#"{"StreamName":"s","ShardId":"x","ShardIteratorType":"NOW"}"#,
        ),
        (
            "UpdateShardCount",
            r#"{"StreamName":"s","TargetShardCount":1,"ScalingType":"SOME"}"#,
        ),
    ];
    all_refused("ValidationException", &cases).await;
}

#[tokio::test]
async fn what_is_no_operation_is_told_so() {
    all_refused("UnknownOperationException", &[("MakeCoffee", "{}")]).await;

    let world = world().await;
    let url = world.aws.kinesis_url();
    let no_target = send(&url, Method::POST, "/", &[("content-type", JSON)], "{}").await;
    let no_target = no_target.expect("answered");
    assert_eq!(no_target.json()["__type"], "UnknownOperationException");
    let get = send(&url, Method::GET, "/", &[], "").await;
    assert_eq!(get.expect("answered").status, StatusCode::NOT_FOUND);
}
