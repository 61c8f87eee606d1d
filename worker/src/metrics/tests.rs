//! Every event reaches its metric; gauges live and die with their shard; the document tells what there is.

use std::collections::BTreeSet;

use super::*;

const DOCUMENT: &str = include_str!("../../../docs/METRICS.md");

/// A recorder of the test's own.
struct Scene {
    exporter: Exporter,
}

impl Scene {
    fn new(labels: ShardLabels) -> Self {
        Scene {
            exporter: Exporter::build(labels).unwrap(),
        }
    }

    fn shard(&self, stream: &str, shard: &str) -> ShardMetrics {
        self.run(|| self.exporter.registry.shard(stream, shard))
    }

    fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.exporter.within(f)
    }

    fn render(&self) -> String {
        self.exporter.render()
    }

    /// The value of a series, e.g. `leases_held` or `shard_ends_total{stream="orders"}`.
    fn value(&self, series: &str) -> Option<f64> {
        let wanted = format!("shardkeeper_{series} ");
        self.render()
            .lines()
            .find_map(|line| line.strip_prefix(&wanted)?.parse().ok())
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Causes every event once.
fn everything(scene: &Scene) -> ShardMetrics {
    let shard = scene.shard("orders", "shardId-7");
    scene.run(|| {
        shard.records_read(3, 300);
        shard.get_records_ended(ReadResult::Throttled, seconds(2));
        shard.iterator_age(seconds(100), Some(seconds(86_400)));
        shard.deaggregated(Deaggregation::OutOfRange, 4);
        shard.records_skipped(5);
        shard.shard_ended();
        shard.batch_delivered(6, 600);
        shard.handler_ended(true, seconds(7));
        shard.handler_in_progress(seconds(8));
        shard.checkpoint_written();
        shard.checkpoint_lag(9);
        shard.lease_renewal_age(seconds(10));
        lease_written(LeaseOperation::HandOff, WriteResult::Unknown, seconds(11));
        lease_taken();
        lease_lost();
        lease_released();
        lease_handed_off();
        child_created();
        hole_repaired();
        throttled(Service::Kinesis, "GetRecords");
        leases_held(14);
        stuck_shards(15);
        is_leader(true);
        fleet_seen(FleetView {
            workers: 16,
            unassigned: 17,
            expired: 18,
            blocked_on_parent: 19,
        });
        table_unreachable(seconds(20));
        buffer_used(21);
        buffer_limit(22);
        worker_state(WorkerState::Draining);
    });
    shard
}

/// What [`everything`] comes to.
const EXPECTED: &[(&str, f64)] = &[
    (
        r#"records_read_total{stream="orders",shard="shardId-7"}"#,
        3.0,
    ),
    (
        r#"bytes_read_total{stream="orders",shard="shardId-7"}"#,
        300.0,
    ),
    (
        r#"get_records_total{stream="orders",result="throttled"}"#,
        1.0,
    ),
    (r#"get_records_total{stream="orders",result="ok"}"#, 0.0),
    (r#"get_records_seconds_sum{stream="orders"}"#, 2.0),
    (r#"get_records_seconds_bucket{stream="orders",le="1"}"#, 0.0),
    (
        r#"get_records_seconds_bucket{stream="orders",le="2.5"}"#,
        1.0,
    ),
    (
        r#"iterator_age_seconds{stream="orders",shard="shardId-7"}"#,
        100.0,
    ),
    (
        r#"retention_left_seconds{stream="orders",shard="shardId-7"}"#,
        86_300.0,
    ),
    (
        r#"deaggregation_total{stream="orders",result="out_of_range"}"#,
        4.0,
    ),
    (
        r#"records_skipped_total{stream="orders",shard="shardId-7"}"#,
        5.0,
    ),
    (r#"shard_ends_total{stream="orders"}"#, 1.0),
    (
        r#"batches_delivered_total{stream="orders",shard="shardId-7"}"#,
        1.0,
    ),
    (
        r#"records_delivered_total{stream="orders",shard="shardId-7"}"#,
        6.0,
    ),
    (
        r#"bytes_delivered_total{stream="orders",shard="shardId-7"}"#,
        600.0,
    ),
    (r#"handler_seconds_sum{stream="orders"}"#, 7.0),
    (
        r#"handler_errors_total{stream="orders",shard="shardId-7"}"#,
        1.0,
    ),
    (
        r#"handler_in_progress_seconds{stream="orders",shard="shardId-7"}"#,
        8.0,
    ),
    (
        r#"checkpoints_written_total{stream="orders",shard="shardId-7"}"#,
        1.0,
    ),
    (
        r#"checkpoint_lag_records{stream="orders",shard="shardId-7"}"#,
        9.0,
    ),
    (
        r#"lease_renewal_age_seconds{stream="orders",shard="shardId-7"}"#,
        10.0,
    ),
    (
        r#"lease_writes_total{operation="hand_off",result="unknown"}"#,
        1.0,
    ),
    (r#"lease_write_seconds_sum{operation="hand_off"}"#, 11.0),
    ("leases_taken_total", 1.0),
    ("leases_lost_total", 1.0),
    ("leases_released_total", 1.0),
    ("leases_handed_off_total", 1.0),
    ("children_created_total", 1.0),
    ("holes_repaired_total", 1.0),
    (
        r#"throttles_total{service="kinesis",operation="GetRecords"}"#,
        1.0,
    ),
    ("leases_held", 14.0),
    ("stuck_shards", 15.0),
    ("is_leader", 1.0),
    ("workers_seen", 16.0),
    ("unassigned_leases", 17.0),
    ("expired_leases", 18.0),
    ("blocked_on_parent", 19.0),
    ("table_unreachable_seconds", 20.0),
    ("buffer_used_bytes", 21.0),
    ("buffer_limit_bytes", 22.0),
    (r#"worker_state{state="draining"}"#, 1.0),
    (r#"worker_state{state="running"}"#, 0.0),
    (
        concat!(
            r#"build_info{version=""#,
            env!("CARGO_PKG_VERSION"),
            r#""}"#
        ),
        1.0,
    ),
];

#[test]
fn every_event_reaches_its_metric() {
    let scene = Scene::new(ShardLabels::Shard);
    let _held = everything(&scene);
    for (series, value) in EXPECTED {
        assert_eq!(
            scene.value(series),
            Some(*value),
            "{series}\n{}",
            scene.render()
        );
    }
    let name_of = |series: &&str| {
        let name = series.split('{').next().expect("a name");
        format!("shardkeeper_{}", name.trim_end_matches("_sum"))
    };
    let reached: BTreeSet<String> = EXPECTED.iter().map(|(series, _)| name_of(series)).collect();
    let forgotten: Vec<&str> = ALL
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !reached.contains(*name))
        .collect();
    assert!(
        forgotten.is_empty(),
        "no event of this test reaches {forgotten:?}"
    );
}

#[test]
fn every_metric_is_rendered_with_its_type_and_help() {
    let scene = Scene::new(ShardLabels::Shard);
    let _held = everything(&scene);
    let text = scene.render();
    for metric in ALL {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        assert!(
            text.contains(&format!("# TYPE {} {kind}\n", metric.name)),
            "{}",
            metric.name
        );
        assert!(
            text.contains(&format!("# HELP {} {}\n", metric.name, metric.help)),
            "{}",
            metric.name
        );
    }
}

#[test]
fn the_gauges_of_a_shard_vanish_with_it_and_the_rest_stays() {
    let scene = Scene::new(ShardLabels::Shard);
    let given_up = everything(&scene);
    let kept = scene.shard("orders", "shardId-8");
    kept.iterator_age(seconds(1), None);
    let another_handle = given_up.clone();
    drop(given_up);
    let age_of =
        |shard: &str| format!("iterator_age_seconds{{stream=\"orders\",shard=\"{shard}\"}}");
    assert_eq!(
        scene.value(&age_of("shardId-7")),
        Some(100.0),
        "a clone still holds it"
    );
    drop(another_handle);
    assert_eq!(scene.value(&age_of("shardId-7")), None);
    assert_eq!(
        scene.value("retention_left_seconds{stream=\"orders\",shard=\"shardId-7\"}"),
        None
    );
    for _ in 0..3 {
        assert_eq!(
            scene.value(&age_of("shardId-8")),
            Some(1.0),
            "a quiet shard stays"
        );
        assert_eq!(scene.value("leases_held"), Some(14.0));
        assert_eq!(scene.value("worker_state{state=\"draining\"}"), Some(1.0));
    }
    assert_eq!(
        scene.value("records_read_total{stream=\"orders\",shard=\"shardId-7\"}"),
        Some(3.0),
        "counters never go"
    );
    let again = scene.shard("orders", "shardId-7");
    assert_eq!(
        scene.value(&age_of("shardId-7")),
        None,
        "a new tenure knows no age yet"
    );
    again.iterator_age(seconds(5), None);
    assert_eq!(scene.value(&age_of("shardId-7")), Some(5.0));
}

#[test]
fn without_shard_labels_counters_add_up_and_gauges_show_the_worst() {
    for (labels, suffix) in [
        (ShardLabels::Stream, "{stream=\"orders\"}"),
        (ShardLabels::Off, ""),
    ] {
        let scene = Scene::new(labels);
        let shards = [
            scene.shard("orders", "a"),
            scene.shard("orders", "b"),
            scene.shard("orders", "unset"),
        ];
        for (shard, age) in shards.iter().zip([100, 400]) {
            shard.iterator_age(seconds(age), Some(seconds(1_000)));
            shard.checkpoint_lag(age);
            shard.records_read(1, 1);
            shard.shard_ended();
        }
        let value = |name: &str| scene.value(&format!("{name}{suffix}"));
        assert_eq!(value("iterator_age_seconds"), Some(400.0));
        assert_eq!(value("retention_left_seconds"), Some(600.0));
        assert_eq!(value("checkpoint_lag_records"), Some(500.0));
        assert_eq!(value("records_read_total"), Some(2.0));
        assert_eq!(value("shard_ends_total"), Some(2.0));
        assert!(!scene.render().contains("shard=\""));
        let [_first, worst, _unset] = shards;
        drop(worst);
        assert_eq!(
            scene.value(&format!("iterator_age_seconds{suffix}")),
            Some(100.0)
        );
    }
}

#[test]
fn streams_are_told_apart_without_shard_labels() {
    let scene = Scene::new(ShardLabels::Stream);
    let shards = [scene.shard("orders", "a"), scene.shard("payments", "a")];
    shards[0].iterator_age(seconds(1), None);
    shards[1].iterator_age(seconds(2), None);
    assert_eq!(
        scene.value("iterator_age_seconds{stream=\"orders\"}"),
        Some(1.0)
    );
    assert_eq!(
        scene.value("iterator_age_seconds{stream=\"payments\"}"),
        Some(2.0)
    );
}

#[test]
fn what_never_happened_reads_zero() {
    let scene = Scene::new(ShardLabels::Shard);
    for metric in ALL.iter().filter(|metric| metric.labels.is_empty()) {
        let series = metric.name.trim_start_matches("shardkeeper_");
        assert_eq!(scene.value(series), Some(0.0), "{series}");
    }
}

#[test]
fn scrapers_at_once_do_not_lose_a_live_gauge() {
    let scene = Scene::new(ShardLabels::Shard);
    let held = scene.shard("orders", "a");
    held.iterator_age(seconds(3), None);
    scene.run(|| leases_held(1));
    let scrape = || {
        for _ in 0..50 {
            let text = scene.render();
            assert!(
                text.contains("iterator_age_seconds{stream=\"orders\",shard=\"a\"} 3"),
                "{text}"
            );
            assert!(text.contains("shardkeeper_leases_held 1"), "{text}");
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(scrape);
        }
    });
}

#[test]
fn without_a_recorder_events_go_nowhere() {
    let shard = ShardMetrics::new("orders", "a");
    shard.records_read(1, 1);
    shard.iterator_age(seconds(1), None);
    lease_taken();
}

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
