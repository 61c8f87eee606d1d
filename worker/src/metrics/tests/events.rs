//! Every event reaches its metric, and every metric is told with its type and its meaning.

use std::collections::BTreeSet;

use super::*;

/// What [`everything`] comes to, as it is rendered after `shardkeeper_`.
const EXPECTED: &str = r#"records_read_total{stream="orders",shard="shardId-7"} 3
bytes_read_total{stream="orders",shard="shardId-7"} 300
get_records_total{stream="orders",result="throttled"} 1
get_records_total{stream="orders",result="ok"} 0
get_records_seconds_sum{stream="orders"} 2
get_records_seconds_bucket{stream="orders",le="1"} 0
get_records_seconds_bucket{stream="orders",le="2.5"} 1
iterator_age_seconds{stream="orders",shard="shardId-7"} 100
retention_left_seconds{stream="orders",shard="shardId-7"} 86300
deaggregation_total{stream="orders",result="out_of_range"} 4
records_skipped_total{stream="orders",shard="shardId-7"} 5
shard_ends_total{stream="orders"} 1
batches_delivered_total{stream="orders",shard="shardId-7"} 1
records_delivered_total{stream="orders",shard="shardId-7"} 6
bytes_delivered_total{stream="orders",shard="shardId-7"} 600
handler_seconds_sum{stream="orders"} 7
handler_errors_total{stream="orders",shard="shardId-7"} 1
handler_in_progress_seconds{stream="orders",shard="shardId-7"} 8
checkpoints_written_total{stream="orders",shard="shardId-7"} 1
checkpoint_lag_records{stream="orders",shard="shardId-7"} 9
lease_renewal_age_seconds{stream="orders",shard="shardId-7"} 10
lease_writes_total{operation="hand_off",result="unknown"} 1
lease_write_seconds_sum{operation="hand_off"} 11
leases_taken_total 1
leases_lost_total 1
leases_released_total 1
leases_handed_off_total 1
children_created_total 1
holes_repaired_total 1
throttles_total{service="kinesis",operation="GetRecords"} 1
leases_held 14
stuck_shards 15
is_leader 1
workers_seen 16
unassigned_leases 17
expired_leases 18
blocked_on_parent 19
table_unreachable_seconds 20
buffer_used_bytes 21
buffer_limit_bytes 22
worker_state{state="draining"} 1
worker_state{state="running"} 0
build_info{version="VERSION"} 1"#;

fn series(line: &str) -> (&str, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a series and its value");
    (series, value.parse().expect("a number"))
}

#[test]
fn every_event_reaches_its_metric() {
    let scene = Scene::new(ShardLabels::Shard);
    let _held = everything(&scene);
    let expected = EXPECTED.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let expected: Vec<(&str, f64)> = expected.lines().map(series).collect();
    for (series, value) in &expected {
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
    let reached: BTreeSet<String> = expected.iter().map(|(series, _)| name_of(series)).collect();
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
