//! `[delivery]` and `[handler]`: how records are batched, and who gets the batches.

use std::time::Duration;

use super::error::Problem;
use super::names::PathTemplate;
use super::scalar::{self, ByteSize, show, text};
use super::section::{Reader, Section};
use super::tree::Node;
use crate::limits;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What happens between reading and the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// `batch`: when a batch is full.
    pub batch: Batch,
    /// `buffer`: bytes read ahead of the handlers, over all shards of the process.
    pub buffer: ByteSize,
    /// `stuck_after`: a handler silent for so long is reported, and its shard given up.
    pub stuck_after: Duration,
    /// `retry`: pauses between attempts of a failed batch. It is retried without end and blocks its shard meanwhile.
    pub retry: Retry,
}

/// A batch is handed over when any of these is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// `records`: user records at most.
    pub records: u32,
    /// `bytes`: payload bytes at most; a single record that is larger goes alone.
    pub bytes: ByteSize,
    /// `wait`: how long an unfilled batch waits for more; zero hands over what there is.
    pub wait: Duration,
}

/// Pauses between attempts: from `min`, doubling, to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// `min`: the first pause.
    pub min: Duration,
    /// `max`: the longest pause.
    pub max: Duration,
}

impl Delivery {
    pub(super) fn read(reader: &Reader, section: Section<'_>) -> Delivery {
        let batch = section.section("batch");
        let records = batch.key("records").or(500, |node| {
            scalar::count(
                1,
                1_000_000,
                "a batch is held in memory until it is settled",
                node,
            )
            .map(u32::from)
        });
        let bytes = batch.key("bytes").or(ByteSize::mib(4), |node| {
            let reason = "a batch is held in memory until it is settled";
            scalar::size(
                ByteSize::bytes(1 << 10),
                ByteSize::mib(1 << 10),
                reason,
                node,
            )
        });
        let wait = batch.key("wait").or(Duration::ZERO, |node| {
            scalar::duration(
                Duration::ZERO,
                HOUR,
                "a waiting batch delays its records",
                node,
            )
        });
        batch.finish();
        let buffer = section.key("buffer").or(ByteSize::mib(256), |node| {
            let reason = "one GetRecords call may return 10MiB, which must find room";
            let least = ByteSize::bytes(limits::GET_RECORDS_MOST_BYTES);
            scalar::size(least, ByteSize::mib(1 << 20), reason, node)
        });
        if bytes.value > buffer.value {
            let text = format!(
                "{} can never fill: delivery.buffer holds {} only",
                bytes.value, buffer.value
            );
            bytes.refuse(reader, &buffer, Problem::Conflict(text));
        }
        let stuck_after = section.key("stuck_after").or(300 * SECOND, |node| {
            let reason =
                "a shard whose handler is silent so long is given up; slow handlers need longer";
            scalar::duration(SECOND, 24 * HOUR, reason, node)
        });
        let retry = Retry::read(reader, section.section("retry"));
        section.finish();
        let batch = Batch {
            records: records.value,
            bytes: bytes.value,
            wait: wait.value,
        };
        Delivery {
            batch,
            buffer: buffer.value,
            stuck_after: stuck_after.value,
            retry,
        }
    }
}

impl Retry {
    fn read(reader: &Reader, section: Section<'_>) -> Retry {
        let parse = |node: &Node| {
            let reason = "without a pause a failing handler spins, and with a long one its shard stands still";
            scalar::duration(MILLISECOND, HOUR, reason, node)
        };
        let min = section.key("min").or(100 * MILLISECOND, parse);
        let max = section.key("max").or((30 * SECOND).max(min.value), parse);
        if min.value > max.value {
            let text = format!(
                "{} is longer than retry.max, {}",
                show(min.value),
                show(max.value)
            );
            min.refuse(reader, &max, Problem::Conflict(text));
        }
        section.finish();
        Retry {
            min: min.value,
            max: max.value,
        }
    }
}

/// Who gets the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    /// `kind = "sink"`: written out, one JSON object per user record.
    Sink {
        /// `sink` and `path`: where to.
        sink: Sink,
        /// `payload`: how a record's data is written.
        payload: Payload,
    },
}

/// Where records are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A file of one JSON object per line, appended to.
    Jsonl {
        /// The file.
        path: PathTemplate,
    },
}

/// How a record's data is written into JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// As a string; for data that is UTF-8.
    Text,
    /// As a string of base64; for any data.
    Base64,
    /// As the JSON value it is.
    Json,
}

/// What `sink` says before `path` is looked at.
#[derive(Clone, Copy, PartialEq)]
enum SinkKind {
    Stdout,
    Jsonl,
}

impl Handler {
    pub(super) fn read(reader: &Reader, section: Section<'_>) -> Handler {
        section.key("kind").or((), kind);
        let sink = section.key("sink").or(SinkKind::Stdout, |node| {
            scalar::word(
                &["stdout", "jsonl"],
                &[SinkKind::Stdout, SinkKind::Jsonl],
                node,
            )
        });
        let path = section.key("path").optional(PathTemplate::read);
        let payload = section.key("payload").or(Payload::Text, |node| {
            scalar::word(
                &["text", "base64", "json"],
                &[Payload::Text, Payload::Base64, Payload::Json],
                node,
            )
        });
        section.finish();
        let sink = match (sink.value, path.value.clone()) {
            (SinkKind::Jsonl, Some(path)) => Sink::Jsonl { path },
            (SinkKind::Jsonl, None) => {
                path.refuse(
                    reader,
                    &sink,
                    Problem::Missing("sink = \"jsonl\" needs the file to write"),
                );
                Sink::Stdout
            }
            (SinkKind::Stdout, given) => {
                if given.is_some() {
                    let text = "is only used by sink = \"jsonl\"; leave it out".to_owned();
                    path.refuse(reader, &sink, Problem::Conflict(text));
                }
                Sink::Stdout
            }
        };
        Handler::Sink {
            sink,
            payload: payload.value,
        }
    }
}

fn kind(node: &Node) -> Result<(), Problem> {
    let text = text(node)?;
    match text.as_str() {
        "sink" => Ok(()),
        "command" | "lambda" | "http" => {
            let instead =
                "write \"sink\" (stdout or jsonl), or implement the Processor trait of the library";
            Err(Problem::NotYet { text, instead })
        }
        _ => Err(scalar::not_one_of(text, &["sink"])),
    }
}
