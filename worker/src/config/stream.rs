//! `[[stream]]`: what is read, from where, and how.

use std::time::Duration;

use aws_sdk_kinesis::primitives::{DateTime, DateTimeFormat};

use super::access::Access;
use super::error::Problem;
use super::names::{StreamArn, StreamName};
use super::scalar::{self, show};
use super::section::{Field, Reader, Section, wrong_type};
use super::tree::{Node, Value};
use crate::limits;

/// One stream to consume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// `name`, or the name within `arn`; no two streams of a file share it.
    pub name: StreamName,
    /// `arn`, if that is how the stream was named.
    pub arn: Option<StreamArn>,
    /// How Kinesis is reached; the region of the ARN stands in for an absent `region`.
    pub access: Access,
    /// `start`: where a shard is read from that has no checkpoint.
    pub start: Start,
    /// `retrieval`.
    pub retrieval: Retrieval,
    /// `poll`: pauses between reads of one shard.
    pub poll: Poll,
    /// `hash_range`: what becomes of user records outside the shard's hash range.
    pub hash_range: HashRangePolicy,
    /// `page_records`: records asked for per GetRecords call, 1 to 10,000.
    pub page_records: u32,
    /// `protocol`: the encoding Kinesis is asked for.
    pub protocol: Protocol,
}

/// Where to begin a shard that has no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record kept.
    TrimHorizon,
    /// With the next record to arrive.
    Latest,
    /// With the first record that arrived at or after this instant, in milliseconds since 1970-01-01T00:00:00Z.
    AtTimestamp(i64),
}

/// How records are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retrieval {
    /// GetRecords, sharing the shard's throughput with its other readers.
    Polling,
}

/// Pauses between two GetRecords calls on one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// The pause while there is more to read.
    pub min: Duration,
    /// The pause a quiet shard backs off to.
    pub max: Duration,
}

/// What becomes of a KPL user record whose hash key lies outside the range of the shard it was read from (it belongs
/// to another shard since a reshard).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashRangePolicy {
    /// Drop that user record alone, and count it.
    DropRecord,
    /// Drop its whole aggregate, as the Java KCL does.
    StrictKcl,
    /// Deliver it.
    Off,
}

/// The encoding of Kinesis answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The worker chooses.
    Auto,
    /// JSON, which carries payloads as base64.
    Json,
    /// CBOR, which carries payloads as they are.
    Cbor,
}

impl Stream {
    /// Reads one stream; `None` if it has no sound name.
    pub(super) fn read(
        reader: &Reader,
        section: Section<'_>,
    ) -> Option<(Stream, Field<StreamName>)> {
        let name = section.key("name").optional(StreamName::read);
        let arn = section.key("arn").optional(StreamArn::read);
        let mut access = Access::read(reader, &section);
        let stream = Parts {
            start: section.key("start").or(Start::TrimHorizon, start).value,
            retrieval: section
                .key("retrieval")
                .or(Retrieval::Polling, retrieval)
                .value,
            poll: Poll::read(reader, section.section("poll")),
            hash_range: section
                .key("hash_range")
                .or(HashRangePolicy::DropRecord, hash_range)
                .value,
            page_records: section
                .key("page_records")
                .or(limits::GET_RECORDS_MOST_RECORDS, page_records)
                .value,
            protocol: section.key("protocol").or(Protocol::Auto, protocol).value,
        };
        let name = settle_name(reader, &section, name, &arn);
        settle_region(reader, &mut access, &arn);
        section.finish();
        let name = name?;
        let Parts {
            start,
            retrieval,
            poll,
            hash_range,
            page_records,
            protocol,
        } = stream;
        let stream = Stream {
            name: name.value.clone(),
            arn: arn.value,
            access: access.value,
            start,
            retrieval,
            poll,
            hash_range,
            page_records,
            protocol,
        };
        Some((stream, name))
    }
}

/// The keys of a stream that do not depend on its name.
struct Parts {
    start: Start,
    retrieval: Retrieval,
    poll: Poll,
    hash_range: HashRangePolicy,
    page_records: u32,
    protocol: Protocol,
}

