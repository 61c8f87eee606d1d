//! The gate before the embedded DynamoDB: applies the fault rules, answers what dynoxide does not know, passes the rest on.
//! Each connection of a client has one connection to dynoxide, so requests keep their order and none waits for another's.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::clock::Clock;
use super::faults::{Action, Faults, Rule, Service};
use super::http::{self, Body, Cut, Handler, Reply};

const TARGET: &str = "DynamoDB_20120810.";
const JSON: &str = "application/x-amz-json-1.0";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Gate {
    pub upstream: SocketAddr,
    pub faults: Faults,
    pub clock: Clock,
    /// Tables whose point-in-time recovery is on.
    pub recoverable: Arc<Mutex<BTreeSet<String>>>,
}

/// One connection of a client.
pub(crate) struct GateConnection {
    gate: Gate,
    upstream: tokio::sync::Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Gate {
    pub(crate) fn connection(&self) -> GateConnection {
        GateConnection {
            gate: self.clone(),
            upstream: tokio::sync::Mutex::new(None),
        }
    }
}

impl Handler for GateConnection {
    async fn handle(&self, request: Request<Incoming>) -> Reply {
        let Gate { faults, clock, .. } = &self.gate;
        let request = match http::answer_faults(faults, clock, request).await {
            Ok(response) => return Ok(response),
            Err(request) => request,
        };
        let target = request
            .headers()
            .get("x-amz-target")
            .and_then(|t| t.to_str().ok());
        let operation = target
            .and_then(|t| t.strip_prefix(TARGET))
            .unwrap_or_default()
            .to_owned();
        let (parts, body) = request.into_parts();
        let body = match http::body(Request::from_parts(parts.clone(), body)).await {
            Ok(body) => body,
            Err(refused) => return Ok(refused),
        };
        let verdict = faults.decide(
            Service::DynamoDb,
            &operation,
            |key| is_about(&body, key),
            clock(),
        );
        http::hold_back(&verdict).await;
        let Some(rule) = verdict.rule else {
            return Ok(self.answer(parts, body, &operation).await);
        };
        if let Some(refused) = refusal(&rule, &operation) {
            return Ok(refused);
        }
        match (rule.action, rule.after_bytes) {
            (Action::Cut, None) => Err(Cut),
            (Action::Cut, Some(after)) => {
                http::cut_within(self.answer(parts, body, &operation).await, after).await
            }
            _ => {
                // Carried out to the end before the client loses the connection.
                let _ = self
                    .answer(parts, body, &operation)
                    .await
                    .into_body()
                    .collect()
                    .await;
                Err(Cut)
            }
        }
    }
}

impl GateConnection {
    async fn answer(&self, parts: Parts, body: Bytes, operation: &str) -> Response<Body> {
        if matches!(
            operation,
            "UpdateContinuousBackups" | "DescribeContinuousBackups"
        ) {
            return self
                .continuous_backups(parts, &body, operation == "UpdateContinuousBackups")
                .await;
        }
        if operation == "DeleteTable"
            && let Some(table) = table_name(&body)
        {
            self.gate
                .recoverable
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&table);
        }
        self.pass_on(parts, body).await
    }

