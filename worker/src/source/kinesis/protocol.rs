//! Wire: Kinesis' CBOR protocol (`application/x-amz-cbor-1.1`) for the SDK, which knows only the JSON one. Requests look
//! like those of JSON 1.1 but for the content type and the body; signing, endpoints and credentials stay the SDK's.
//!
//! The body of a GetRecords answer is not unpacked here: whoever calls within [`keeping_body`] gets it whole, and cuts the
//! records out of it without a copy.

use std::{cell::Cell, future::Future};

use aws_smithy_cbor::protocol::RpcV2CborProtocol;
use aws_smithy_json::protocol::aws_json_rpc::AwsJsonRpcProtocol;
use aws_smithy_runtime_api::{
    client::orchestrator::Metadata,
    http::{Request, Response},
};
use aws_smithy_schema::{
    Schema, ShapeId,
    codec::{Codec, DynCodec},
    http_protocol::HttpRpcProtocol,
    protocol::ClientProtocolInner,
    serde::{SerdeError, SerializableStruct, ShapeDeserializer},
    shape_id,
};
use aws_smithy_types::{
    byte_stream::ByteStream,
    config_bag::ConfigBag,
    endpoint::Endpoint,
    error::{ErrorMetadata, metadata::Builder},
};
use bytes::Bytes;
use futures::FutureExt as _;

use super::codec::KinesisCodec;

pub(super) const CONTENT_TYPE: &str = "application/x-amz-cbor-1.1";
pub(super) const TARGET_PREFIX: &str = "Kinesis_20131202";
/// Of an answer that makes no sense, so much is quoted.
const QUOTED: usize = 200;

tokio::task_local! {
    // The SDK has no other way from a protocol to its caller than the typed output, which would have to own each record.
    static BODY: Cell<Option<Bytes>>;
}

/// Runs a call of the SDK. If it succeeds and was made in CBOR, its output is empty and the body comes with it.
pub(super) async fn keeping_body<T, E>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<(T, Option<Bytes>), E> {
    BODY.scope(Cell::new(None), async {
        let output = call.await?;
        Ok((output, BODY.with(Cell::take)))
    })
    .await
}

/// The protocol.
#[derive(Debug)]
pub(super) struct CborProtocol {
    inner: HttpRpcProtocol<KinesisCodec>,
    /// For errors in CBOR; the envelope is the same.
    cbor_errors: RpcV2CborProtocol,
    /// For errors by stand-ins that speak CBOR only while all goes well.
    json_errors: AwsJsonRpcProtocol,
}

impl Default for CborProtocol {
    fn default() -> Self {
        let id = shape_id!("aws.protocols", "awsCbor1_1");
        CborProtocol {
            inner: HttpRpcProtocol::new(id, KinesisCodec::default(), CONTENT_TYPE),
            cbor_errors: RpcV2CborProtocol::new(),
            json_errors: AwsJsonRpcProtocol::aws_json_1_1(),
        }
    }
}

impl CborProtocol {
    fn reader<'a>(&self, body: &'a [u8]) -> Box<dyn ShapeDeserializer + 'a> {
        Box::new(Codec::create_deserializer(self.inner.codec(), body))
    }
}

/// Whether an answer is in CBOR. What the body begins with counts more than what it is said to be: every answer is a map.
pub(super) fn is_cbor(response: &Response) -> bool {
    const MAP: u8 = 5;
    match response.body().bytes() {
        Some([first, ..]) => first >> 5 == MAP,
        Some([]) => response
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind.starts_with(CONTENT_TYPE)),
        None => false,
    }
}

impl ClientProtocolInner for CborProtocol {
    type Request = Request;
    type Response = Response;

    fn protocol_id(&self) -> &ShapeId<'static> {
        self.inner.protocol_id()
    }

    fn serialize_request(
        &self,
        input: &dyn SerializableStruct,
        input_schema: &Schema<'_>,
        _: &str,
        cfg: &ConfigBag,
    ) -> Result<Request, SerdeError> {
        let mut request = self
            .inner
            .serialize_request(input, input_schema, "/", cfg)?;
        let operation = cfg
            .load::<Metadata>()
            .ok_or_else(|| SerdeError::custom("the SDK does not say which operation this is"))?;
        request.headers_mut().insert(
            "x-amz-target",
            format!("{TARGET_PREFIX}.{}", operation.name()),
        );
        Ok(request)
    }

    fn deserialize_response<'a>(
        &self,
        response: &'a Response,
        output_schema: &Schema<'_>,
        cfg: &'a ConfigBag,
    ) -> Result<Box<dyn ShapeDeserializer + 'a>, SerdeError> {
        if !is_cbor(response) {
            return Err(SerdeError::custom(format!(
                "the answer is not in CBOR: {}",
                quote(response)
            )));
        }
        if BODY.try_with(|_| ()).is_ok()
            && let Some(body) = whole(response)
        {
            BODY.with(|slot| slot.set(Some(body)));
            return Ok(self.reader(&[]));
        }
        self.inner
            .deserialize_response(response, output_schema, cfg)
    }

    fn deserialize_error_response<'a>(
        &self,
        response: &'a Response,
        cfg: &'a ConfigBag,
    ) -> Result<Box<dyn ShapeDeserializer + 'a>, SerdeError> {
        if is_cbor(response) {
            Ok(self.reader(response.body().bytes().unwrap_or_default()))
        } else {
            self.json_errors.deserialize_error_response(response, cfg)
        }
    }

    fn parse_error_metadata(
        &self,
        response: &Response,
        cfg: &ConfigBag,
    ) -> Result<Builder, SerdeError> {
        let parsed = if is_cbor(response) {
            self.cbor_errors.parse_error_metadata(response, cfg)
        } else {
            self.json_errors.parse_error_metadata(response, cfg)
        };
        match parsed.map(Builder::build) {
            Ok(parsed) if parsed.code().is_some() => Ok(parsed.into_builder()),
            // Without a code the SDK would say "unhandled error" and no more.
            Ok(_) | Err(_) => Ok(ErrorMetadata::builder()
                .code(format!("HTTP {}", response.status().as_u16()))
                .message(quote(response))),
        }
    }

    fn payload_codec(&self) -> Option<&dyn DynCodec> {
        // Event streams stay JSON; they are asked for by the other client.
        None
    }

    fn update_endpoint(
        &self,
        request: &mut Request,
        endpoint: &Endpoint,
        cfg: &ConfigBag,
    ) -> Result<(), SerdeError> {
        self.inner.update_endpoint(request, endpoint, cfg)
    }
}

/// The body of an answer that was read completely, not copied.
pub(super) fn whole(response: &Response) -> Option<Bytes> {
    let body = response.body().try_clone()?;
    let collected = ByteStream::new(body).collect().now_or_never()?;
    collected.ok().map(|body| body.into_bytes())
}

/// The beginning of an answer that makes no sense.
pub(super) fn quote(response: &Response) -> String {
    let body = response.body().bytes().unwrap_or_default();
    let part = &body[..body.len().min(QUOTED)];
    String::from_utf8_lossy(part).into_owned()
}
