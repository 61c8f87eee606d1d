//! docs/METRICS.md tells what there is, and nothing else.

use std::collections::BTreeSet;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/METRICS.md");

/// The row of the document for a metric.
fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric
        .labels
        .iter()
        .map(|label| format!("`{label}`"))
        .collect();
    let kind = format!("{:?}", metric.kind).to_lowercase();
    let unit = metric.unit.as_str();
    let labels = if labels.is_empty() {
        "none".to_owned()
    } else {
        labels.join(", ")
    };
    format!(
        "| `{}` | {kind} | {unit} | {labels} | {} |",
        metric.name, metric.help
    )
}

#[test]
fn the_document_tells_every_metric_and_no_other() {
    let expected: Vec<String> = ALL.iter().map(row).collect();
    let written: Vec<&str> = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `shardkeeper_"))
        .collect();
    assert_eq!(written, expected, "\n{}", expected.join("\n"));
    let known: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let named = DOCUMENT
        .split(|letter| !is_part(letter))
        .filter(|word| word.starts_with("shardkeeper_"));
    for name in named {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(
            known.contains(name) || known.contains(base),
            "{name} does not exist"
        );
    }
}

#[test]
fn the_document_tells_every_label_value() {
    let values = Deaggregation::ALL.iter().map(|value| value.as_str());
    let values = values.chain(ReadResult::ALL.iter().map(|value| value.as_str()));
    let values = values.chain(LeaseOperation::ALL.iter().map(|value| value.as_str()));
    let values = values.chain(WriteResult::ALL.iter().map(|value| value.as_str()));
    let values = values.chain(Service::ALL.iter().map(|value| value.as_str()));
    for value in values.chain(WorkerState::ALL.iter().map(|value| value.as_str())) {
        assert!(DOCUMENT.contains(&format!("`{value}`")), "{value}");
    }
}
