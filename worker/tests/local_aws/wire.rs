//! The embedded Kinesis as bytes: CBOR, error shapes, malformed requests, and fault rules over HTTP, by a client that is no SDK.

use crate::world::{World, code, kinesis_client, shard, start};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use shardkeeper::local::model::ModelOptions;

const JSON: &str = "application/x-amz-json-1.1";
const CBOR: &str = "application/x-amz-cbor-1.1";

struct Answer {
    status: StatusCode,
    content_type: String,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// One request over a connection of its own; an error if the connection ends before the whole answer.
async fn send(
    url: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Answer, hyper::Error> {
    let address = url.trim_start_matches("http://").to_owned();
    let stream = tokio::net::TcpStream::connect(&address)
        .await
        .expect("connected");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender
        .send_request(request.body(Full::new(body.into())).expect("a request"))
        .await?;
    let status = response.status();
    let content_type = response
        .headers()
        .get("content-type")
        .map(|v| v.to_str().expect("ascii").to_owned());
    let body = response.into_body().collect().await?.to_bytes();
    Ok(Answer {
        status,
        content_type: content_type.unwrap_or_default(),
        body,
    })
}

async fn call(
    world: &World,
    content_type: &str,
    operation: &str,
    body: impl Into<Bytes>,
) -> Answer {
    let target = format!("Kinesis_20131202.{operation}");
    let headers = [
        ("content-type", content_type),
        ("x-amz-target", target.as_str()),
    ];
    send(&world.aws.kinesis_url(), Method::POST, "/", &headers, body)
        .await
        .expect("answered")
}

/// A CBOR writer for these tests alone: what the front reads must not come from the front's own writer.
fn head(major: u8, n: usize) -> Vec<u8> {
    match n {
        0..=23 => vec![major << 5 | n as u8],
        24..=255 => vec![major << 5 | 24, n as u8],
        _ => [&[major << 5 | 25][..], &(n as u16).to_be_bytes()].concat(),
    }
}

fn text(s: &str) -> Vec<u8> {
    [head(3, s.len()), s.into()].concat()
}

fn blob(b: &[u8]) -> Vec<u8> {
    [head(2, b.len()), b.into()].concat()
}

fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let members = members
        .iter()
        .flat_map(|(name, value)| [text(name), value.clone()]);
    head(5, members.clone().count() / 2)
        .into_iter()
        .chain(members.flatten())
        .collect()
}

fn indefinite_map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let members = members
        .iter()
        .flat_map(|(name, value)| [text(name), value.clone()])
        .flatten();
    std::iter::once(0xBF).chain(members).chain([0xFF]).collect()
}

/// The value of a text member found by its encoded name; good for names that occur once.
fn text_member(body: &[u8], name: &str) -> String {
    let name = text(name);
    let at = body
        .windows(name.len())
        .position(|w| w == name)
        .expect("member")
        + name.len();
    let (start, length) = match body[at] {
        0x78 => (at + 2, usize::from(body[at + 1])),
        0x79 => (
            at + 3,
            usize::from(u16::from_be_bytes([body[at + 1], body[at + 2]])),
        ),
        short => (at + 1, usize::from(short & 0x1F)),
    };
    String::from_utf8(body[start..start + length].to_vec()).expect("text")
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|w| w == part)
}

