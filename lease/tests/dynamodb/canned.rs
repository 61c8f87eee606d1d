//! A client whose answers are written down beforehand, and that keeps what it was asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::{Client, config::retry::RetryConfig};
use aws_smithy_runtime_api::{
    client::{
        http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

/// What comes back.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// An answer of DynamoDB.
    Http(u16, String),
    /// The connection broke before an answer came.
    Broken,
    /// The connector gave up waiting.
    TimedOut,
    /// Nothing ever happens.
    Never,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Answer::Http(200, body.to_string())
    }

    /// An error by its code.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "so it is"});
        Answer::Http(status, body.to_string())
    }
}

/// The answers to come and the requests that came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canned {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Canned {
    /// A client with these answers, which by itself would retry: the SDK's standard.
    pub(crate) fn client(answers: impl IntoIterator<Item = Answer>) -> (Self, Client) {
        let canned = Canned {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            requests: Arc::default(),
        };
        let connector = SharedHttpConnector::new(canned.clone());
        let config = crate::fixture::config()
            .endpoint_url("http://dynamodb.test")
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        (canned, Client::from_conf(config))
    }

    /// Operation and body of every request so far.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.requests
            .lock()
            .expect("no test panicked in here")
            .clone()
    }

    /// The operations of the requests so far.
    pub(crate) fn operations(&self) -> Vec<String> {
        self.requests()
            .into_iter()
            .map(|(operation, _)| operation)
            .collect()
    }
}

impl HttpConnector for Canned {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().expect("bodies are whole");
        let body = serde_json::from_slice(body).expect("bodies are JSON");
        self.requests
            .lock()
            .expect("no test panicked in here")
            .push((operation.clone(), body));
        let answer = self
            .answers
            .lock()
            .expect("no test panicked in here")
            .pop_front();
        let answer = match answer.unwrap_or_else(|| panic!("no answer left for {operation}")) {
            Answer::Http(status, body) => {
                let status = StatusCode::try_from(status).expect("a status");
                Ok(HttpResponse::new(status, SdkBody::from(body)))
            }
            Answer::Broken => Err(ConnectorError::io("connection reset".into())),
            Answer::Never => return HttpConnectorFuture::new(std::future::pending()),
            Answer::TimedOut => Err(ConnectorError::timeout("too slow".into())),
        };
        HttpConnectorFuture::ready(answer)
    }
}
