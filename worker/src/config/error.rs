//! What can be wrong with a configuration, and how it is told: one line per fact, each naming the place, the key and
//! what would be right.

use std::fmt;
use std::sync::Arc;

/// Where a value came from, hence where its error is to be mended.
///
/// Ordered as errors are listed: the file first, line by line, then the environment, then `--set`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The file as a whole, e.g. for a key that is missing together with its table.
    File(Arc<str>),
    /// A line of the file, counted from 1.
    Line(Arc<str>, usize),
    /// An environment variable, by its full name.
    Env(String),
    /// A `--set` argument, by the key it names.
    Set(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(file) => f.write_str(file),
            Origin::Line(file, line) => write!(f, "{file}:{line}"),
            Origin::Env(variable) => write!(f, "environment {variable}"),
            Origin::Set(key) => write!(f, "--set {key}"),
        }
    }
}

/// One thing that is wrong. The text says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file could not be read at all.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The text is not TOML.
    #[error("{0}")]
    Syntax(String),
    /// An override that does not say which key, or which value.
    #[error("{0}")]
    Override(String),
    /// A key this version does not know; refused, since a misspelt key would otherwise silently mean its default.
    #[error("unknown key;{} allowed here: {}", did_you_mean(.near.as_deref()), .allowed.join(", "))]
    UnknownKey {
        /// The allowed key that is spelt most alike, if any is alike at all.
        near: Option<String>,
        /// Every key of this table.
        allowed: Vec<String>,
    },
    /// A key without a default is absent.
    #[error("missing; {0}")]
    Missing(&'static str),
    /// A value of another TOML type.
    #[error("must be {expected}, not {found}")]
    WrongType {
        /// The type, with its article, and an example where it helps.
        expected: &'static str,
        /// The type found, with its article.
        found: &'static str,
    },
    /// A text that does not have the form its key asks for.
    #[error("{text} is no {what}; {rule}")]
    NotA {
        /// What the key holds.
        what: &'static str,
        /// The value as it was written.
        text: String,
        /// The form that would be right.
        rule: &'static str,
    },
    /// A text that is none of a fixed set.
    #[error("\"{text}\" is not possible here;{} write {}", did_you_mean(.near.as_deref()), quoted(.allowed))]
    NotOneOf {
        /// The value as it was written.
        text: String,
        /// The allowed value that is spelt most alike, if any is alike at all.
        near: Option<String>,
        /// Every allowed value.
        allowed: &'static [&'static str],
    },
    /// A number, duration or size beyond its bounds.
    #[error("{found} is out of range; at least {least}, at most {most}: {reason}")]
    OutOfRange {
        /// The value found.
        found: String,
        /// The least value allowed.
        least: String,
        /// The greatest value allowed.
        most: String,
        /// Why there is a bound.
        reason: &'static str,
    },
    /// A value planned for a later version.
    #[error("\"{text}\" does not exist in this version; {instead}")]
    NotYet {
        /// The value as it was written.
        text: String,
        /// What exists.
        instead: &'static str,
    },
    /// Keys that are each fine but not together.
    #[error("{0}")]
    Conflict(String),
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!(" did you mean \"{near}\"?"))
        .unwrap_or_default()
}

fn quoted(allowed: &[&str]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(" or ")
}

/// The candidate spelt most like `text`, if any is alike enough that a slip of the finger explains the difference:
/// a third of its letters, and never fewer than one, may differ.
pub(super) fn nearest<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let lower = text.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .map(|(_, candidate)| candidate.to_owned())
}

/// One error: where, which key, what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {}{problem}", key_prefix(.key))]
pub struct ConfigError {
    /// Where the value came from.
    pub origin: Origin,
    /// The dotted key, streams by index (`stream[0].name`); empty when the error is of the file as a whole.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

fn key_prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}

/// Every error of one configuration, in the order of the file. Never empty.
///
/// `Display` is what a user reads on the terminal: one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Sorts the errors into reading order. `errors` must not be empty.
    pub(super) fn new(mut errors: Vec<ConfigError>) -> Self {
        assert!(!errors.is_empty(), "a refusal names at least one reason");
        errors.sort_by(|a, b| (&a.origin, &a.key).cmp(&(&b.origin, &b.key)));
        ConfigErrors(errors)
    }

    /// The errors, in reading order.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            // A value may hold line breaks or terminal escapes; an error stays one harmless line.
            let line = error.to_string();
            f.write_str(&line.replace(char::is_control, "\u{fffd}"))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