#[tokio::test]
async fn cbor_carries_every_operation() {
    let world = start(ModelOptions::default()).await;
    let created = call(
        &world,
        CBOR,
        "CreateStream",
        map(&[("StreamName", text("s")), ("ShardCount", vec![1])]),
    )
    .await;
    assert_eq!(
        (
            created.status,
            created.content_type.as_str(),
            created.body.len()
        ),
        (StatusCode::OK, CBOR, 0)
    );

    // Indefinite lengths, and a list within, as the Java SDK writes them.
    let record = indefinite_map(&[
        ("Data", blob(&[0, 0xFF, 1])),
        ("PartitionKey", text("k\"é")),
    ]);
    let records = [&[0x9F][..], &record, &record, &[0xFF]].concat();
    let put = call(
        &world,
        CBOR,
        "PutRecords",
        indefinite_map(&[("Records", records), ("StreamName", text("s"))]),
    )
    .await;
    assert_eq!(put.status, StatusCode::OK);
    assert!(contains(
        &put.body,
        &[&text("FailedRecordCount")[..], &[0]].concat()
    ));

    let trim_horizon = map(&[
        ("StreamName", text("s")),
        ("ShardId", text(&shard(0))),
        ("ShardIteratorType", text("TRIM_HORIZON")),
    ]);
    let iterator = text_member(
        &call(&world, CBOR, "GetShardIterator", trim_horizon)
            .await
            .body,
        "ShardIterator",
    );
    let page = call(
        &world,
        CBOR,
        "GetRecords",
        map(&[("ShardIterator", text(&iterator)), ("Limit", vec![1])]),
    )
    .await;
    assert_eq!(
        (page.status, page.content_type.as_str()),
        (StatusCode::OK, CBOR)
    );
    assert!(
        contains(
            &page.body,
            &[&text("Data")[..], &blob(&[0, 0xFF, 1])].concat()
        ),
        "blobs are byte strings"
    );
    assert!(contains(&page.body, &text("k\"é")));
    let arrival = [
        &text("ApproximateArrivalTimestamp")[..],
        &[0xC1, 0x1B],
        &crate::world::T0.to_be_bytes(),
    ]
    .concat();
    assert!(
        contains(&page.body, &arrival),
        "timestamps are tag 1 and whole milliseconds"
    );
    let number = text_member(&page.body, "SequenceNumber");
    assert_eq!(number.len(), 56);

    // A timestamp in a request counts milliseconds as well: at this one both records are there, a millisecond later none.
    world.advance(1000);
    for (at, expect) in [(crate::world::T0, true), (crate::world::T0 + 1, false)] {
        let timestamp = [&[0xC1, 0x1B][..], &at.to_be_bytes()].concat();
        let request = map(&[
            ("StreamName", text("s")),
            ("ShardId", text(&shard(0))),
            ("ShardIteratorType", text("AT_TIMESTAMP")),
            ("Timestamp", timestamp),
        ]);
        let iterator = text_member(
            &call(&world, CBOR, "GetShardIterator", request).await.body,
            "ShardIterator",
        );
        let page = call(
            &world,
            CBOR,
            "GetRecords",
            map(&[("ShardIterator", text(&iterator))]),
        )
        .await;
        assert_eq!(contains(&page.body, &text("Data")), expect, "at {at}");
    }
    // The same record by the other protocol.
    let sdk = world
        .iterator(
            "s",
            &shard(0),
            aws_sdk_kinesis::types::ShardIteratorType::TrimHorizon,
        )
        .await;
    let sdk = world.page(&sdk).await;
    assert_eq!(
        (
            sdk.records[0].data.as_ref(),
            sdk.records[0].sequence_number.as_str()
        ),
        (&[0u8, 0xFF, 1][..], number.as_str())
    );
}

#[tokio::test]
async fn shard_end_is_told_in_cbor() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    world
        .kinesis
        .split_shard()
        .stream_name("s")
        .shard_to_split(shard(0))
        .new_starting_hash_key("5")
        .send()
        .await
        .expect("split");
    let iterator = world
        .iterator(
            "s",
            &shard(0),
            aws_sdk_kinesis::types::ShardIteratorType::TrimHorizon,
        )
        .await;
    let page = call(
        &world,
        CBOR,
        "GetRecords",
        map(&[("ShardIterator", text(&iterator))]),
    )
    .await;
    assert!(!contains(&page.body, &text("NextShardIterator")));
    let child = map(&[
        ("ShardId", text(&shard(1))),
        ("ParentShards", [head(4, 1), text(&shard(0))].concat()),
        (
            "HashKeyRange",
            map(&[("StartingHashKey", text("0")), ("EndingHashKey", text("4"))]),
        ),
    ]);
    assert!(contains(
        &page.body,
        &[&text("ChildShards")[..], &head(4, 2), &child].concat()
    ));
}

