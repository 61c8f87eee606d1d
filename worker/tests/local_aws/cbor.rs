//! The source of Kinesis records in CBOR and in JSON, over HTTP: what it reads, how errors are told, and how it finds out
//! which of the two the other side speaks.

use std::sync::atomic::Ordering;

use crate::sdk;
use crate::stranger::{Manner, Stranger};
use crate::world::{HALF, T0, World, shard, start};
use aws_sdk_kinesis::config::Builder;
use lease::ShardId;
use shardkeeper::{
    local::{
        faults::{Action, Rule, Service},
        model::{ModelOptions, PutEntry},
    },
    source::{
        From, Page, Source, SourceError,
        kinesis::{KinesisClient, KinesisSource, Protocol},
    },
};

fn source(url: &str, protocol: Protocol) -> (KinesisSource, KinesisClient) {
    let client = KinesisClient::from_conf(Builder::from(&sdk::config(url)), protocol);
    let source = KinesisSource::new(client.clone(), "orders".into(), None);
    (source, client)
}

fn id(index: u32) -> ShardId {
    ShardId::from(shard(index))
}

async fn world_with_records() -> World {
    let world = start(ModelOptions::default()).await;
    world.create("orders", 1).await;
    for n in 0..5_u8 {
        let entry = PutEntry::new(format!("schlüssel-{n}"), vec![n; usize::from(n) * 100]);
        let kinesis = world.aws.kinesis();
        kinesis
            .lock()
            .put_record("orders", &entry, world.now())
            .expect("put");
        world.advance(1_000);
    }
    world
}

async fn read_from(source: &KinesisSource, from: &From) -> Page {
    let iterator = source.iterator(&id(0), from).await.expect("an iterator");
    source.records(&iterator, 1_000).await.expect("a page")
}

#[tokio::test]
async fn both_encodings_tell_the_same() {
    let world = world_with_records().await;
    let (json, json_client) = source(&world.aws.kinesis_url(), Protocol::Json);
    let (auto, auto_client) = source(&world.aws.kinesis_url(), Protocol::Auto);
    assert_eq!(
        json.list_shards().await.expect("listed"),
        auto.list_shards().await.expect("listed")
    );
    assert_eq!(json_client.speaks(), Protocol::Json);
    assert_eq!(auto_client.speaks(), Protocol::Cbor);

    let all = read_from(&json, &From::TrimHorizon).await;
    assert_eq!(all.records.len(), 5);
    let third = all.records[2].sequence.clone();
    for (from, count) in [
        (From::TrimHorizon, 5),
        (From::At(third.clone()), 3),
        (From::After(third), 2),
        // Between the second and the third record: a millisecond decides.
        (From::AtTimestamp(T0 + 2_000), 3),
        (From::AtTimestamp(T0 + 2_001), 2),
    ] {
        let (ours, theirs) = (read_from(&auto, &from).await, read_from(&json, &from).await);
        assert_eq!(ours.records, theirs.records, "{from:?}");
        assert_eq!(ours.records.len(), count, "{from:?}");
        assert_eq!(ours.behind, theirs.behind);
        assert!(ours.next.is_some());
    }
    for millis in [T0, T0 + 1] {
        assert_eq!(
            json.open_at(millis).await.expect("listed"),
            auto.open_at(millis).await.expect("listed")
        );
    }
}

#[tokio::test]
async fn records_in_cbor_are_slices_of_one_answer() {
    let world = world_with_records().await;
    let (source, _) = source(&world.aws.kinesis_url(), Protocol::Cbor);
    let page = read_from(&source, &From::TrimHorizon).await;
    let whole: usize = 5 * 300 + page.bytes();
    let places: Vec<usize> = page
        .records
        .iter()
        .skip(1) // the first has no payload
        .flat_map(|record| {
            let key = record.partition_key.as_bytes().as_ptr();
            let sequence = record.sequence.as_str().as_ptr();
            [record.data.as_ptr(), key, sequence].map(|place| place as usize)
        })
        .collect();
    let (first, last) = (places.iter().min(), places.iter().max());
    let span = last.expect("records") - first.expect("records");
    assert!(span < whole, "{places:?} do not lie in one answer");
}

#[tokio::test]
async fn the_end_of_a_shard_and_its_children_are_told() {
    let world = world_with_records().await;
    world.split("orders", 0, HALF).await.expect("split");
    let mut ends = Vec::new();
    for protocol in [Protocol::Cbor, Protocol::Json] {
        let (source, _) = source(&world.aws.kinesis_url(), protocol);
        let mut iterator = source
            .iterator(&id(0), &From::TrimHorizon)
            .await
            .expect("an iterator");
        loop {
            let page = source.records(&iterator, 1_000).await.expect("a page");
            match page.next {
                Some(next) => iterator = next,
                None => break ends.push(page.children),
            }
        }
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0].len(), 2);
}

