//! Wire: GetRecords with the parts of the SDK – its credentials, signature, connections, endpoint – but without its
//! orchestration, which costs more CPU than all of them together. A thousand idle shards are a thousand calls a second.
//!
//! * The pattern of a call is the last one that went the SDK's way and succeeded: its endpoint, its names in the user
//!   agent, the scope and the clock of its signature are taken from the request that was signed.
//! * Whatever is not a good answer goes to the caller as the error it is; the next call then goes the SDK's way, which
//!   knows what else there is to know: clocks that differ, connections that are broken, another encoding.
//! * So does every [`CALLS`]th call, since endpoints may move.

mod signature;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use aws_sdk_kinesis::config::{Intercept, interceptors::BeforeTransmitInterceptorContextRef};
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        auth::AuthSchemeId,
        http::{HttpClient as _, HttpConnector as _, HttpConnectorSettings, SharedHttpConnector},
        identity::{Identity, ResolveCachedIdentity as _},
        orchestrator::{HttpRequest, HttpResponse, Metadata},
        runtime_components::{GetIdentityResolver as _, RuntimeComponents},
    },
};
use aws_smithy_schema::protocol::ClientProtocolInner as _;
use aws_smithy_types::{
    body::SdkBody, byte_stream::ByteStream, config_bag::ConfigBag, timeout::TimeoutConfig,
};
use bytes::Bytes;
use minicbor::Encoder;

use super::{
    error::meaning,
    protocol::{CONTENT_TYPE, CborProtocol, TARGET_PREFIX, is_cbor, quote},
};
use crate::{clock::system_wall, limits, source::SourceError};
use signature::{Scope, Skew};

/// So many calls follow one pattern.
const CALLS: u32 = 1_000;
const OPERATION: &str = "GetRecords";
/// Headers that name this program and the SDK.
const NAMES: [&str; 2] = ["user-agent", "x-amz-user-agent"];

/// The way to one Kinesis, once it is known. Clones share what was learnt.
#[derive(Clone, Debug, Default)]
pub(super) struct Direct(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    pattern: Option<Arc<Pattern>>,
    calls_left: u32,
    /// Of a call that is under way.
    candidate: Option<Arc<Pattern>>,
}

/// How a call is made.
pub(super) struct Pattern {
    uri: String,
    names: Vec<(&'static str, String)>,
    scope: Scope,
    skew: Skew,
    connector: SharedHttpConnector,
    components: RuntimeComponents,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pattern")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) iterator: &'a str,
    pub(super) stream_arn: Option<&'a str>,
    pub(super) limit: u32,
}

impl Direct {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in there panics; and if it did, what it knows would still be true.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How to make the next call. `None`: let the SDK make it.
    pub(super) fn pattern(&self) -> Option<Arc<Pattern>> {
        let mut state = self.lock();
        state.calls_left = state.calls_left.checked_sub(1)?;
        state.pattern.clone()
    }

    /// The SDK's call has succeeded: calls like it will.
    pub(super) fn adopt(&self) {
        let mut state = self.lock();
        if let Some(pattern) = state.candidate.take() {
            state.pattern = Some(pattern);
            state.calls_left = CALLS;
        }
    }

    /// Calls go the SDK's way until one succeeds.
    pub(super) fn forget(&self) {
        self.lock().pattern = None;
    }

    fn learn(&self, request: &HttpRequest, components: &RuntimeComponents, cfg: &ConfigBag) {
        let of_records = |metadata: &Metadata| metadata.name() == OPERATION;
        if cfg.load::<Metadata>().is_some_and(of_records) {
            self.lock().candidate = Pattern::of(request, components, cfg).map(Arc::new);
        }
    }
}

/// Looks at each request that the SDK has signed.
impl Intercept for Direct {
    fn name(&self) -> &'static str {
        "shardkeeper's direct way"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.learn(context.request(), components, cfg);
        Ok(())
    }
}

impl Pattern {
    /// `None`: the request is not made in a way that is known here.
    fn of(request: &HttpRequest, components: &RuntimeComponents, cfg: &ConfigBag) -> Option<Self> {
        let headers = request.headers();
        let timeouts = cfg.load::<TimeoutConfig>()?;
        // The same settings give the same connections as the SDK's own calls have.
        let mut settings = HttpConnectorSettings::builder();
        settings.set_connect_timeout(timeouts.connect_timeout());
        settings.set_read_timeout(timeouts.read_timeout());
        let settings = settings.build();
        Some(Pattern {
            uri: request.uri().to_owned(),
            names: NAMES
                .into_iter()
                .filter_map(|name| Some((name, headers.get(name)?.to_owned())))
                .collect(),
            scope: Scope::of(headers.get("authorization")?)?,
            skew: Skew::of(headers.get("x-amz-date")?, system_wall())?,
            connector: components
                .http_client()?
                .http_connector(&settings, components),
            components: components.clone(),
        })
    }

