//! The HTTP front of the in-memory Kinesis.
//!
//! ```text
//!   request ─▶ protocol (JSON 1.1 | CBOR 1.1) ─▶ Value ─▶ faults ─▶ ops ─▶ model
//!   answer  ◀─ page (records, encoded at put) | Value | events (SubscribeToShard) ◀──┘
//! ```

mod args;
pub(crate) mod cbor;
mod events;
mod ops;
mod page;
pub(crate) mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use self::args::Args;
use self::ops::Answer;
use self::value::Value;
use super::clock::Clock;
use super::faults::{Action, Faults, Rule, Service};
use super::http::{self, Body, Cut, Handler, Reply};
use super::model::{Code, Error, ShardIterator};
use super::shared::SharedKinesis;

const TARGET: &str = "Kinesis_20131202.";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// Answers the requests to Kinesis; clones share everything.
#[derive(Clone)]
pub(crate) struct Front {
    pub kinesis: SharedKinesis,
    pub faults: Faults,
    pub clock: Clock,
    /// For telling requests apart in the logs of clients.
    pub requests: Arc<AtomicU64>,
}

/// How bodies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Json,
    Cbor,
}

impl Protocol {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        match content_type.split(';').next()?.trim() {
            "application/x-amz-json-1.1" | "application/json" => Some(Self::Json),
            "application/x-amz-cbor-1.1" => Some(Self::Cbor),
            _ => None,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/x-amz-json-1.1",
            Self::Cbor => "application/x-amz-cbor-1.1",
        }
    }

    fn read(self, body: &Bytes) -> Result<Value<'_>, Error> {
        let value = match self {
            Self::Json => serde_json::from_slice(body).map_err(|e| e.to_string()),
            Self::Cbor => cbor::read(body).map_err(|e| e.to_string()),
        };
        match value {
            Ok(map @ Value::Map(_)) => Ok(map),
            Ok(_) => Err(Error::new(
                Code::Serialization,
                "the request body is not a structure",
            )),
            Err(error) => Err(Error::new(
                Code::Serialization,
                format!("the request body cannot be read: {error}"),
            )),
        }
    }

    fn write(self, value: &Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Json => value.write_json(&mut out),
            Self::Cbor => cbor::write(value, &mut out),
        }
        out
    }

    fn reply(self, status: StatusCode, body: Vec<u8>) -> Response<Body> {
        http::reply(status, self.content_type(), body)
    }

    fn refuse(self, status: u16, code: &str, message: &str) -> Response<Body> {
        let error = Value::map([
            ("__type", code.to_owned().into()),
            ("message", message.to_owned().into()),
        ]);
        self.reply(
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            self.write(&error),
        )
    }

    fn refuse_with(self, error: &Error) -> Response<Body> {
        self.refuse(error.code.status(), error.code.name(), &error.message)
    }
}

