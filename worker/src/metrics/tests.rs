//! What an exporter renders of what was reported.

mod document;
mod events;
mod shards;

use super::*;

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
