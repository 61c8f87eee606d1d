//! Every metric is fed: a worker whose life has some of everything, and what it says of it.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use rustix::process::Signal;
use shardkeeper::metrics;
use shardkeeper_tests::processes::{Kind, World};

/// What must be more than zero at some time.
const COUNTED: &[&str] = &[
    "records_read_total",
    "bytes_read_total",
    "get_records_total",
    "get_records_seconds",
    "deaggregation_total",
    "shard_ends_total",
    "records_delivered_total",
    "bytes_delivered_total",
    "batches_delivered_total",
    "handler_seconds",
    "buffer_limit_bytes",
    "checkpoints_written_total",
    "checkpoint_lag_records",
    "leases_held",
    "leases_taken_total",
    "leases_lost_total",
    "leases_handed_off_total",
    "lease_writes_total",
    "lease_write_seconds",
    "lease_renewal_age_seconds",
    "is_leader",
    "workers_seen",
    "children_created_total",
    "holes_repaired_total",
    "throttles_total",
    "worker_state",
    "build_info",
];
/// What must be there, whatever it says: most of the time that is zero.
const PRESENT: &[&str] = &[
    "iterator_age_seconds",
    "retention_left_seconds",
    "handler_in_progress_seconds",
    "stuck_shards",
    "buffer_used_bytes",
    "table_unreachable_seconds",
    "unassigned_leases",
    "expired_leases",
    "blocked_on_parent",
];
/// What this life has none of.
const ELSEWHERE: &[&str] = &[
    "records_skipped_total",
    "handler_errors_total",
    "leases_released_total",
];

#[test]
fn a_life_with_some_of_everything_feeds_every_metric() {
    let all: Vec<&str> = metrics::ALL
        .iter()
        .map(|metric| metric.name.trim_start_matches("shardkeeper_"))
        .collect();
    for name in &all {
        let lists = [COUNTED, PRESENT, ELSEWHERE];
        let times = lists.iter().filter(|list| list.contains(name)).count();
        assert_eq!(times, 1, "{name} belongs into one of the lists");
    }
    let mut world = crate::world("metrics", 2);
    world.produce(Kind::Mixed);
    let admin = free_address();
    let listen = format!("admin.listen=\"{admin}\"");
    world.start("one", &[&listen]);
    world.balanced(&["one"], 2);
    // Before the throttles, which would hit this call too.
    forget(&world, "shardId-000000000001");
    world.split_the_first();
    for service in ["kinesis", "dynamodb"] {
        let rule = r#"{"action":"throttle","probability":0.5,"for_ms":1000,"service":"#;
        world.fault(&format!("{rule}\"{service}\"}}"));
    }
    world.start("two", &[]);
    world.until("a share for the other", Duration::from_secs(20), |world| {
        world.shares().contains_key("two")
    });
    let mut seen = BTreeMap::new();
    let fed = |seen: &BTreeMap<String, f64>| {
        let value = |name: &str| seen.get(name).copied().unwrap_or(-1.0);
        let zero = COUNTED.iter().filter(|name| value(name) <= 0.0);
        let absent = PRESENT.iter().filter(|name| value(name) < 0.0);
        zero.chain(absent).copied().collect::<Vec<_>>()
    };
    for _ in 0..100 {
        scrape(&admin, &mut seen);
        if fed(&seen).is_empty() {
            break;
        }
        world.watch(Duration::from_millis(100));
    }
    assert_eq!(fed(&seen), [""; 0], "nothing feeds these");
    world.signal("two", Signal::TERM);
    world.wait_watching("two", Duration::from_secs(10));
    world.finish(Duration::from_secs(10));
    world.assert_order();
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").to_string()
}

/// Deletes a row that somebody holds.
fn forget(world: &World, key: &str) {
    let key = AttributeValue::S(key.to_owned());
    let delete = world
        .dynamodb()
        .delete_item()
        .table_name("orders-app")
        .key("leaseKey", key)
        .send();
    world.runtime.block_on(delete).expect("deleted");
}

/// Adds what `/metrics` says: of each metric the greatest value that was seen.
fn scrape(admin: &str, seen: &mut BTreeMap<String, f64>) {
    let mut socket = TcpStream::connect(admin).expect("its admin server");
    let ask = "GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
    socket.write_all(ask.as_bytes()).expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("shardkeeper_") else {
            continue;
        };
        let name = rest.split(['{', ' ']).next().unwrap_or_default();
        let name = name.strip_suffix("_count").unwrap_or(name);
        let value = rest.rsplit(' ').next().and_then(|value| value.parse().ok());
        let Some(value): Option<f64> = value else {
            continue;
        };
        let most = seen.entry(name.to_owned()).or_insert(value);
        *most = most.max(value);
    }
}