    /// Sends the request to dynoxide, over a new connection if the last one is gone.
    async fn pass_on(&self, mut parts: Parts, body: Bytes) -> Response<Body> {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        parts.headers.remove(hyper::header::TRANSFER_ENCODING);
        if let Ok(host) = HeaderValue::from_str(&self.gate.upstream.to_string()) {
            parts.headers.entry(HOST).or_insert(host);
        }
        match self.send(Request::from_parts(parts, Full::new(body))).await {
            Ok(response) => response.map(|body| body.map_err(|_| Cut).boxed_unsync()),
            Err(error) => refuse(
                500,
                "InternalServerError",
                &format!("the embedded DynamoDB does not answer: {error}"),
            ),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, BoxError> {
        let mut slot = self.upstream.lock().await;
        let mut sender = match slot.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => connect(self.gate.upstream).await?,
        };
        // An idle connection may have been closed without our noticing yet.
        if sender.ready().await.is_err() {
            sender = connect(self.gate.upstream).await?;
        }
        let response = sender.send_request(request).await?;
        *slot = Some(sender);
        Ok(response)
    }

    /// Point-in-time recovery: the setting is kept, and told; nothing can be recovered.
    async fn continuous_backups(
        &self,
        mut parts: Parts,
        body: &Bytes,
        update: bool,
    ) -> Response<Body> {
        let Some(table) = table_name(body) else {
            return refuse(
                400,
                "com.amazon.coral.validate#ValidationException",
                "TableName must be given",
            );
        };
        let enable = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
        let enable = enable
            .pointer("/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled")
            .and_then(serde_json::Value::as_bool);
        if update && enable.is_none() {
            return refuse(
                400,
                "com.amazon.coral.validate#ValidationException",
                "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled must be given",
            );
        }
        parts.headers.insert(
            "x-amz-target",
            HeaderValue::from_static("DynamoDB_20120810.DescribeTable"),
        );
        let describe = serde_json::json!({ "TableName": table }).to_string();
        if self.pass_on(parts, describe.into()).await.status() != StatusCode::OK {
            return refuse(
                400,
                "com.amazonaws.dynamodb.v20120810#TableNotFoundException",
                &format!("Table not found: {table}"),
            );
        }
        let mut recoverable = self
            .gate
            .recoverable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match enable.filter(|_| update) {
            Some(true) => drop(recoverable.insert(table.clone())),
            Some(false) => drop(recoverable.remove(&table)),
            None => {}
        }
        let status = if recoverable.contains(&table) {
            "ENABLED"
        } else {
            "DISABLED"
        };
        let recovery = serde_json::json!({ "PointInTimeRecoveryStatus": status });
        let answer = serde_json::json!({ "ContinuousBackupsDescription": { "ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": recovery } });
        http::reply(StatusCode::OK, JSON, answer.to_string())
    }
}

async fn connect(upstream: SocketAddr) -> Result<SendRequest<Full<Bytes>>, BoxError> {
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// The table a request names, by name or by ARN.
fn table_name(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let name = body.get("TableName")?.as_str()?;
    Some(name.rsplit('/').next().unwrap_or(name).to_owned())
}

/// Whether the request holds this word in quotes, as a table name or the value of a key does.
fn is_about(body: &[u8], key: &str) -> bool {
    let quoted = serde_json::to_string(key).unwrap_or_default();
    !quoted.is_empty()
        && body
            .windows(quoted.len())
            .any(|window| window == quoted.as_bytes())
}

/// The reply with which a rule refuses a call, if that is what it does.
fn refusal(rule: &Rule, operation: &str) -> Option<Response<Body>> {
    let control = [
        "CreateTable",
        "DeleteTable",
        "UpdateTable",
        "DescribeTable",
        "ListTables",
        "UpdateTimeToLive",
        "DescribeTimeToLive",
        "TagResource",
    ];
    let (status, code) = match rule.action {
        Action::Throttle if control.contains(&operation) => (
            400,
            "com.amazon.coral.availability#ThrottlingException".to_owned(),
        ),
        Action::Throttle => (
            400,
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException".to_owned(),
        ),
        Action::Internal => (
            500,
            "com.amazonaws.dynamodb.v20120810#InternalServerError".to_owned(),
        ),
        Action::Error => (
            400,
            format!(
                "com.amazonaws.dynamodb.v20120810#{}",
                rule.code.as_deref().unwrap_or_default()
            ),
        ),
        Action::Delay | Action::Cut | Action::Lost => return None,
    };
    Some(refuse(status, &code, "fault rule"))
}

fn refuse(status: u16, code: &str, message: &str) -> Response<Body> {
    let body = serde_json::json!({ "__type": code, "message": message }).to_string();
    http::reply(
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        JSON,
        body,
    )
}
