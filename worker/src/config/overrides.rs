//! Environment variables and `--set`, laid over the tree of the file. Precedence: file < environment < `--set`.

use super::error::{ConfigError, Origin, Problem};
use super::tree::{self, Entry, Node, Table, Value};

/// Variables that begin with this name a key; two underscores, so that the `SHARDKEEPER_SERVICE_HOST` Kubernetes injects
/// beside a service is none of them.
pub(crate) const ENV_PREFIX: &str = "SHARDKEEPER__";

/// Deeper than any key, and shallow enough that a hostile argument cannot build a tree that overflows a stack.
const DEEPEST_KEY: usize = 8;

/// One override: a path of lower-case segments and the text to put there.
#[derive(Debug)]
pub(super) struct Override {
    origin: Origin,
    path: Vec<String>,
    raw: String,
}

/// Picks the overrides out of the environment, in the order of their keys (streams by number), so that
/// `STREAM__1__…` can append the stream after `STREAM__0__…` whatever order the system lists them in.
pub(super) fn from_env(
    env: impl Iterator<Item = (String, String)>,
    errors: &mut Vec<ConfigError>,
) -> Vec<Override> {
    let mut overrides = Vec::new();
    for (variable, raw) in env {
        let Some(rest) = variable.strip_prefix(ENV_PREFIX) else {
            continue;
        };
        let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
        let origin = Origin::Env(variable.clone());
        match check_path(&path, "SHARDKEEPER__LEASE__FAILOVER=5s") {
            Ok(()) => overrides.push(Override { origin, path, raw }),
            Err(problem) => errors.push(ConfigError {
                origin,
                key: String::new(),
                problem,
            }),
        }
    }
    overrides.sort_by_cached_key(|one| {
        one.path
            .iter()
            .map(|segment| natural(segment))
            .collect::<Vec<_>>()
    });
    overrides
}

/// Numbers sort as numbers, before and apart from words.
fn natural(segment: &str) -> (u64, String) {
    (segment.parse().unwrap_or(u64::MAX), segment.to_owned())
}

/// Splits `--set` arguments, in the order given: a later one wins.
pub(super) fn from_sets(sets: &[String], errors: &mut Vec<ConfigError>) -> Vec<Override> {
    let mut overrides = Vec::new();
    for argument in sets {
        let (key, raw) = match argument.split_once('=') {
            Some((key, raw)) => (key.trim(), Some(raw)),
            None => (argument.trim(), None),
        };
        let origin = Origin::Set(key.to_owned());
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        match (check_path(&path, "--set lease.failover=5s"), raw) {
            (Ok(()), Some(raw)) => overrides.push(Override {
                origin,
                path,
                raw: raw.to_owned(),
            }),
            (Ok(()), None) => {
                let problem = Problem::Override(
                    "has no value; write e.g. --set lease.failover=5s".to_owned(),
                );
                errors.push(ConfigError {
                    origin,
                    key: String::new(),
                    problem,
                });
            }
            (Err(problem), _) => errors.push(ConfigError {
                origin,
                key: String::new(),
                problem,
            }),
        }
    }
    overrides
}

fn check_path(path: &[String], example: &str) -> Result<(), Problem> {
    if path.iter().any(String::is_empty) || path.len() < 2 || path.len() > DEEPEST_KEY {
        return Err(Problem::Override(format!(
            "names no key; write e.g. {example}"
        )));
    }
    Ok(())
}

/// Lays the overrides over the tree. One that does not fit is reported and skipped.
pub(super) fn apply(root: &mut Table, overrides: Vec<Override>, errors: &mut Vec<ConfigError>) {
    for one in overrides {
        let node = tree::parse_override(&one.raw, &one.origin);
        if let Err(problem) = put(root, &one.path, node) {
            errors.push(ConfigError {
                origin: one.origin,
                key: one.path.join("."),
                problem,
            });
        }
    }
}

/// Puts `node` at `path`, making the tables on the way. Only `stream` is a list; its members go by index, and the
/// index after the last adds one.
fn put(root: &mut Table, path: &[String], node: Node) -> Result<(), Problem> {
    let (last, way) = path
        .split_last()
        .ok_or_else(|| Problem::Override("names no key".to_owned()))?;
    let origin = node.origin.clone();
    let empty = |value| Entry {
        key_origin: origin.clone(),
        node: Node {
            origin: origin.clone(),
            value,
            raw: None,
        },
    };
    let mut table = root;
    let mut way = way.iter();
    while let Some(segment) = way.next() {
        let is_list = segment == "stream";
        let missing = || {
            empty(if is_list {
                Value::Array(Vec::new())
            } else {
                Value::Table(Table::new())
            })
        };
        let entry = table.entry(segment.clone()).or_insert_with(missing);
        table = match &mut entry.node.value {
            Value::Table(inner) => inner,
            Value::Array(members) => match way.next() {
                Some(index) => member(members, index, &origin)?,
                None => {
                    return Err(Problem::Override(format!(
                        "names no key; write e.g. stream.{last}.endpoint"
                    )));
                }
            },
            other => {
                return Err(Problem::Override(format!(
                    "\"{segment}\" is {}, not a table",
                    other.type_name()
                )));
            }
        };
    }
    table.insert(
        last.clone(),
        Entry {
            key_origin: origin,
            node,
        },
    );
    Ok(())
}

fn member<'a>(
    members: &'a mut Vec<Node>,
    index: &str,
    origin: &Origin,
) -> Result<&'a mut Table, Problem> {
    let count = members.len();
    let index: usize = match index.parse() {
        Ok(index) if index <= count => index,
        _ => {
            let text = format!(
                "\"{index}\" is no stream; streams go by index, and the next to add is {count}"
            );
            return Err(Problem::Override(text));
        }
    };
    if index == count {
        members.push(Node {
            origin: origin.clone(),
            value: Value::Table(Table::new()),
            raw: None,
        });
    }
    match &mut members[index].value {
        Value::Table(inner) => Ok(inner),
        other => Err(Problem::Override(format!(
            "stream {index} is {}, not a table",
            other.type_name()
        ))),
    }
}
