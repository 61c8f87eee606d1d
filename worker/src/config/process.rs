//! `[app]`, `[admin]`, `[shutdown]`, `[log]`: the process itself.

use std::net::SocketAddr;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::error::Problem;
use super::names::{AppName, WorkerId};
use super::scalar::{self, text};
use super::section::{Field, Section};
use super::tree::Node;
use crate::metrics::ShardLabels;

/// Who this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// `name`: all workers of one name share the work.
    pub name: AppName,
    /// `worker_id`; `None` leaves the choice to the process (host name and a random suffix).
    pub worker_id: Option<WorkerId>,
}

/// `[app]` as read: the name is needed for the lease table before the whole is known to be sound.
#[derive(Debug)]
pub(super) struct AppFields {
    pub(super) name: Field<Option<AppName>>,
    pub(super) worker_id: Field<Option<WorkerId>>,
}

impl App {
    pub(super) fn read(section: Section<'_>) -> AppFields {
        let hint = "the application needs a name, e.g. name = \"orders-enricher\"";
        let name = section.key("name").required(hint, AppName::read);
        let worker_id = section.key("worker_id").optional(WorkerId::read);
        section.finish();
        AppFields { name, worker_id }
    }
}

/// The HTTP server for metrics and probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin {
    /// `listen`; `None` for `"off"`, and then no metrics are collected either.
    pub listen: Option<SocketAddr>,
    /// `shard_labels`: how finely metrics tell shards apart.
    pub shard_labels: ShardLabels,
}

impl Admin {
    pub(super) fn read(section: Section<'_>) -> Admin {
        let default = SocketAddr::from(([127, 0, 0, 1], 9090));
        let listen = section.key("listen").or(Some(default), |node| {
            let text = text(node)?;
            let not_a = Problem::NotA {
                what: "listen address",
                text: format!("\"{text}\""),
                rule: "write an IP address and a port, e.g. \"127.0.0.1:9090\" or \"[::]:9090\", or \"off\"",
            };
            if text == "off" { Ok(None) } else { text.parse().map(Some).map_err(|_| not_a) }
        });
        let shard_labels = section.key("shard_labels").or(ShardLabels::Shard, |node| {
            let values = [ShardLabels::Shard, ShardLabels::Stream, ShardLabels::Off];
            scalar::word(&["shard", "stream", "off"], &values, node)
        });
        section.finish();
        Admin {
            listen: listen.value,
            shard_labels: shard_labels.value,
        }
    }
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// `deadline`: after SIGTERM, what is not settled by then is left to the next holder.
    pub deadline: Duration,
}

impl Shutdown {
    pub(super) fn read(section: Section<'_>) -> Shutdown {
        let deadline = section.key("deadline").or(Duration::from_secs(25), |node| {
            let reason = "the batch in hand and the last checkpoint need time; ECS and Kubernetes kill after 30s unless told";
            scalar::duration(Duration::from_secs(1), Duration::from_secs(3_600), reason, node)
        });
        section.finish();
        Shutdown {
            deadline: deadline.value,
        }
    }
}

/// What is logged, to standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// `format`.
    pub format: LogFormat,
    /// `level`: a filter as `tracing` understands it; checked when read.
    pub level: String,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For eyes.
    Text,
    /// One JSON object per line.
    Json,
}

impl Log {
    pub(super) fn read(section: Section<'_>) -> Log {
        let format = section.key("format").or(LogFormat::Text, |node| {
            scalar::word(&["text", "json"], &[LogFormat::Text, LogFormat::Json], node)
        });
        let level = section.key("level").or("info".to_owned(), level);
        section.finish();
        Log {
            format: format.value,
            level: level.value,
        }
    }
}

/// A bare word that is no level would be taken for a crate's name and silence everything; it is refused.
fn level(node: &Node) -> Result<String, Problem> {
    const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
    let text = text(node)?;
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_word(&text) && !LEVELS.contains(&text.to_lowercase().as_str()) {
        return Err(scalar::not_one_of(text, LEVELS));
    }
    match EnvFilter::try_new(&text) {
        Ok(_) if !text.trim().is_empty() => Ok(text),
        _ => Err(Problem::NotA {
            what: "log filter",
            text: format!("\"{text}\""),
            rule: "write a level (error, warn, info, debug, trace, off) or e.g. \"info,shardkeeper=debug\"",
        }),
    }
}