    /// The body of the answer, in CBOR.
    ///
    /// # Errors
    /// Those of GetRecords; [`SourceError::Failed`] if there is no answer in time, or none in CBOR.
    pub(super) async fn get_records(&self, question: Question<'_>) -> Result<Bytes, SourceError> {
        let call = async {
            let identity = self.identity().await?;
            let request = self.request(question, &identity)?;
            let answer = self.connector.call(request).await?;
            collected(answer).await
        };
        let patience = limits::SDK_CALL_TIMEOUT;
        let answer = tokio::time::timeout(patience, call)
            .await
            .map_err(|_| SourceError::Failed(format!("no answer within {patience:?}")))?
            .map_err(|error| SourceError::Failed(lease::with_causes(&*error)))?;
        if !answer.status().is_success() {
            return Err(refusal(&answer));
        }
        if !is_cbor(&answer) {
            let text = format!("the answer is not in CBOR: {}", quote(&answer));
            return Err(SourceError::Failed(text));
        }
        let body = super::protocol::whole(&answer);
        body.ok_or_else(|| SourceError::Failed("the answer cannot be read".into()))
    }

    /// From the cache of the SDK, which asks for new credentials before these expire.
    async fn identity(&self) -> Result<Identity, BoxError> {
        let resolver = self
            .components
            .identity_resolver(AuthSchemeId::new("sigv4"))
            .ok_or("there are no credentials for signatures of version 4")?;
        self.components
            .identity_cache()
            .resolve_cached_identity(resolver, &self.components, &ConfigBag::base())
            .await
    }

    fn request(
        &self,
        question: Question<'_>,
        identity: &Identity,
    ) -> Result<HttpRequest, BoxError> {
        let mut request = HttpRequest::new(SdkBody::from(body(question)?));
        request.set_method("POST")?;
        request.set_uri(self.uri.as_str())?;
        let headers = request.headers_mut();
        headers.insert("content-type", CONTENT_TYPE);
        headers.insert("x-amz-target", format!("{TARGET_PREFIX}.{OPERATION}"));
        for (name, value) in &self.names {
            headers.insert(*name, value.clone());
        }
        let params = v4::SigningParams::builder()
            .identity(identity)
            .region(&self.scope.region)
            .name(&self.scope.service)
            .time(self.skew.apply(system_wall()))
            .settings(SigningSettings::default())
            .build()?;
        let signable = SignableRequest::new(
            request.method(),
            request.uri(),
            request.headers().iter(),
            SignableBody::Bytes(request.body().bytes().unwrap_or_default()),
        )?;
        let (signed, _) = sign(signable, &SigningParams::V4(params))?.into_parts();
        let (signed, _) = signed.into_parts();
        for header in signed {
            request
                .headers_mut()
                .try_insert(header.name(), header.value().to_owned())?;
        }
        Ok(request)
    }
}

/// `{"ShardIterator": …, "StreamARN": …, "Limit": …}` in CBOR.
fn body(question: Question<'_>) -> Result<Vec<u8>, BoxError> {
    let mut out = Encoder::new(Vec::with_capacity(question.iterator.len() + 128));
    out.map(2 + u64::from(question.stream_arn.is_some()))?;
    out.str("ShardIterator")?.str(question.iterator)?;
    out.str("Limit")?.u32(question.limit)?;
    if let Some(arn) = question.stream_arn {
        out.str("StreamARN")?.str(arn)?;
    }
    Ok(out.into_writer())
}

/// The answer with its whole body in memory.
async fn collected(mut answer: HttpResponse) -> Result<HttpResponse, BoxError> {
    let body = ByteStream::new(answer.take_body()).collect().await?;
    *answer.body_mut() = SdkBody::from(body.into_bytes());
    Ok(answer)
}

fn refusal(answer: &HttpResponse) -> SourceError {
    let error = CborProtocol::default().parse_error_metadata(answer, &ConfigBag::base());
    match error.map(aws_smithy_types::error::metadata::Builder::build) {
        Ok(error) => meaning(error.code(), error.message()),
        Err(error) => SourceError::Failed(lease::with_causes(&error)),
    }
}
