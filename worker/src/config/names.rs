//! Names: texts with a form, checked once. Each is a type of its own, so that no two can be confused.

use std::fmt;
use std::path::PathBuf;

use super::error::Problem;
use super::scalar::text;
use super::tree::Node;
use crate::limits;

/// Defines a name: a text that satisfies `$holds`, or else is refused with `$rule`.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $holds:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks the text. The error is what a user reads about it.
            pub fn new(text: &str) -> Result<Self, Problem> {
                let holds: fn(&str) -> bool = $holds;
                if holds(text) {
                    return Ok($name(text.to_owned()));
                }
                Err(Problem::NotA { what: $what, text: format!("\"{text}\""), rule: $rule })
            }

            pub(super) fn read(node: &Node) -> Result<Self, Problem> {
                Self::new(&text(node)?)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The application: all workers of one name share the work. Also the lease table's name unless another is given.
    AppName, "application name", "write 1 to 255 of the characters a-z A-Z 0-9 _ . -",
    |text| is_plain(text, 1, limits::TABLE_NAME_LONGEST)
}

name! {
    /// One worker among those of its application, alive at most once at a time.
    ///
    /// Worker ids and lease keys are keys of one table (KCL 3.5), so an id that could be the key of another row is
    /// refused: a shard id, the leader lock, a migration row, anything with the `:` of a multi-stream lease key.
    WorkerId, "worker id",
    "write 1 to 255 of a-z A-Z 0-9 _ . @ - beginning with a letter or digit; it must not look like another key of the \
     lease table (shardId-…, Leader, Migration3.0, TableMigration3.5)",
    is_worker_id
}

name! {
    /// A DynamoDB table.
    TableName, "table name", "write 3 to 255 of the characters a-z A-Z 0-9 _ . -",
    |text| is_plain(text, limits::TABLE_NAME_SHORTEST, limits::TABLE_NAME_LONGEST)
}

name! {
    /// A Kinesis stream within its account and region.
    StreamName, "stream name", "write 1 to 128 of the characters a-z A-Z 0-9 _ . -",
    |text| is_plain(text, 1, limits::STREAM_NAME_LONGEST)
}

name! {
    /// An AWS region.
    Region, "region", "write e.g. \"eu-central-1\"",
    |text| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        text.len() <= 64 && text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(letter)
    }
}

name! {
    /// The base URL of a service, for emulators, VPC endpoints and proxies.
    Endpoint, "endpoint", "write scheme, host and port only, e.g. \"http://localhost:4566\"",
    is_endpoint
}

name! {
    /// The id a role's trust policy asks for when another account assumes it.
    ExternalId, "external id", "write 2 to 1224 of the characters a-z A-Z 0-9 _ + = , . @ : / -",
    |text| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@:/-".contains(&byte);
        (limits::EXTERNAL_ID_SHORTEST..=limits::EXTERNAL_ID_LONGEST).contains(&text.len()) && text.bytes().all(letter)
    }
}

name! {
    /// A role to assume.
    RoleArn, "role ARN", "write e.g. \"arn:aws:iam::123456789012:role/stream-reader\"",
    |text| {
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let &["arn", partition, "iam", "", account, resource] = parts.as_slice() else { return false };
        let role = resource.strip_prefix("role/");
        is_partition(partition) && is_account(account) && role.is_some_and(|role| !role.is_empty())
    }
}

fn is_plain(text: &str, shortest: usize, longest: usize) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (shortest..=longest).contains(&text.len()) && text.bytes().all(letter)
}

fn is_worker_id(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
    let form = (1..=255).contains(&text.len()) && text.bytes().all(letter);
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let lower = text.to_ascii_lowercase();
    let taken = ["leader", "migration3.0", "tablemigration3.5"].contains(&lower.as_str());
    form && starts_well && !taken && !lower.starts_with("shardid-")
}

fn is_endpoint(text: &str) -> bool {
    let Ok(uri) = text.parse::<hyper::Uri>() else {
        return false;
    };
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.authority().is_some_and(|authority| {
        !authority.host().is_empty()
            && !authority.as_str().contains('@')
            && !authority.as_str().ends_with(':')
    });
    web && host && matches!(uri.path(), "" | "/") && uri.query().is_none()
}

fn is_partition(text: &str) -> bool {
    text == "aws"
        || text
            .strip_prefix("aws-")
            .is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

fn is_account(text: &str) -> bool {
    text.len() == limits::ACCOUNT_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The ARN of a stream, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamArn {
    text: String,
    region: Region,
    account: String,
    name: StreamName,
}

impl StreamArn {
    /// Takes an ARN apart. The error is what a user reads about it.
    pub fn new(text: &str) -> Result<Self, Problem> {
        Self::parse(text).ok_or_else(|| Problem::NotA {
            what: "stream ARN",
            text: format!("\"{text}\""),
            rule: "write e.g. \"arn:aws:kinesis:eu-central-1:123456789012:stream/orders\"",
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let &["arn", partition, "kinesis", region, account, resource] = parts.as_slice() else {
            return None;
        };
        if !is_partition(partition) || !is_account(account) {
            return None;
        }
        Some(StreamArn {
            text: text.to_owned(),
            region: Region::new(region).ok()?,
            account: account.to_owned(),
            name: StreamName::new(resource.strip_prefix("stream/")?).ok()?,
        })
    }

    pub(super) fn read(node: &Node) -> Result<Self, Problem> {
        Self::new(&text(node)?)
    }

    /// The whole ARN.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The region part.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The account part: twelve digits.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.name
    }
}

impl fmt::Display for StreamArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A file path that may contain `{worker}` and `{pid}`, so that workers on one host do not share a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate(String);

impl PathTemplate {
    /// Checks the placeholders. The error is what a user reads about it.
    pub fn new(text: &str) -> Result<Self, Problem> {
        let bare = text.replace("{worker}", "").replace("{pid}", "");
        if text.is_empty() || bare.contains(['{', '}', '\0']) {
            return Err(Problem::NotA {
                what: "path",
                text: format!("\"{text}\""),
                rule: "write a file path; the placeholders are {worker} and {pid}",
            });
        }
        Ok(PathTemplate(text.to_owned()))
    }

    pub(super) fn read(node: &Node) -> Result<Self, Problem> {
        Self::new(&text(node)?)
    }

    /// The path of one process. A [`WorkerId`] has no character that means anything in a path.
    pub fn expand(&self, worker: &WorkerId, pid: u32) -> PathBuf {
        PathBuf::from(
            self.0
                .replace("{worker}", worker.as_str())
                .replace("{pid}", &pid.to_string()),
        )
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
