//! The example file and the reference, held against the keys the code asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, EXAMPLE, SMALLEST, parse};

const DOCUMENT: &str = include_str!("../../../../docs/CONFIGURATION.md");

/// Every leaf key the code asks for.
fn known_keys() -> BTreeSet<String> {
    let (_, keys) =
        Config::parse_and_list(SMALLEST, "worker.toml", std::iter::empty(), &[]).unwrap();
    let is_leaf = |key: &&String| {
        !keys
            .iter()
            .any(|other| other.starts_with(&format!("{key}.")))
    };
    keys.iter().filter(is_leaf).cloned().collect()
}

/// A line of the example as an assignment, and whether it is commented out. Prose is no assignment.
fn assignment(line: &str) -> Option<(toml::Table, bool)> {
    let (text, commented) = line
        .strip_prefix("# ")
        .map_or((line, false), |text| (text, true));
    let word = text.split(" = ").next()?;
    let is_key = !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    text.parse()
        .ok()
        .filter(|table: &toml::Table| is_key && !table.is_empty())
        .map(|table| (table, commented))
}

/// Dotted leaf keys of the example and their values; commented ones too.
fn example_keys() -> BTreeMap<String, (toml::Value, bool)> {
    fn walk(
        path: &str,
        value: &toml::Value,
        commented: bool,
        keys: &mut BTreeMap<String, (toml::Value, bool)>,
    ) {
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                inner.iter().for_each(|(key, value)| {
                    walk(&format!("{path}.{key}"), value, commented, keys)
                });
            }
            _ => {
                let before = keys.insert(path.to_owned(), (value.clone(), commented));
                assert!(before.is_none(), "{path} is written twice");
            }
        }
    }
    let mut keys = BTreeMap::new();
    let mut section = String::new();
    for line in EXAMPLE.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
        } else if let Some((table, commented)) = assignment(line) {
            table.iter().for_each(|(key, value)| {
                walk(&format!("{section}.{key}"), value, commented, &mut keys)
            });
        }
    }
    keys
}

#[test]
fn the_example_holds_every_key_at_its_default() {
    let smallest = parse(SMALLEST, &[], &[]).unwrap();
    assert_eq!(parse(EXAMPLE, &[], &[]).unwrap(), smallest);
    let written: BTreeSet<String> = example_keys().into_keys().collect();
    assert_eq!(written, known_keys());
}

#[test]
fn the_commented_keys_of_the_example_work() {
    let uncomment = |line: &str| match assignment(line) {
        Some((_, true)) => line[2..].to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = EXAMPLE.lines().map(uncomment).collect();
    let config = parse(&text.join("\n"), &[], &["handler.sink=jsonl"]).unwrap();
    assert_eq!(config.app.worker_id.unwrap().as_str(), "worker-1");
    assert!(config.streams[0].access.role.is_some() && config.lease.access.endpoint.is_some());
}

#[test]
fn the_document_holds_every_key_and_its_default() {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let key = cells.next()?.trim_end_matches('`').to_owned();
        let is_key = |byte: u8| byte.is_ascii_lowercase() || b"_.".contains(&byte);
        key.bytes().all(is_key).then_some(())?;
        Some((key, cells.next()?.trim().trim_matches('`').to_owned()))
    };
    let documented: BTreeMap<String, String> = DOCUMENT.lines().filter_map(row).collect();
    assert_eq!(
        documented.keys().cloned().collect::<BTreeSet<_>>(),
        known_keys()
    );
    for (key, (value, commented)) in example_keys() {
        let required = ["app.name", "stream.name"].contains(&key.as_str());
        if !commented && !required {
            let default = format!("it = {}", documented[&key])
                .parse::<toml::Table>()
                .expect(&key);
            assert_eq!(default["it"], value, "default of {key}");
        }
    }
}
