//! Wire: a client of Kinesis that finds out by itself which encoding the other side speaks.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use aws_config::SdkConfig;
use aws_sdk_kinesis::{
    Client, Config,
    config::{Builder, http::HttpResponse},
    error::SdkError,
};

use aws_smithy_schema::serde::SerdeError;
use bytes::Bytes;

use super::{
    direct::{Direct, Question},
    protocol::{CborProtocol, is_cbor},
    speech::{Encoding, Heard, Speech, Then},
};
use crate::source::SourceError;

/// The encoding Kinesis is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// CBOR, and JSON where that turns out not to be understood.
    Auto,
    /// JSON 1.1, which every stand-in speaks.
    Json,
    /// CBOR 1.1, which costs a quarter of the CPU.
    Cbor,
}

/// A client for one stream's endpoint. Cheap to clone; clones share what was found out.
#[derive(Clone, Debug)]
pub struct KinesisClient {
    json: Client,
    cbor: Client,
    /// `None` for a client that somebody else has made.
    direct: Option<Direct>,
    speech: Arc<Mutex<Speech>>,
}

impl KinesisClient {
    /// A client with this configuration. It must not retry: the rules above do.
    pub fn new(config: &SdkConfig, protocol: Protocol) -> Self {
        Self::from_conf(Builder::from(config), protocol)
    }

    /// A client with this configuration of Kinesis.
    pub fn from_conf(config: Builder, protocol: Protocol) -> Self {
        let direct = Direct::default();
        let cbor = config
            .clone()
            .protocol(CborProtocol::default())
            .interceptor(direct.clone());
        let speech = match protocol {
            Protocol::Auto => Speech::unknown(),
            Protocol::Json => Speech::settled(Encoding::Json),
            Protocol::Cbor => Speech::settled(Encoding::Cbor),
        };
        KinesisClient {
            json: Client::from_conf(config.build()),
            cbor: Client::from_conf(cbor.build()),
            direct: Some(direct),
            speech: Arc::new(Mutex::new(speech)),
        }
    }

    /// The client that speaks JSON. SubscribeToShard knows nothing else.
    pub fn json(&self) -> &Client {
        &self.json
    }

    /// What the clients were made from.
    pub fn config(&self) -> &Config {
        self.json.config()
    }

    /// Whether it is settled that CBOR, or JSON, is spoken.
    pub fn speaks(&self) -> Protocol {
        let speech = self.lock();
        match (speech.is_settled(), speech.encoding()) {
            (false, _) => Protocol::Auto,
            (true, Encoding::Json) => Protocol::Json,
            (true, Encoding::Cbor) => Protocol::Cbor,
        }
    }

    /// Makes a call that may be made twice: `send` is given the client to use, and asked again with the other one
    /// should the first be answered with nonsense.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn call<T, E, F>(
        &self,
        send: impl Fn(&Client) -> F,
    ) -> Result<T, SdkError<E, HttpResponse>>
    where
        E: std::error::Error + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let asked = self.lock().encoding();
        let result = send(self.speaking(asked)).await;
        if self.learn(asked, &result) == Then::Done {
            return result;
        }
        let result = send(&self.json).await;
        self.learn(Encoding::Json, &result);
        result
    }

    /// Asks for records without the SDK's orchestration. `None`: it is not known how, or it would not be in CBOR.
    pub(super) async fn directly<T>(
        &self,
        question: Question<'_>,
        read: impl FnOnce(&Bytes) -> Result<T, SourceError>,
    ) -> Option<Result<T, SourceError>> {
        let direct = self.direct.as_ref()?;
        if self.speaks() != Protocol::Cbor {
            return None;
        }
        let pattern = direct.pattern()?;
        let answer = pattern.get_records(question).await;
        let outcome = answer.and_then(|body| read(&body));
        if outcome.is_err() {
            direct.forget();
        }
        Some(outcome)
    }

    /// A call for records that the SDK has made in CBOR has succeeded.
    pub(super) fn adopt(&self) {
        if let Some(direct) = &self.direct {
            direct.adopt();
        }
    }

    fn speaking(&self, encoding: Encoding) -> &Client {
        match encoding {
            Encoding::Cbor => &self.cbor,
            Encoding::Json => &self.json,
        }
    }

    fn learn<T, E>(&self, asked: Encoding, result: &Result<T, SdkError<E, HttpResponse>>) -> Then
    where
        E: std::error::Error + 'static,
    {
        let mut speech = self.lock();
        let news = speech.encoding() == Encoding::Cbor;
        let then = speech.heard(asked, heard(asked, result));
        if news && speech.encoding() == Encoding::Json {
            tracing::info!("this Kinesis does not speak CBOR: JSON is used, which takes more CPU");
        }
        then
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Speech> {
        // Nothing in there panics; and if it did, what it knows would still be true.
        self.speech.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client as it is: it is used for every call, whatever it speaks.
impl From<Client> for KinesisClient {
    fn from(client: Client) -> Self {
        KinesisClient {
            cbor: client.clone(),
            json: client,
            direct: None,
            speech: Arc::new(Mutex::new(Speech::settled(Encoding::Json))),
        }
    }
}

/// What an answer says about the encoding.
fn heard<T, E>(asked: Encoding, result: &Result<T, SdkError<E, HttpResponse>>) -> Heard
where
    E: std::error::Error + 'static,
{
    let error = match result {
        Ok(_) => return Heard::Answer,
        Err(SdkError::DispatchFailure(failure)) if failure.is_io() => return Heard::Unclear,
        Err(error) => error,
    };
    let Some(response) = error.raw_response() else {
        // Not sent, or not waited for: as if it had not been asked.
        return Heard::Unclear;
    };
    let makes_sense = match asked {
        Encoding::Cbor => is_cbor(response),
        Encoding::Json => matches!(response.body().bytes(), Some([b'{', ..])),
    };
    let unreadable = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<SerdeError>())
        .is_some_and(|error| matches!(error, SerdeError::InvalidInput { .. }));
    match response.status().as_u16() {
        200 if makes_sense && unreadable && asked == Encoding::Cbor => Heard::Garbled,
        _ if makes_sense => Heard::Answer,
        429 | 502..=504 => Heard::Unclear,
        _ => Heard::Nonsense,
    }
}
