//! A server that speaks the JSON of Kinesis and meets CBOR in one of the ways that stand-ins have.
#![allow(unreachable_pub)] // a module of a test binary

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What it does with a request in CBOR.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// 400 and an error in JSON.
    JsonError,
    /// 403 and an error in JSON: it has signed another body.
    BadSignature,
    /// 404 and a page for people.
    Html,
    /// 200 and an answer in JSON to whatever it believes to have read.
    JsonSuccess,
    /// 500 and nothing.
    EmptyServerError,
    /// 503 and a page for people.
    Gateway,
    /// Closes the connection.
    Close,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) cbor: AtomicUsize,
    pub(crate) json: AtomicUsize,
}

pub(crate) struct Stranger {
    pub(crate) url: String,
    pub(crate) seen: Arc<Seen>,
}

const LIST: &str = r#"{"Shards":[{"ShardId":"shardId-000000000000","HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"340282366920938463463374607431768211455"},"SequenceNumberRange":{"StartingSequenceNumber":"1"}}]}"#;

impl Stranger {
    /// Serves for as long as the test's runtime lives.
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = shared.clone();
                let service = service_fn(move |request| answer(request, manner, seen.clone()));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Stranger { url, seen }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("closed")]
struct Closed;

async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, Closed> {
    let kind = request.headers().get("content-type");
    if kind.is_some_and(|kind| kind == "application/x-amz-json-1.1") {
        seen.json.fetch_add(1, Ordering::SeqCst);
        return Ok(reply(200, "application/x-amz-json-1.1", LIST));
    }
    assert_eq!(kind.expect("a content type"), "application/x-amz-cbor-1.1");
    assert_eq!(
        request.headers()["x-amz-target"],
        "Kinesis_20131202.ListShards"
    );
    seen.cbor.fetch_add(1, Ordering::SeqCst);
    let json = "application/x-amz-json-1.1";
    match manner {
        Manner::JsonError => Ok(reply(400, json, r#"{"__type":"SerializationException"}"#)),
        Manner::BadSignature => Ok(reply(
            403,
            json,
            r#"{"__type":"InvalidSignatureException"}"#,
        )),
        Manner::Html => Ok(reply(404, "text/html", "<h1>what?</h1>")),
        Manner::JsonSuccess => Ok(reply(200, json, LIST)),
        Manner::EmptyServerError => Ok(reply(500, "text/plain", "")),
        Manner::Gateway => Ok(reply(503, "text/html", "<h1>nobody is here</h1>")),
        Manner::Close => Err(Closed),
    }
}

fn reply(status: u16, kind: &'static str, body: &'static str) -> Response<Full<Bytes>> {
    Response::builder()
        .status(StatusCode::from_u16(status).expect("a status"))
        .header("content-type", kind)
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .expect("a reply")
}
