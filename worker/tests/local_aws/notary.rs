//! A Kinesis that answers GetRecords as told, notes each call, and can check its signature: Signature Version 4 as AWS
//! describes it, written down here once more, since a signature must not be checked by what has made it.
#![allow(unreachable_pub)] // a module of a test binary

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use aws_sdk_kinesis::config::Credentials;
use aws_smithy_types::{DateTime, date_time::Format};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use shardkeeper::clock::system_wall;
use tokio::net::TcpListener;

const JSON_PAGE: &str = r#"{"Records":[],"NextShardIterator":"next","MillisBehindLatest":0}"#;
const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// What calls have to be signed with.
pub(crate) fn credentials() -> Credentials {
    Credentials::new(KEY, SECRET, Some("token".into()), None, "test")
}

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// An empty page, in CBOR.
    Page,
    /// The same in JSON.
    Json,
    /// An error, in CBOR.
    Error(u16, &'static str),
    /// 200 and a page for people.
    Html,
    /// 200 and a map in CBOR that is no page.
    Unreadable,
    /// Nothing: the connection is cut.
    Cut,
}

impl Reply {
    pub(crate) fn error(status: u16, code: &'static str) -> Self {
        Reply::Error(status, code)
    }
}

/// Who has made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The SDK's whole machine: it numbers its invocations.
    Sdk,
    /// Ours.
    Direct,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) way: Way,
    headers: BTreeMap<String, String>,
    body: Bytes,
    /// The server's clock, epoch seconds.
    at: i64,
}

/// What a call asks.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) iterator: String,
    pub(crate) arn: Option<String>,
    pub(crate) limit: u32,
}

#[derive(Debug)]
struct State {
    reply: Reply,
    calls: Vec<Call>,
    ahead: i64,
}

/// The server.
pub(crate) struct Notary {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Notary {
    /// Serves for as long as the test's runtime lives.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            reply: Reply::Page,
            calls: Vec::new(),
            ahead: 0,
        }));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                let service = service_fn(move |request| answer(request, state.clone()));
                let connection = hyper::server::conn::http1::Builder::new()
                    .auto_date_header(false)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Notary { url, state }
    }

    /// From now on it answers so.
    pub(crate) fn say(&self, reply: Reply) {
        self.state.lock().expect("whole").reply = reply;
    }

    /// Its clock is so many seconds ahead.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.state.lock().expect("whole").ahead = seconds;
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().expect("whole").calls.clone()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Cut> {
    let (parts, body) = request.into_parts();
    let headers: BTreeMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
        .collect();
    let body = body.collect().await.expect("a body").to_bytes();
    let mut state = state.lock().expect("whole");
    let at = system_wall() / 1_000 + state.ahead;
    state.calls.push(Call {
        way: if headers.contains_key("amz-sdk-invocation-id") {
            Way::Sdk
        } else {
            Way::Direct
        },
        headers,
        body,
        at,
    });
    let cbor = "application/x-amz-cbor-1.1";
    let (status, kind, body) = match state.reply {
        Reply::Page => (200, cbor, page()),
        Reply::Json => (
            200,
            "application/x-amz-json-1.1",
            JSON_PAGE.as_bytes().to_vec(),
        ),
        Reply::Error(status, code) => (status, cbor, error(code)),
        Reply::Html => (200, "text/html", b"<h1>what?</h1>".to_vec()),
        Reply::Unreadable => (200, cbor, vec![0xa1, 0x61, b'x', 0x01]),
        Reply::Cut => return Err(Cut),
    };
    let date = DateTime::from_secs(at).fmt(Format::HttpDate);
    Ok(Response::builder()
        .status(status)
        .header("content-type", kind)
        .header("date", date.expect("a date"))
        .body(Full::new(body.into()))
        .expect("a reply"))
}

fn page() -> Vec<u8> {
    encoded(|out| {
        out.map(3)?.str("Records")?.array(0)?;
        out.str("NextShardIterator")?.str("next")?;
        out.str("MillisBehindLatest")?.u32(0)?;
        Ok(())
    })
}

fn error(code: &str) -> Vec<u8> {
    encoded(|out| {
        out.map(2)?.str("__type")?.str(code)?;
        out.str("message")?.str("as told")?;
        Ok(())
    })
}

type Encoder = minicbor::Encoder<Vec<u8>>;

fn encoded(
    write: impl FnOnce(&mut Encoder) -> Result<(), minicbor::encode::Error<Infallible>>,
) -> Vec<u8> {
    let mut out = Encoder::new(Vec::new());
    write(&mut out).expect("into memory");
    out.into_writer()
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The time of the signature minus the server's.
    pub(crate) fn seconds_off(&self) -> i64 {
        let date = self.header("x-amz-date").expect("a date");
        let (day, time) = date.split_once('T').expect("day and time");
        let spelled = format!(
            "{}-{}-{}T{}:{}:{}",
            &day[..4],
            &day[4..6],
            &day[6..],
            &time[..2],
            &time[2..4],
            &time[4..]
        );
        let signed = DateTime::from_str(&spelled, Format::DateTime).expect("a date");
        signed.secs() - self.at
    }

    pub(crate) fn access_key(&self) -> String {
        let authorization = self.header("authorization").expect("signed");
        let (_, rest) = authorization.split_once("Credential=").expect("whose");
        rest.split('/').next().expect("a key").to_owned()
    }

    pub(crate) fn question(&self) -> Asked {
        let mut asked = Asked::default();
        let mut decoder = minicbor::Decoder::new(&self.body);
        let members = decoder.map().expect("a map");
        for _ in 0..members.unwrap_or(u64::MAX) {
            if decoder.datatype().expect("more") == minicbor::data::Type::Break {
                break;
            }
            match decoder.str().expect("a name") {
                "ShardIterator" => asked.iterator = decoder.str().expect("text").to_owned(),
                "StreamARN" => asked.arn = Some(decoder.str().expect("text").to_owned()),
                "Limit" => asked.limit = decoder.u32().expect("a number"),
                other => panic!("GetRecords has no {other}"),
            }
        }
        asked
    }

    /// Calculates the signature anew.
    pub(crate) fn assert_signed_for(&self, region: &str, service: &str) {
        let authorization = self.header("authorization").expect("signed");
        let date = self.header("x-amz-date").expect("a date");
        let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
        let part = |name: &str| {
            let (_, rest) = authorization.split_once(name).expect(name);
            rest.split(',').next().expect(name).trim().to_owned()
        };
        assert_eq!(part("Credential="), format!("{KEY}/{scope}"));
        let signed = part("SignedHeaders=");
        for name in ["host", "x-amz-date", "x-amz-security-token", "x-amz-target"] {
            assert!(signed.split(';').any(|header| header == name), "{name}");
        }
        let mut canonical = String::from("POST\n/\n\n");
        for name in signed.split(';') {
            canonical += &format!("{name}:{}\n", self.header(name).expect(name).trim());
        }
        canonical += &format!("\n{signed}\n{}", hex(&Sha256::digest(&self.body)));
        let digest = hex(&Sha256::digest(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for step in [&date[..8], region, service, "aws4_request"] {
            key = hmac(&key, step);
        }
        assert_eq!(part("Signature="), hex(&hmac(&key, &text)), "{canonical}");
    }
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