impl Handler for Front {
    async fn handle(&self, request: Request<Incoming>) -> Reply {
        let request = match http::answer_faults(&self.faults, &self.clock, request).await {
            Ok(response) => return Ok(response),
            Err(request) => request,
        };
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = self.answer(request).await?;
        if let Ok(id) = HeaderValue::from_str(&format!("local-{id:012}")) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        Ok(response)
    }
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::POST {
            let body = "<UnknownOperationException/>\n";
            return Ok(http::reply(StatusCode::NOT_FOUND, "application/xml", body));
        }
        let target = request
            .headers()
            .get("x-amz-target")
            .and_then(|t| t.to_str().ok());
        let operation = target
            .and_then(|t| t.strip_prefix(TARGET))
            .map(str::to_owned);
        let Some(protocol) = Protocol::of(request.headers()) else {
            let message =
                "Content-Type must be application/x-amz-json-1.1 or application/x-amz-cbor-1.1";
            return Ok(Protocol::Json.refuse_with(&Error::new(Code::Serialization, message)));
        };
        let Some(operation) = operation else {
            let message = format!("X-Amz-Target must begin with {TARGET}");
            return Ok(protocol.refuse_with(&Error::new(Code::UnknownOperation, message)));
        };
        let body = match http::body(request).await {
            Ok(body) => body,
            Err(refused) => return Ok(refused),
        };
        match protocol.read(&body) {
            Ok(value) => self.call(protocol, &operation, Args(&value)).await,
            Err(error) => Ok(protocol.refuse_with(&error)),
        }
    }

    /// Lets the fault rules have their say, then carries the operation out.
    async fn call(&self, protocol: Protocol, operation: &str, args: Args<'_>) -> Reply {
        let verdict = self.faults.decide(
            Service::Kinesis,
            operation,
            |key| is_about(args, key),
            (self.clock)(),
        );
        http::hold_back(&verdict).await;
        let Some(rule) = &verdict.rule else {
            return Ok(self.carry_out(protocol, operation, args, None));
        };
        // A fault within a subscription needs the subscription first.
        if rule.after_events.is_some()
            || (operation == "SubscribeToShard" && rule.after_bytes.is_some())
        {
            return Ok(self.carry_out(protocol, operation, args, Some(rule.clone())));
        }
        if let Some((status, (code, message))) = refusal(rule, operation) {
            return Ok(protocol.refuse(status, &code, &message));
        }
        match (rule.action, rule.after_bytes) {
            (Action::Cut, None) => Err(Cut),
            (Action::Cut, Some(after)) => {
                http::cut_within(self.carry_out(protocol, operation, args, None), after).await
            }
            _ => {
                drop(self.carry_out(protocol, operation, args, None));
                Err(Cut)
            }
        }
    }

    fn carry_out(
        &self,
        protocol: Protocol,
        operation: &str,
        args: Args<'_>,
        fault: Option<Rule>,
    ) -> Response<Body> {
        match ops::call(&self.kinesis, operation, args, (self.clock)()) {
            Ok(Answer::Value(value)) => protocol.reply(
                StatusCode::OK,
                if value == Value::empty() {
                    Vec::new()
                } else {
                    protocol.write(&value)
                },
            ),
            Ok(Answer::Page(page)) => {
                let body = if protocol == Protocol::Json {
                    page::json_page(&page)
                } else {
                    page::cbor_page(&page)
                };
                protocol.reply(StatusCode::OK, body)
            }
            Ok(Answer::Subscription(subscription)) => {
                let frames = events::frames(
                    self.kinesis.clone(),
                    Arc::clone(&self.clock),
                    *subscription,
                    fault,
                );
                http::reply_stream("application/vnd.amazon.eventstream", frames)
            }
            Err(error) => protocol.refuse_with(&error),
        }
    }
}

/// The status, code and message with which a rule refuses a call, if that is what it does.
fn refusal(rule: &Rule, operation: &str) -> Option<(u16, (String, String))> {
    let per_shard = matches!(
        operation,
        "GetRecords" | "GetShardIterator" | "PutRecord" | "PutRecords"
    );
    let code = match rule.action {
        Action::Throttle if per_shard => Code::ProvisionedThroughputExceeded,
        Action::Throttle => Code::LimitExceeded,
        Action::Internal => Code::InternalFailure,
        Action::Error => {
            return Some((
                400,
                (
                    rule.code.clone().unwrap_or_default(),
                    "fault rule".to_owned(),
                ),
            ));
        }
        Action::Delay | Action::Cut | Action::Lost => return None,
    };
    Some((
        code.status(),
        (code.name().to_owned(), "fault rule".to_owned()),
    ))
}

/// Whether a request is about this stream, shard or consumer: its members and its iterator say so.
fn is_about(args: Args<'_>, key: &str) -> bool {
    let Value::Map(members) = args.0 else {
        return false;
    };
    members.iter().any(|(name, value)| match value {
        Value::Text(text) if name == "ShardIterator" => text
            .parse::<ShardIterator>()
            .is_ok_and(|iterator| iterator.stream_name() == key || iterator.shard_id() == key),
        Value::Text(text) if name.ends_with("ARN") => {
            text.split(['/', ':']).any(|part| part == key)
        }
        Value::Text(text) => text == key,
        _ => false,
    })
}
