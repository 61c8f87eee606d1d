//! The embedded Kinesis as bytes, by a client that is no SDK.

mod cbor;
mod encode;
mod errors;
mod faults;

use crate::world::World;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;

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