/// A stream is named once, or twice alike.
fn settle_name(
    reader: &Reader,
    section: &Section<'_>,
    name: Field<Option<StreamName>>,
    arn: &Field<Option<StreamArn>>,
) -> Option<Field<StreamName>> {
    let field = |value, of: Field<()>| Field {
        value,
        origin: of.origin,
        key: of.key,
        sound: of.sound,
    };
    match (&name.value, &arn.value) {
        (None, None) => {
            if name.sound && arn.sound {
                let key = name.key.clone();
                reader.report(
                    section.origin(),
                    &key,
                    Problem::Missing("a stream needs a name or an arn"),
                );
            }
            None
        }
        (Some(name_value), arn_value) => {
            if let Some(other) = arn_value.as_ref().filter(|arn| arn.name() != name_value) {
                let text = format!(
                    "\"{name_value}\" and the arn's \"{}\" disagree; write one of the two",
                    other.name()
                );
                name.refuse(reader, arn, Problem::Conflict(text));
            }
            Some(field(name_value.clone(), name.place()))
        }
        (None, Some(other)) => Some(field(other.name().clone(), arn.place())),
    }
}

/// The region is the ARN's; written beside it, it must agree.
fn settle_region(
    reader: &Reader,
    access: &mut super::access::AccessFields,
    arn: &Field<Option<StreamArn>>,
) {
    let Some(stream) = &arn.value else { return };
    match &access.value.region {
        Some(region) if region != stream.region() => {
            let text = format!(
                "\"{region}\" and the arn's \"{}\" disagree; leave region out",
                stream.region()
            );
            access.region.refuse(reader, arn, Problem::Conflict(text));
        }
        _ => access.value.region = Some(stream.region().clone()),
    }
}

impl Poll {
    fn read(reader: &Reader, section: Section<'_>) -> Poll {
        let parse = |node: &Node| {
            let most = limits::SHARD_ITERATOR_LIFETIME - Duration::from_secs(60);
            let reason = "Kinesis allows 5 reads per second and shard, and an iterator not used for 5m expires";
            scalar::duration(limits::GET_RECORDS_SHORTEST_INTERVAL, most, reason, node)
        };
        let min = section
            .key("min")
            .or(limits::GET_RECORDS_SHORTEST_INTERVAL, parse);
        let max = section
            .key("max")
            .or(Duration::from_secs(1).max(min.value), parse);
        if min.value > max.value {
            let text = format!(
                "{} is longer than poll.max, {}",
                show(min.value),
                show(max.value)
            );
            min.refuse(reader, &max, Problem::Conflict(text));
        }
        section.finish();
        Poll {
            min: min.value,
            max: max.value,
        }
    }
}

fn retrieval(node: &Node) -> Result<Retrieval, Problem> {
    let text = scalar::text(node)?;
    match text.as_str() {
        "polling" => Ok(Retrieval::Polling),
        "fan-out" => Err(Problem::NotYet {
            text,
            instead: "write \"polling\"",
        }),
        _ => Err(scalar::not_one_of(text, &["polling"])),
    }
}

fn hash_range(node: &Node) -> Result<HashRangePolicy, Problem> {
    use HashRangePolicy::{DropRecord, Off, StrictKcl};
    scalar::word(
        &["drop-record", "strict-kcl", "off"],
        &[DropRecord, StrictKcl, Off],
        node,
    )
}

fn protocol(node: &Node) -> Result<Protocol, Problem> {
    scalar::word(
        &["auto", "json", "cbor"],
        &[Protocol::Auto, Protocol::Json, Protocol::Cbor],
        node,
    )
}

fn page_records(node: &Node) -> Result<u32, Problem> {
    let reason = "one GetRecords call returns no more";
    scalar::count(1, limits::GET_RECORDS_MOST_RECORDS, reason, node).map(u32::from)
}

fn start(node: &Node) -> Result<Start, Problem> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Datetime(datetime) => datetime.to_string(),
        _ => {
            return Err(wrong_type(
                node,
                "\"trim_horizon\", \"latest\" or an instant",
            ));
        }
    };
    match text.as_str() {
        "trim_horizon" => Ok(Start::TrimHorizon),
        "latest" => Ok(Start::Latest),
        _ => instant(&text).map(Start::AtTimestamp).ok_or_else(|| Problem::NotA {
            what: "start",
            text: format!("\"{text}\""),
            rule: "write \"trim_horizon\", \"latest\" or an instant since 1970 with its offset, \
                   e.g. 2026-01-01T00:00:00Z",
        }),
    }
}

/// RFC 3339 to milliseconds since 1970. An instant without an offset would mean another one on every host.
fn instant(text: &str) -> Option<i64> {
    let datetime: toml::value::Datetime = text.parse().ok()?;
    datetime.offset?;
    let parsed =
        DateTime::from_str(&datetime.to_string(), DateTimeFormat::DateTimeWithOffset).ok()?;
    parsed.to_millis().ok().filter(|millis| *millis >= 0)
}
