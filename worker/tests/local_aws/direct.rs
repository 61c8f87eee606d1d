//! GetRecords without the SDK's orchestration: which calls go which way, that both are signed as AWS demands, and that
//! whatever goes wrong is told and puts the next call in the SDK's hands.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
    time::SystemTime,
};

use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_kinesis::config::{Builder, Credentials, Region};
use bytes::Bytes;
use shardkeeper::source::{
    Page, ShardIterator, Source, SourceError,
    kinesis::{KinesisClient, KinesisSource, Protocol},
};

use crate::notary::{Call, Notary, Reply, Way};

const ARN: &str = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders";

fn source(url: &str, protocol: Protocol) -> KinesisSource {
    source_with(url, protocol, crate::notary::credentials())
}

fn source_with(
    url: &str,
    protocol: Protocol,
    credentials: impl ProvideCredentials + 'static,
) -> KinesisSource {
    let config = Builder::from(&crate::sdk::config(url))
        .region(Region::new("eu-west-1"))
        .credentials_provider(credentials);
    let client = KinesisClient::from_conf(config, protocol);
    KinesisSource::new(client, "orders".into(), Some(ARN.into()))
}

async fn ask(source: &KinesisSource) -> Result<Page, SourceError> {
    let iterator = ShardIterator(Bytes::from_static(b"AAAA/it+er=ator"));
    source.records(&iterator, 1_234).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_first_call_is_the_pattern_of_the_next_and_both_are_signed() {
    let notary = Notary::start().await;
    let source = source(&notary.url, Protocol::Cbor);
    for _ in 0..3 {
        ask(&source).await.expect("a page");
    }
    let calls = notary.calls();
    let ways: Vec<Way> = calls.iter().map(|call| call.way).collect();
    assert_eq!(ways, [Way::Sdk, Way::Direct, Way::Direct]);
    for call in &calls {
        call.assert_signed_for("eu-west-1", "kinesis");
        assert_eq!(call.header("x-amz-security-token"), Some("token"));
        assert_eq!(call.header("user-agent"), calls[0].header("user-agent"));
        let asked = call.question();
        assert_eq!(asked.iterator, "AAAA/it+er=ator");
        assert_eq!(asked.arn.as_deref(), Some(ARN));
        assert_eq!(asked.limit, 1_234);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_error_is_told_and_the_next_call_is_the_sdks() {
    for (reply, told) in [
        (
            Reply::error(400, "ProvisionedThroughputExceededException"),
            "throttled",
        ),
        (
            Reply::error(400, "ExpiredIteratorException"),
            "expired_iterator",
        ),
        (Reply::error(400, "AccessDeniedException"), "denied"),
        (Reply::error(500, "InternalFailure"), "failed"),
        (Reply::Json, "failed"),
        (Reply::Html, "failed"),
        (Reply::Unreadable, "failed"),
        (Reply::Cut, "failed"),
    ] {
        let notary = Notary::start().await;
        let source = source(&notary.url, Protocol::Cbor);
        ask(&source).await.expect("the SDK's");
        notary.say(reply.clone());
        let error = ask(&source).await.expect_err("refused");
        assert_eq!(error.kind(), told, "{reply:?}: {error}");
        notary.say(Reply::Page);
        for _ in 0..2 {
            ask(&source).await.expect("a page");
        }
        let mut ways = notary.calls().into_iter().map(|call| call.way);
        assert_eq!(ways.next(), Some(Way::Sdk));
        assert_eq!(ways.next(), Some(Way::Direct), "{reply:?}");
        // A connection that was cut may have been tried again by the HTTP client.
        let rest: Vec<Way> = ways.skip_while(|way| *way == Way::Direct).collect();
        assert_eq!(rest, [Way::Sdk, Way::Direct], "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_failed_call_is_no_pattern() {
    let notary = Notary::start().await;
    let source = source(&notary.url, Protocol::Cbor);
    notary.say(Reply::error(400, "AccessDeniedException"));
    for _ in 0..2 {
        ask(&source).await.expect_err("denied");
    }
    assert!(notary.calls().iter().all(|call| call.way == Way::Sdk));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_thousandth_call_is_the_sdks() {
    let notary = Notary::start().await;
    let source = source(&notary.url, Protocol::Cbor);
    for _ in 0..2_003 {
        ask(&source).await.expect("a page");
    }
    let calls = notary.calls();
    let sdk: Vec<usize> = (0..calls.len())
        .filter(|at| calls[*at].way == Way::Sdk)
        .collect();
    assert_eq!(sdk, [0, 1_001, 2_002]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn where_the_clocks_differ_it_signs_by_the_servers() {
    let notary = Notary::start().await;
    notary.set_ahead(3_600);
    let source = source(&notary.url, Protocol::Cbor);
    notary.say(Reply::error(400, "InvalidSignatureException"));
    ask(&source).await.expect_err("signed by the wrong clock");
    notary.say(Reply::Page);
    for _ in 0..2 {
        ask(&source).await.expect("a page");
    }
    let calls = notary.calls();
    assert!(calls[0].seconds_off() < -3_500, "by this host's clock");
    assert!(
        calls[1].seconds_off().abs() < 60,
        "the SDK has corrected it"
    );
    assert_eq!(calls[2].way, Way::Direct);
    assert!(
        calls[2].seconds_off().abs() < 60,
        "and so does the direct way"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn json_is_left_to_the_sdk() {
    let notary = Notary::start().await;
    let source = source(&notary.url, Protocol::Json);
    notary.say(Reply::Json);
    for _ in 0..3 {
        ask(&source).await.expect("a page");
    }
    assert!(notary.calls().iter().all(|call| call.way == Way::Sdk));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_credentials_are_taken_up() {
    let notary = Notary::start().await;
    let source = source_with(&notary.url, Protocol::Cbor, Fresh::default());
    for _ in 0..3 {
        ask(&source).await.expect("a page");
    }
    let calls = notary.calls();
    assert_eq!(calls[2].way, Way::Direct);
    let keys: BTreeSet<String> = calls.iter().map(Call::access_key).collect();
    assert!(keys.len() > 1, "one of these has expired: {keys:?}");
}

/// Credentials that have expired when they are given out, so that no cache keeps them.
#[derive(Debug, Default)]
struct Fresh(AtomicU32);

impl ProvideCredentials for Fresh {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let key = format!("key-{}", self.0.fetch_add(1, Ordering::SeqCst));
        let expired = SystemTime::UNIX_EPOCH;
        let credentials = Credentials::new(key, "secret", None, Some(expired), "test");
        future::ProvideCredentials::ready(Ok(credentials))
    }
}
