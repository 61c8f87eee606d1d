//! What the Kinesis front and the DynamoDB gate share: accepting connections, replies, cutting, and the fault rules over HTTP.
//!
//! ```text
//!   GET    /_faults        the rules in force, with how often each fired
//!   POST   /_faults        adds a rule, or a list of rules; answers their ids
//!   DELETE /_faults        removes all rules;  DELETE /_faults/ID  removes one
//! ```

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clock::Clock;
use super::faults::{Faults, Rule, Verdict};

/// Above the largest request of either service (DynamoDB 16 MiB; PutRecords 10 MiB, a third more in base64).
const MAX_BODY: usize = 32 << 20;
/// How long running answers may take once the server stops.
const DRAIN: Duration = Duration::from_millis(500);
/// After an accept error (such as too many open files) wait this long for it to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connection is closed on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut by a fault rule")]
pub(crate) struct Cut;

pub(crate) type Body = UnsyncBoxBody<Bytes, Cut>;
pub(crate) type Reply = Result<Response<Body>, Cut>;

/// Answers the requests of one connection, one after another.
pub(crate) trait Handler: Send + Sync + 'static {
    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Reply> + Send;
}

/// Accepts until `stop` turns true; every connection gets its own handler.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
    handler: impl Fn() -> H,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, stop.clone(), handler()))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is still running then (a subscription, say) is cut when the set is dropped.
    let _ = tokio::time::timeout(DRAIN, drained).await;
}

/// Waits until the server is to stop; its owner's death counts.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection<H: Handler>(stream: TcpStream, mut stop: watch::Receiver<bool>, handler: H) {
    let _ = stream.set_nodelay(true);
    let handler = Arc::new(handler);
    let service = service_fn(|request| {
        let handler = Arc::clone(&handler);
        async move { handler.handle(request).await }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.max_buf_size(1 << 20);
    let mut served = pin!(server.serve_connection(TokioIo::new(stream), service));
    let running = tokio::select! {
        biased;
        ended = served.as_mut() => Some(ended),
        () = stopped(&mut stop) => None,
    };
    let ended = match running {
        Some(ended) => ended,
        None => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// The request's body, or the reply that refuses it.
pub(crate) async fn body(request: Request<Incoming>) -> Result<Bytes, Response<Body>> {
    let collected = Limited::new(request.into_body(), MAX_BODY).collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            let status = if error.is::<http_body_util::LengthLimitError>() {
                StatusCode::PAYLOAD_TOO_LARGE
            } else {
                StatusCode::BAD_REQUEST
            };
            reply(
                status,
                "text/plain",
                format!("cannot read the request: {error}\n"),
            )
        })
}

/// A reply whose body is at hand.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let body = Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A reply whose body comes in time.
pub(crate) fn reply_stream(
    content_type: &'static str,
    body: impl Stream<Item = Result<Frame<Bytes>, Cut>> + Send + 'static,
) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(body).boxed_unsync());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The same reply, cut after this many bytes of its body: the length it announces is the full one.
pub(crate) async fn cut_within(response: Response<Body>, after: u64) -> Reply {
    let (mut parts, body) = response.into_parts();
    let whole = body.collect().await?.to_bytes();
    let part = whole.slice(
        ..usize::try_from(after)
            .unwrap_or(usize::MAX)
            .min(whole.len()),
    );
    parts
        .headers
        .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    // The pause lets the first frame reach the socket before the connection is dropped.
    let frames = stream::once(async { Ok(Frame::data(part)) }).chain_cut();
    Ok(Response::from_parts(
        parts,
        StreamBody::new(frames).boxed_unsync(),
    ))
}

trait ChainCut: Stream<Item = Result<Frame<Bytes>, Cut>> + Sized {
    /// The same frames, then the cut.
    fn chain_cut(self) -> impl Stream<Item = Result<Frame<Bytes>, Cut>> {
        use futures::StreamExt as _;
        self.chain(stream::once(async {
            tokio::time::sleep(CUT_PAUSE).await;
            Err(Cut)
        }))
    }
}

impl<S: Stream<Item = Result<Frame<Bytes>, Cut>>> ChainCut for S {}

/// Lets what was written before a cut reach the socket.
pub(crate) const CUT_PAUSE: Duration = Duration::from_millis(20);

/// Waits out the delay of a verdict.
pub(crate) async fn hold_back(verdict: &Verdict) {
    if verdict.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(verdict.delay_ms)).await;
    }
}

/// Answers `/_faults`; `None` for any other path.
pub(crate) async fn answer_faults(
    faults: &Faults,
    clock: &Clock,
    request: Request<Incoming>,
) -> Result<Response<Body>, Request<Incoming>> {
    let path = request.uri().path();
    let Some(rest) = path
        .strip_prefix("/_faults")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
    else {
        return Err(request);
    };
    let id = rest.strip_prefix('/').map(str::parse::<u64>);
    Ok(match (request.method(), id) {
        (&Method::GET, None) => json(StatusCode::OK, &faults.list()),
        (&Method::POST, None) => match body(request).await {
            Ok(body) => add_rules(faults, clock, &body),
            Err(refused) => refused,
        },
        (&Method::DELETE, None) => {
            faults.clear();
            json(StatusCode::OK, &faults.list())
        }
        (&Method::DELETE, Some(Ok(id))) if faults.remove(id) => {
            json(StatusCode::OK, &faults.list())
        }
        (&Method::DELETE, Some(_)) => refuse(
            StatusCode::NOT_FOUND,
            &format!("no fault rule {}", rest.trim_start_matches('/')),
        ),
        (method, _) => refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            &format!("{method} is not allowed here"),
        ),
    })
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<serde_json::Value>),
    One(serde_json::Value),
}

fn add_rules(faults: &Faults, clock: &Clock, body: &[u8]) -> Response<Body> {
    let rules = match serde_json::from_slice(body) {
        Ok(OneOrMany::Many(rules)) => rules,
        Ok(OneOrMany::One(rule)) => vec![rule],
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("not JSON: {error}")),
    };
    let mut added = Vec::new();
    for (index, rule) in rules.into_iter().enumerate() {
        let rule = serde_json::from_value::<Rule>(rule).map_err(|e| e.to_string());
        match rule.and_then(|rule| faults.add(rule, clock()).map_err(|e| e.to_string())) {
            Ok(id) => added.push(id),
            Err(error) => {
                // All or nothing: a list half in force would be a surprise.
                for id in added {
                    faults.remove(id);
                }
                return refuse(
                    StatusCode::BAD_REQUEST,
                    &format!("rule {}: {error}", index + 1),
                );
            }
        }
    }
    json(StatusCode::OK, &serde_json::json!({ "ids": added }))
}

fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    json(status, &serde_json::json!({ "error": message }))
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    reply(status, "application/json", body)
}