#[tokio::test]
async fn errors_mean_the_same_in_both_encodings() {
    let world = world_with_records().await;
    let error = |code: &str| Rule {
        code: Some(code.to_owned()),
        ..Rule::new(Action::Error)
    };
    for protocol in [Protocol::Cbor, Protocol::Json, Protocol::Auto] {
        let (source, client) = source(&world.aws.kinesis_url(), protocol);
        let nobody = KinesisSource::new(client, "nobody".into(), None);
        let iterator = source
            .iterator(&id(0), &From::TrimHorizon)
            .await
            .expect("an iterator");
        let fault = |rule: Rule| {
            let rule = rule.on(Service::Kinesis, "GetRecords").times(1);
            world.aws.faults().add(rule, world.now()).expect("a rule");
        };
        let records = async || source.records(&iterator, 10).await.expect_err("refused");

        assert!(
            matches!(nobody.list_shards().await, Err(SourceError::NotFound(text)) if text.contains("nobody"))
        );
        fault(Rule::new(Action::Throttle));
        assert!(matches!(records().await, SourceError::Throttled(_)));
        fault(error("AccessDeniedException"));
        assert!(matches!(records().await, SourceError::Denied(_)));
        fault(error("KMSThrottlingException"));
        assert!(matches!(records().await, SourceError::Throttled(_)));
        fault(error("UnrecognizedClientException"));
        assert!(matches!(records().await, SourceError::Denied(_)));
        fault(Rule::new(Action::Internal));
        assert!(
            matches!(records().await, SourceError::Failed(text) if text.contains("InternalFailure"))
        );
        fault(Rule::new(Action::Cut));
        assert!(matches!(records().await, SourceError::Failed(_)));
        let bad = shardkeeper::source::ShardIterator("no iterator".into());
        assert!(matches!(
            source.records(&bad, 10).await,
            Err(SourceError::Invalid(_))
        ));
        world.advance(301_000);
        assert_eq!(records().await, SourceError::ExpiredIterator);
    }
}

#[tokio::test]
async fn whoever_speaks_only_json_is_recognised_by_the_first_answer() {
    for manner in [
        Manner::JsonError,
        Manner::Html,
        Manner::JsonSuccess,
        Manner::EmptyServerError,
        Manner::BadSignature,
    ] {
        let stranger = Stranger::start(manner).await;
        let (source, client) = source(&stranger.url, Protocol::Auto);
        for _ in 0..3 {
            let shards = source.list_shards().await;
            assert_eq!(shards.expect("listed").len(), 1, "{manner:?}");
        }
        assert_eq!(client.speaks(), Protocol::Json, "{manner:?}");
        assert_eq!(stranger.seen.cbor.load(Ordering::SeqCst), 1, "{manner:?}");
        assert_eq!(stranger.seen.json.load(Ordering::SeqCst), 3, "{manner:?}");
    }
}

#[tokio::test]
async fn first_calls_that_overlap_all_succeed() {
    let stranger = Stranger::start(Manner::JsonError).await;
    let (source, client) = source(&stranger.url, Protocol::Auto);
    let calls = (0..20).map(|_| source.list_shards());
    for shards in futures::future::join_all(calls).await {
        assert_eq!(shards.expect("listed").len(), 1);
    }
    assert_eq!(client.speaks(), Protocol::Json);
}

#[tokio::test]
async fn gateways_and_lost_connections_get_patience_before_json_is_tried() {
    for manner in [Manner::Gateway, Manner::Close] {
        let stranger = Stranger::start(manner).await;
        let (source, client) = source(&stranger.url, Protocol::Auto);
        for _ in 0..2 {
            assert!(matches!(
                source.list_shards().await,
                Err(SourceError::Failed(_))
            ));
            assert_eq!(client.speaks(), Protocol::Auto, "{manner:?}");
        }
        assert_eq!(
            source.list_shards().await.expect("listed").len(),
            1,
            "{manner:?}"
        );
        assert_eq!(client.speaks(), Protocol::Json, "{manner:?}");
    }
}

#[tokio::test]
async fn a_forced_encoding_is_the_only_one_that_is_used() {
    let stranger = Stranger::start(Manner::Html).await;
    let (forced, _) = source(&stranger.url, Protocol::Cbor);
    let error = forced.list_shards().await.expect_err("not understood");
    let error = error.to_string();
    assert_eq!(error, "HTTP 404: <h1>what?</h1>");
    assert_eq!(stranger.seen.json.load(Ordering::SeqCst), 0);

    let stranger = Stranger::start(Manner::JsonSuccess).await;
    let (forced, _) = source(&stranger.url, Protocol::Cbor);
    let error = forced.list_shards().await.expect_err("not understood");
    let error = error.to_string();
    assert!(error.contains("not in CBOR"), "{error}");

    let stranger = Stranger::start(Manner::JsonError).await;
    let (forced, _) = source(&stranger.url, Protocol::Json);
    forced.list_shards().await.expect("listed");
    assert_eq!(stranger.seen.cbor.load(Ordering::SeqCst), 0);
}