#[tokio::test]
async fn errors_have_the_shape_of_their_protocol() {
    let world = start(ModelOptions::default()).await;
    let refused = call(
        &world,
        JSON,
        "DescribeStreamSummary",
        r#"{"StreamName":"x"}"#,
    )
    .await;
    assert_eq!(
        (refused.status, refused.content_type.as_str()),
        (StatusCode::BAD_REQUEST, JSON)
    );
    assert_eq!(
        refused.json(),
        json!({"__type": "ResourceNotFoundException", "message": "Stream x under account 123456789012 not found."})
    );
    let refused = call(
        &world,
        CBOR,
        "DescribeStreamSummary",
        map(&[("StreamName", text("x"))]),
    )
    .await;
    assert_eq!(
        (refused.status, refused.content_type.as_str()),
        (StatusCode::BAD_REQUEST, CBOR)
    );
    assert_eq!(
        text_member(&refused.body, "__type"),
        "ResourceNotFoundException"
    );
    assert!(text_member(&refused.body, "message").starts_with("Stream x"));

    let cases = [
        ("MakeCoffee", "{}", "UnknownOperationException"),
        ("DescribeStream", "", "SerializationException"),
        (
            "DescribeStream",
            "{\"StreamName\":",
            "SerializationException",
        ),
        ("DescribeStream", "[]", "SerializationException"),
        (
            "DescribeStream",
            r#"{"StreamName":5}"#,
            "SerializationException",
        ),
        ("DescribeStream", "{}", "ValidationException"),
        ("CreateStream", r#"{"ShardCount":1}"#, "ValidationException"),
        (
            "CreateStream",
            r#"{"StreamName":"s","ShardCount":"1"}"#,
            "SerializationException",
        ),
        (
            "CreateStream",
            r#"{"StreamName":"s","ShardCount":0}"#,
            "ValidationException",
        ),
        (
            "PutRecord",
            r#"{"StreamName":"s","PartitionKey":"k","Data":"not base64"}"#,
            "SerializationException",
        ),
        (
            "PutRecord",
            r#"{"StreamName":"s","PartitionKey":"k"}"#,
            "ValidationException",
        ),
        ("GetRecords", r#"{"Limit":1}"#, "ValidationException"),
        (
            "ListShards",
            r#"{"StreamName":"s","ShardFilter":{"Type":"SOMETIMES"}}"#,
            "ValidationException",
        ),
        (
            "GetShardIterator",
            r#"{"StreamName":"s","ShardId":"x","ShardIteratorType":"NOW"}"#,
            "ValidationException",
        ),
        (
            "UpdateShardCount",
            r#"{"StreamName":"s","TargetShardCount":1,"ScalingType":"SOME"}"#,
            "ValidationException",
        ),
    ];
    for (operation, body, expect) in cases {
        let answer = call(&world, JSON, operation, body).await;
        assert_eq!(
            (answer.status, answer.json()["__type"].as_str()),
            (StatusCode::BAD_REQUEST, Some(expect)),
            "{operation} {body}"
        );
    }
    let broken_cbor = call(&world, CBOR, "DescribeStream", vec![0xA1, 0x61]).await;
    assert_eq!(
        text_member(&broken_cbor.body, "__type"),
        "SerializationException"
    );
    let no_target = send(
        &world.aws.kinesis_url(),
        Method::POST,
        "/",
        &[("content-type", JSON)],
        "{}",
    )
    .await
    .expect("answered");
    assert_eq!(no_target.json()["__type"], "UnknownOperationException");
    let get = send(&world.aws.kinesis_url(), Method::GET, "/", &[], "")
        .await
        .expect("answered");
    assert_eq!(get.status, StatusCode::NOT_FOUND);
    let xml = call(&world, "text/xml", "ListStreams", "<x/>").await;
    assert_eq!(xml.json()["__type"], "SerializationException");
}

#[tokio::test]
async fn fault_rules_are_set_listed_and_removed_over_http() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 2).await;
    let (kinesis, dynamodb) = (world.aws.kinesis_url(), world.aws.dynamodb_url());
    let faults = |url: String, method: Method, path: &'static str, body: String| async move {
        let answer = send(&url, method, path, &[], body).await.expect("answered");
        (answer.status.as_u16(), answer.json())
    };
    let rules = json!([
        {"service": "kinesis", "operation": "ListShards", "action": "throttle", "count": 1},
        {"service": "kinesis", "operation": "GetShardIterator", "key": shard(1), "action": "internal"},
        {"service": "kinesis", "operation": "ListStreams", "action": "error", "code": "AccessDeniedException", "skip": 1},
    ]);
    assert_eq!(
        faults(kinesis.clone(), Method::POST, "/_faults", rules.to_string()).await,
        (200, json!({"ids": [1, 2, 3]}))
    );

    let list_shards = || world.kinesis.list_shards().stream_name("s").send();
    assert_eq!(
        code(list_shards().await),
        "LimitExceededException",
        "as AWS throttles this operation"
    );
    list_shards().await.expect("once only");
    let iterator = |index| {
        world
            .kinesis
            .get_shard_iterator()
            .stream_name("s")
            .shard_id(shard(index))
            .shard_iterator_type("LATEST".into())
            .send()
    };
    iterator(0).await.expect("another shard");
    assert_eq!(code(iterator(1).await), "InternalFailure");
    world
        .kinesis
        .list_streams()
        .send()
        .await
        .expect("the first is skipped");
    assert_eq!(
        code(world.kinesis.list_streams().send().await),
        "AccessDeniedException"
    );

    let (status, listed) = faults(dynamodb.clone(), Method::GET, "/_faults", String::new()).await;
    let hits: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|rule| (rule["id"].as_u64(), rule["hits"].as_u64()))
        .collect();
    assert_eq!(
        (status, hits),
        (
            200,
            vec![(Some(1), Some(1)), (Some(2), Some(1)), (Some(3), Some(1))]
        ),
        "the same rules on both ports"
    );

    assert_eq!(
        faults(kinesis.clone(), Method::DELETE, "/_faults/2", String::new())
            .await
            .0,
        200
    );
    iterator(1).await.expect("the rule is gone");
    assert_eq!(
        faults(kinesis.clone(), Method::DELETE, "/_faults/2", String::new())
            .await
            .0,
        404
    );
    let bad = json!([{"action": "throttle"}, {"action": "throttle", "probability": 7}]);
    let (status, refused) =
        faults(kinesis.clone(), Method::POST, "/_faults", bad.to_string()).await;
    assert_eq!(
        (status, refused["error"].as_str()),
        (
            400,
            Some("rule 2: \"probability\" is 7; it must be between 0 and 1")
        )
    );
    assert_eq!(
        faults(kinesis.clone(), Method::GET, "/_faults", String::new())
            .await
            .1
            .as_array()
            .map(Vec::len),
        Some(2),
        "none of a bad list"
    );
    assert_eq!(
        faults(dynamodb, Method::DELETE, "/_faults", String::new()).await,
        (200, json!([]))
    );
    assert_eq!(
        faults(kinesis, Method::PUT, "/_faults", String::new())
            .await
            .0,
        405
    );
}

