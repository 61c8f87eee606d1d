//! `leases`: what is in the table is what is shown.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::world::{World, signal};

const JAVA: &str = include_str!("../../../lease/tests/dynamodb/data/kcl-3.5.1-table.json");

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value
        .as_object()
        .and_then(|typed| typed.iter().next())
        .expect("a typed value");
    let word = || value.as_str().expect("text").to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(word()),
        "N" => AttributeValue::N(word()),
        "L" => AttributeValue::L(
            value
                .as_array()
                .expect("a list")
                .iter()
                .map(attribute)
                .collect(),
        ),
        "M" => {
            let entries = value.as_object().expect("a map").iter();
            AttributeValue::M(
                entries
                    .map(|(name, value)| (name.clone(), attribute(value)))
                    .collect::<HashMap<_, _>>(),
            )
        }
        other => panic!("the recording has no {other}"),
    }
}

fn s(name: &str, value: &str) -> (String, AttributeValue) {
    (name.to_owned(), AttributeValue::S(value.to_owned()))
}

fn n(name: &str, value: u64) -> (String, AttributeValue) {
    (name.to_owned(), AttributeValue::N(value.to_string()))
}

fn ss(name: &str, values: &[&str]) -> (String, AttributeValue) {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    (name.to_owned(), AttributeValue::Ss(values))
}

/// A row as a KCL writes it.
fn lease(shard: &str, checkpoint: &str) -> Vec<(String, AttributeValue)> {
    vec![
        s("leaseKey", shard),
        s("checkpoint", checkpoint),
        n("checkpointSubSequenceNumber", 0),
        n("leaseCounter", 5),
        n("ownerSwitchesSinceCheckpoint", 0),
    ]
}

/// The leases, by shard.
fn by_shard(lines: &[Value]) -> HashMap<&str, &Value> {
    let leases = lines.iter().filter(|line| line["kind"] == "lease");
    leases
        .map(|line| (line["shard"].as_str().expect("a shard"), line))
        .collect()
}

#[test]
fn an_absent_table_and_an_empty_one_are_told_apart() {
    let world = World::new();
    world
        .run(&["leases"])
        .exits(4)
        .says(&["table orders-app", "does not exist"]);
    world.table("orders-app", "leaseKey");
    world
        .run(&["leases"])
        .exits(0)
        .prints(&["table orders-app has no leases", "leader: none"]);
    assert_eq!(world.run(&["leases", "--json"]).exits(0).out, "");
}

#[test]
fn rows_of_the_java_kcl_are_shown() {
    let world = World::new();
    world.table("orders-app", "leaseKey");
    let moments: Value = serde_json::from_str(JAVA).expect("the recording");
    for item in moments[2]["items"].as_array().expect("rows") {
        let attributes = item.as_object().expect("a row").iter();
        world.row(
            "orders-app",
            attributes.map(|(name, value)| (name.clone(), attribute(value))),
        );
    }
    let done = world.run(&["leases"]).exits(0).prints(&[
        "SHARD                 STATE    OWNER     POSITION",
        "4 leases: 4 reading",
        "leader: worker-1\n",
        "worker: worker-1, 3 leases\n",
        "worker: worker-2, 1 lease\n",
    ]);
    assert!(
        done.out
            .contains("shardId-000000000003  reading  worker-2  …"),
        "{}",
        done.out
    );
    assert!(!done.out.contains('\x1b'), "no colour without a terminal");
    assert!(!done.out.contains("unreadable"), "{}", done.out);

    let full = world.run(&["leases", "--full"]).exits(0);
    assert!(
        full.out
            .contains("49680714666048906609503298382422030970537994791432486962/"),
        "{}",
        full.out
    );
    let lines = world.run(&["leases", "--json"]).exits(0).json();
    assert_eq!(
        lines.iter().filter(|line| line["kind"] == "worker").count(),
        2
    );
    let shard = by_shard(&lines)["shardId-000000000000"];
    assert_eq!(
        (&shard["reader"], &shard["state"]),
        (&"worker-1".into(), &"reading".into())
    );
    assert_eq!(
        (&shard["renewed"], &shard["silent_ms"]),
        (&Value::Null, &Value::Null),
        "one look tells nothing"
    );
}

