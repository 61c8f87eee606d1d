//! docs/SEMANTICS.md against the tests it names: each must exist, each promise must name one, and no hazard is left out.

use std::{collections::BTreeMap, fs, path::Path};

/// A test as the document names it: [`name`](../path).
struct Named<'a> {
    name: &'a str,
    path: &'a str,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/SEMANTICS.md")).expect("the document is there")
}

fn named(text: &str) -> Vec<Named<'_>> {
    text.split("[`")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once("`](../")?;
            let (path, _) = rest.split_once(')')?;
            (path.ends_with(".rs") && !name.contains('`')).then_some(Named { name, path })
        })
        .collect()
}

/// Whether the file has a test of that name: a function with a test attribute, or one inside `proptest!`, before it.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    source.match_indices(&head).any(|(at, _)| {
        let before = source[..at].trim_end().trim_end_matches("async").trim_end();
        before.ends_with("#[test]")
            || before
                .lines()
                .last()
                .is_some_and(|line| line.contains("#[tokio::test"))
    })
}

/// The lines of the section with this number.
fn section(document: &str, number: u32) -> Vec<&str> {
    let head = format!("## {number}. ");
    document
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .collect()
}

/// Each bullet with its further lines.
fn bullets(lines: &[&str]) -> Vec<String> {
    let mut bullets: Vec<String> = Vec::new();
    for line in lines {
        match line.strip_prefix("* ") {
            Some(text) => bullets.push(text.to_owned()),
            None if line.starts_with("  ") => {
                let bullet = bullets.last_mut().expect("a line goes on with a bullet");
                bullet.push(' ');
                bullet.push_str(line.trim());
            }
            None => {}
        }
    }
    bullets
}

#[test]
fn every_test_that_is_named_exists() {
    let document = document();
    let named = named(&document);
    assert!(
        named.len() > 50,
        "only {} tests are found in the text",
        named.len()
    );
    let mut missing = Vec::new();
    for test in named {
        let source = fs::read_to_string(root().join(test.path)).unwrap_or_default();
        if !has_test(&source, test.name) {
            missing.push(format!("{}::{}", test.path, test.name));
        }
    }
    assert!(missing.is_empty(), "no such test:\n{}", missing.join("\n"));
}

#[test]
fn every_promise_names_a_test_or_says_that_it_has_none() {
    let document = document();
    let promises = bullets(&section(&document, 2));
    assert!(
        promises.len() > 20,
        "only {} promises are found",
        promises.len()
    );
    let bare: Vec<&String> = promises
        .iter()
        .filter(|promise| named(promise).is_empty())
        .collect();
    assert!(bare.is_empty(), "promises without a test: {bare:#?}");
}

#[test]
fn every_hazard_has_a_state_and_what_is_closed_a_reason() {
    let document = document();
    let mut states: BTreeMap<String, &str> = BTreeMap::new();
    for row in section(&document, 5)
        .iter()
        .filter(|line| line.starts_with("| "))
    {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, state, reason] = cells[..] else {
            panic!("not four cells: {row}");
        };
        if number == "#" || number.starts_with("--") {
            continue;
        }
        assert!(
            ["closed", "partly", "open", "n/a"].contains(&state),
            "{row}"
        );
        let by_construction = reason.contains("By construction");
        assert!(
            state != "closed" || by_construction || !named(reason).is_empty(),
            "closed, but no test is named and it does not say why none is needed: {row}"
        );
        assert_eq!(
            states.insert(number.to_owned(), state),
            None,
            "{number} is there twice"
        );
    }
    let all = (1..=47)
        .map(|number| format!("H{number}"))
        .chain((1..=29).map(|number| format!("R{number}")));
    for number in all {
        assert!(states.remove(&number).is_some(), "{number} is left out");
    }
    assert!(states.is_empty(), "unknown hazards: {states:?}");
}

#[test]
fn a_test_that_is_not_there_is_seen() {
    let source = "#[test]\nfn here() {}\nfn helper() {}\n#[tokio::test(start_paused = true)]\nasync fn later() {}\n";
    assert!(has_test(source, "here") && has_test(source, "later"));
    assert!(!has_test(source, "helper") && !has_test(source, "nowhere"));
    assert_eq!(
        named("as [`here`](../a/b.rs) says, not [`x`](../a.md)").len(),
        1
    );
    assert_eq!(
        bullets(&["* one", "  goes on", "", "* two"]),
        ["one goes on", "two"]
    );
}