#[tokio::test]
async fn cut_and_lost_calls_close_the_connection() {
    let world = start(ModelOptions::default()).await;
    world.create("s", 1).await;
    let url = world.aws.kinesis_url();
    let add = |rule: Value| {
        let url = url.clone();
        async move {
            assert_eq!(
                send(&url, Method::POST, "/_faults", &[], rule.to_string())
                    .await
                    .expect("answered")
                    .status,
                StatusCode::OK
            )
        }
    };
    let put = |data: &str| {
        kinesis_client(&url)
            .put_record()
            .stream_name("s")
            .partition_key("k")
            .data(aws_sdk_kinesis::primitives::Blob::new(data))
            .send()
    };
    add(json!({"operation": "PutRecord", "action": "cut", "count": 1})).await;
    assert!(
        put("cut")
            .await
            .expect_err("cut")
            .as_service_error()
            .is_none()
    );
    add(json!({"operation": "PutRecord", "action": "lost", "count": 1})).await;
    assert!(
        put("lost")
            .await
            .expect_err("lost")
            .as_service_error()
            .is_none()
    );
    put("kept").await.expect("put");
    assert_eq!(
        world.drain("s", &shard(0)).await.0,
        ["lost", "kept"],
        "a cut call is not carried out, a lost one is"
    );

    add(json!({"operation": "DescribeLimits", "action": "cut", "after_bytes": 10})).await;
    let headers = [
        ("content-type", JSON),
        ("x-amz-target", "Kinesis_20131202.DescribeLimits"),
    ];
    assert!(
        send(&url, Method::POST, "/", &headers, "{}").await.is_err(),
        "the body ends early"
    );
}
