//! The log: `tracing` events to standard error, as text or as one JSON object a line. Standard output is for records.

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::config::{Log, LogFormat};

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.level` is no filter.
    #[error(
        "log.level = {level:?} is no log filter: {reason}; write e.g. \"info\" or \"warn,shardkeeper=debug\""
    )]
    Filter {
        /// What was given.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The process has a log already.
    #[error("the log is set up already: {0}")]
    Twice(String),
}

/// Sets the log of the process up.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn install(log: &Log) -> Result<(), LogError> {
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|error| LogError::Filter {
            level: log.level.clone(),
            reason: error.to_string(),
        })?;
    let registry = tracing_subscriber::registry().with(filter);
    let done = match log.format {
        LogFormat::Text => registry
            .with(
                fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_target(false)
                    .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())),
            )
            .try_init(),
        LogFormat::Json => registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
    };
    done.map_err(|error| LogError::Twice(error.to_string()))
}