#[test]
fn every_state_has_its_word_and_nonsense_is_named() {
    let world = World::new();
    world.table("orders-app", "leaseKey");
    let with = |shard, checkpoint, more: Vec<_>| {
        world.row(
            "orders-app",
            lease(shard, checkpoint).into_iter().chain(more),
        )
    };
    with(
        "shardId-0",
        "SHARD_END",
        vec![ss("childShardIds", &["shardId-3"])],
    );
    with("shardId-1", "123", vec![s("leaseOwner", "ann")]);
    with(
        "shardId-2",
        "456",
        vec![s("leaseOwner", "bob"), s("checkpointOwner", "ann")],
    );
    with(
        "shardId-3",
        "TRIM_HORIZON",
        vec![ss("parentShardId", &["shardId-0"])],
    );
    with(
        "shardId-4",
        "TRIM_HORIZON",
        vec![ss("parentShardId", &["shardId-1", "shardId-2"])],
    );
    with("shardId-5", "bogus\u{1b}[31m", vec![]);
    let done = world.run(&["leases"]).exits(0).prints(&[
        "shardId-0  finished            -           SHARD_END\n",
        "shardId-1  reading             ann         123/0\n",
        "shardId-2  handing over        ann -> bob  456/0\n",
        "shardId-3  free                -           TRIM_HORIZON\n",
        "shardId-4  waiting for parent  -           TRIM_HORIZON\n",
        "5 leases: 1 reading, 1 handing over, 1 free, 1 waiting for parent, 1 finished\n",
        "worker: ann, 2 leases, without a row of its own\n",
        "unreadable row shardId-5: ",
    ]);
    assert!(
        !done.out.contains('\x1b'),
        "what a row holds cannot drive a terminal"
    );
    let lines = world.run(&["leases", "--json"]).exits(0).json();
    let bad = lines
        .iter()
        .find(|line| line["kind"] == "unreadable")
        .expect("it is there");
    assert_eq!(bad["key"], "shardId-5");
}

#[test]
fn two_looks_tell_a_living_worker_from_a_dead_one_and_lag_is_asked_of_kinesis() {
    let world = World::new();
    world.stream("orders", 2);
    world.put("orders", "", b"one\ntwo\nthree\nfour\n").exits(0);
    let mut command = world.command(&["run", "--set", "app.worker_id=ann"]);
    command.stdout(std::process::Stdio::null());
    let mut worker = world.spawn(command);
    let alive = |lines: &[Value]| {
        let leases = by_shard(lines);
        leases.len() == 2
            && leases
                .values()
                .all(|lease| lease["reader"] == "ann" && lease["renewed"] == true)
    };
    let mut last = Vec::new();
    for _ in 0..60 {
        let done = world.run(&["leases", "--json", "--lag", "--for", "2s"]);
        last = if done.code == Some(0) {
            done.json()
        } else {
            Vec::new()
        };
        if alive(&last) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(alive(&last), "{last:?}");
    for lease in by_shard(&last).values() {
        assert!(lease["behind_ms"].is_u64(), "{lease}");
    }
    world.run(&["leases", "--for", "1500ms"]).exits(0).prints(&[
        "OWNER IS",
        "alive",
        "worker: ann, 2 leases",
    ]);

    world.runtime.block_on(worker.kill()).expect("it lives");
    world
        .run(&["leases", "--for", "1s"])
        .exits(0)
        .prints(&["reading", "ann", "silent for 1."]);
    let lines = world
        .run(&["leases", "--json", "--for", "1s"])
        .exits(0)
        .json();
    for lease in by_shard(&lines).values() {
        assert_eq!(lease["renewed"], false);
        assert!(lease["silent_ms"].as_u64() >= Some(1_000), "{lease}");
    }
}

#[test]
fn a_table_of_several_streams_shows_which() {
    let world = World::new();
    world.table("orders-app", "leaseKey");
    for stream in ["orders", "payments"] {
        let key = format!("123456789012:{stream}:1700000000:shardId-0");
        world.row("orders-app", lease(&key, "LATEST"));
    }
    world.run(&["leases"]).exits(0).prints(&[
        "STREAM    SHARD      STATE  OWNER  POSITION\n",
        "orders    shardId-0  free   -      LATEST\n",
        "payments  shardId-0  free   -      LATEST\n",
    ]);
    let lines = world.run(&["leases", "--json"]).exits(0).json();
    assert_eq!(
        (&lines[1]["stream"], &lines[1]["shard"]),
        (&"payments".into(), &"shardId-0".into())
    );
}

#[test]
fn watching_goes_on_until_told_to_stop() {
    let world = World::new();
    world.table("orders-app", "leaseKey");
    world.row("orders-app", lease("shardId-0", "7"));
    let mut child = world.spawn(world.command(&["leases", "--watch=200ms", "--json"]));
    let lines = world.runtime.block_on(async {
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = out.lines();
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.push(lines.next_line().await.expect("text").expect("more"));
        }
        seen
    });
    assert!(
        lines.iter().all(|line| line.contains("shardId-0")),
        "{lines:?}"
    );
    signal(&child, rustix::process::Signal::INT);
    let status = world.runtime.block_on(child.wait()).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn wrong_arguments_are_refused() {
    let world = World::new();
    let wrong: [(&[&str], &str); 4] = [
        (&["leases", "--for", "4"], "duration"),
        (&["leases", "--for", "4s", "--watch"], "cannot be used with"),
        (&["leases", "--watch=1ms"], "200ms"),
        (&["leases", "--config", "none.toml"], "none.toml"),
    ];
    for (arguments, word) in wrong {
        world.run(arguments).exits(2).says(&[word]);
    }
}
