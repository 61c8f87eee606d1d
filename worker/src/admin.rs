//! The HTTP server for probes and Prometheus: `/livez`, `/readyz`, `/metrics`, and an index at `/`.
//!
//! It only reads, has no authentication, and listens on loopback unless told otherwise. One request per connection,
//! and every connection is bounded in time, so that no client can hold the server. [`Health`] decides what the probes
//! say; the loop below only carries it out.

mod health;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

pub use health::{Health, NotLive, NotReady};

use crate::metrics::Exporter;

/// Connections served at once; the next wait in the listener's queue.
const MOST_CONNECTIONS: usize = 64;
/// A request must be complete after so long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection must be done after so long, the answer taken included.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Answers in hand at shutdown get so long.
const GRACE: Duration = Duration::from_secs(1);
/// Between two foldings of histogram samples, which pile up while nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);
/// After a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a request's head at most; no legitimate one comes near.
const MOST_HEAD_BYTES: usize = 16 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";
/// The version Prometheus knows the text format by.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const INDEX: &str = "shardkeeper\n\n/livez    alive: the coordinator beats\n/readyz   ready: lease table reachable and \
                     leases loaded\n/metrics  Prometheus metrics\n";

/// The server could not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another process listens there: another worker on this host, most likely.
    #[error("admin.listen: {0} is in use by another process; choose another port, or \"off\"")]
    InUse(SocketAddr),
    /// The system refused the address for another reason.
    #[error("admin.listen: cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens on `address`.
///
/// # Errors
/// If the address is in use or not to be had.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => AdminError::InUse(address),
            _ => AdminError::Bind { address, source },
        })
}

/// Serves until `shutdown` completes, then finishes the answers in hand within a second.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Arc<Exporter>,
    shutdown: impl Future<Output = ()>,
) {
    let mut connections = FuturesUnordered::new();
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(()) = connections.next() => {}
            _ = upkeep.tick() => metrics.upkeep(),
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => connections.push(connection(stream, &health, &metrics)),
                Err(error) => {
                    tracing::warn!(%error, "admin server cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = timeout(GRACE, async { while connections.next().await.is_some() {} }).await;
}

/// One connection, one request. What goes wrong on it is the client's to notice.
async fn connection(stream: TcpStream, health: &Health, metrics: &Exporter) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(answer(
            request.method(),
            request.uri().path(),
            health,
            || metrics.render(),
        ))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MOST_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended early"),
        Err(_) => tracing::debug!("admin connection took too long"),
    }
}

/// What a request gets.
fn answer(
    method: &Method,
    path: &str,
    health: &Health,
    render: impl FnOnce() -> String,
) -> Response<Full<Bytes>> {
    if !["/", "/livez", "/readyz", "/metrics"].contains(&path) {
        return text(
            StatusCode::NOT_FOUND,
            TEXT,
            format!("no such page\n\n{INDEX}"),
        );
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal = text(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "this server only reads: GET or HEAD\n".to_owned(),
        );
        refusal
            .headers_mut()
            .insert(ALLOW, "GET, HEAD".parse().expect("a header value"));
        return refusal;
    }
    match path {
        "/livez" => probe(health.live()),
        "/readyz" => probe(health.ready()),
        "/metrics" => text(StatusCode::OK, EXPOSITION, render()),
        _ => text(StatusCode::OK, TEXT, INDEX.to_owned()),
    }
}

fn probe(verdict: Result<(), impl std::error::Error>) -> Response<Full<Bytes>> {
    match verdict {
        Ok(()) => text(StatusCode::OK, TEXT, "ok\n".to_owned()),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n")),
    }
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, content_type.parse().expect("a header value"));
    response
}
