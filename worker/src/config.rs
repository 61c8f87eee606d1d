//! The configuration: TOML, environment and `--set` in, types that cannot be wrong out.
//!
//! ```text
//!   file ─▶ tree ◀─ overrides (environment, then --set)
//!            │
//!            ▼
//!         section ─▶ app, stream, lease, delivery, process ─▶ Config | ConfigErrors (all of them)
//! ```
//!
//! Every value keeps the place it was written at, so every error names file and line (or variable, or argument), the
//! key, and what would be right. Unknown keys are refused. Nothing downstream checks anything again.

mod access;
mod delivery;
mod error;
mod lease;
mod names;
mod overrides;
mod process;
mod scalar;
mod section;
mod stream;
mod tree;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use access::{Access, AssumedRole};
pub use delivery::{Batch, Delivery, Handler, Payload, Retry, Sink};
pub use error::{ConfigError, ConfigErrors, Origin, Problem};
pub use lease::{Billing, Checkpoint, Lease};
pub use names::{
    AppName, Endpoint, ExternalId, PathTemplate, Region, RoleArn, StreamArn, StreamName, TableName,
    WorkerId,
};
pub(crate) use overrides::ENV_PREFIX;
pub use process::{Admin, App, Log, LogFormat, Shutdown};
pub use scalar::ByteSize;
pub(crate) use scalar::{duration_from, show as show_duration};
pub use stream::{HashRangePolicy, Poll, Protocol, Retrieval, Start, Stream};

use section::{Field, Reader, Section};

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `[app]`.
    pub app: App,
    /// `[[stream]]`: one or more, of different names.
    pub streams: Vec<Stream>,
    /// `[lease]`.
    pub lease: Lease,
    /// `[checkpoint]`.
    pub checkpoint: Checkpoint,
    /// `[delivery]`.
    pub delivery: Delivery,
    /// `[handler]`.
    pub handler: Handler,
    /// `[admin]`.
    pub admin: Admin,
    /// `[shutdown]`.
    pub shutdown: Shutdown,
    /// `[log]`.
    pub log: Log,
}

impl Config {
    /// The region of what names none, where environment and profile name none either: the first that is written
    /// anywhere, streams before the table.
    pub fn default_region(&self) -> Option<&Region> {
        let streams = self.streams.iter().map(|stream| &stream.access);
        streams
            .chain([&self.lease.access])
            .find_map(|access| access.region.as_ref())
    }

    /// Reads a file and lays `env` and `sets` over it.
    ///
    /// `env` is the environment of the process; what does not begin with `SHARDKEEPER__` is passed over. Collect it
    /// from `vars_os`, since `std::env::vars` panics on a variable that is not Unicode. `sets` are the values of `--set`.
    ///
    /// # Errors
    /// Everything that is wrong; `Display` is one line each, ready for the terminal.
    pub fn load(
        path: &Path,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Config, ConfigErrors> {
        let file = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(decode)
            .map_err(|reason| {
                let (origin, problem) = (
                    Origin::File(Arc::from(file.as_str())),
                    Problem::Unreadable(reason),
                );
                ConfigErrors::new(vec![ConfigError {
                    origin,
                    key: String::new(),
                    problem,
                }])
            })?;
        Config::parse(&text, &file, env, sets)
    }

    /// As [`Config::load`], from text; `file` is the name errors use.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(
        text: &str,
        file: &str,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Config, ConfigErrors> {
        Self::parse_and_list(text, file, env, sets).map(|(config, _)| config)
    }

    /// As [`Config::parse`], with every key it knows: the list the documents are tested against.
    fn parse_and_list(
        text: &str,
        file: &str,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Config, Vec<String>), ConfigErrors> {
        let file: Arc<str> = Arc::from(file);
        let mut root = tree::parse_file(text, &file).map_err(ConfigErrors::new)?;
        let mut errors = Vec::new();
        let from_env = overrides::from_env(env, &mut errors);
        let from_sets = overrides::from_sets(sets, &mut errors);
        overrides::apply(&mut root, from_env, &mut errors);
        overrides::apply(&mut root, from_sets, &mut errors);
        let reader = Reader::new(errors);
        let config = read(&reader, reader.root(&file, &root));
        let keys = reader.finish()?;
        Ok((
            config.expect("each way to no configuration reports an error"),
            keys,
        ))
    }
}

/// TOML is UTF-8; names the first line that is not.
fn decode(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })
}

/// Reads every section whatever the others hold, so that all errors come out at once.
fn read(reader: &Reader, root: Section<'_>) -> Option<Config> {
    let app = App::read(root.section("app"));
    let streams = streams(reader, &root, &app.worker_id);
    let lease = Lease::read(reader, root.section("lease"), &app.name);
    let checkpoint = Checkpoint::read(root.section("checkpoint"));
    let delivery = Delivery::read(reader, root.section("delivery"));
    let handler = Handler::read(reader, root.section("handler"));
    let admin = Admin::read(root.section("admin"));
    let shutdown = Shutdown::read(root.section("shutdown"));
    let log = Log::read(root.section("log"));
    root.finish();
    let app = App {
        name: app.name.value?,
        worker_id: app.worker_id.value,
    };
    Some(Config {
        app,
        streams: streams?,
        lease: lease?,
        checkpoint,
        delivery,
        handler,
        admin,
        shutdown,
        log,
    })
}

/// Reads the streams and what holds among them: at least one, no name twice (names label leases and metrics), and no
/// stream named like the worker (both can be keys of the lease table).
fn streams(
    reader: &Reader,
    root: &Section<'_>,
    worker_id: &Field<Option<WorkerId>>,
) -> Option<Vec<Stream>> {
    let one = "a list of tables: write [[stream]] with two brackets";
    let none = "there is nothing to read; add [[stream]] with its name";
    let sections = root.key("stream").sections(one, none);
    if sections.is_empty() {
        return None;
    }
    let read: Vec<_> = sections
        .into_iter()
        .map(|section| Stream::read(reader, section))
        .collect();
    let mut seen: Vec<&Field<StreamName>> = Vec::new();
    for (_, name) in read.iter().flatten() {
        if let Some(first) = seen.iter().find(|first| first.value == name.value) {
            let text = format!(
                "\"{}\" is already {} ({}); list each stream once",
                name.value, first.key, first.origin
            );
            name.refuse(reader, *first, Problem::Conflict(text));
        }
        if worker_id
            .value
            .as_ref()
            .is_some_and(|id| id.as_str() == name.value.as_str())
        {
            let text =
                "is also a stream's name; both can be keys of the lease table, so they must differ";
            worker_id.refuse(reader, name, Problem::Conflict(text.to_owned()));
        }
        seen.push(name);
    }
    read.into_iter()
        .map(|stream| stream.map(|(stream, _)| stream))
        .collect()
}
