//! Lines and JSON lines: each becomes one record, with its key, in the order of its key.

use checkpoint::HashKey;

use super::{only_shard, payloads, sorted_payloads};
use crate::world::{World, text};

#[test]
fn lines_become_records_spread_over_the_shards() {
    let world = World::new();
    world.stream("orders", 2);
    let input: String = (1..=200)
        .map(|number| format!("line {number}\n\n"))
        .collect();
    let done = world.put("orders", "--json", input.as_bytes()).exits(0);
    let summary = done.summary();
    assert_eq!(
        (
            &summary["records"],
            &summary["kinesis_records"],
            &summary["resent"]
        ),
        (&200.into(), &200.into(), &0.into())
    );
    assert!(summary["unplaced"].as_array().expect("a list").is_empty());
    assert!(
        done.err.is_empty(),
        "no progress without a terminal: {}",
        done.err
    );

    let shards = world.user_records("orders");
    assert!(
        shards.values().all(|records| records.len() > 40),
        "random keys"
    );
    let mut expected: Vec<String> = (1..=200).map(|number| format!("line {number}")).collect();
    expected.sort_unstable();
    assert_eq!(sorted_payloads(&world), expected);
}

#[test]
fn records_of_one_key_keep_their_order_over_several_calls() {
    let world = World::new();
    world.stream("orders", 2);
    let lines: Vec<String> = (1..=1_200).map(|number| number.to_string()).collect();
    let done = world
        .put("orders", "--key fixed:ann", lines.join("\n").as_bytes())
        .exits(0);
    assert!(done.out.starts_with("1,200 records, "), "{}", done.out);
    let shards = world.user_records("orders");
    let used: Vec<_> = shards
        .values()
        .filter(|records| !records.is_empty())
        .collect();
    assert_eq!(used.len(), 1, "one key, one shard");
    assert_eq!(payloads(used[0]), lines);
    assert!(used[0].iter().all(|record| record.partition_key == "ann"));
}

#[test]
fn json_lines_say_bytes_and_keys_and_come_from_a_file_too() {
    let world = World::new();
    world.stream("orders", 2);
    let lines = format!(
        "{}\n{}\n{}\n",
        r#"{"data":"text","partition_key":"ann"}"#,
        r#"{"data_base64":"/wAB","partition_key":"bob"}"#,
        format_args!(
            r#"{{"data":{{"id":"eve"}},"explicit_hash_key":"{}"}}"#,
            u128::MAX
        )
    );
    let file = world.file("orders.jsonl", &lines);
    let arguments = [
        "put",
        file.to_str().expect("text"),
        "--jsonl",
        "--config",
        "worker.toml",
        "--key",
        "json:id",
    ];
    world
        .run(&arguments)
        .exits(0)
        .prints(&["3 records", "into orders"]);
    let shards = world.user_records("orders");
    let find = |key: &str| {
        let mut all = shards
            .iter()
            .flat_map(|(shard, records)| records.iter().map(move |record| (shard, record)));
        all.find(|(_, record)| record.partition_key == key)
            .expect("it was put")
    };
    assert_eq!(find("ann").1.data, "text");
    assert_eq!(find("bob").1.data, &b"\xff\x00\x01"[..]);
    let (shard, eve) = find("eve");
    assert_eq!(eve.data, r#"{"id":"eve"}"#);
    assert_eq!(
        shard, "shardId-000000000001",
        "the explicit hash key is the last shard's"
    );
}

#[test]
fn what_run_writes_can_be_put_again() {
    let world = World::new();
    world.stream("copies", 1);
    let line = br#"{"stream":"orders","shard":"shardId-000000000000","sequence":"49","sub_sequence":3,"partition_key":"ann","arrival_ms":7,"data":"x"}"#;
    world.put("copies", "--jsonl", line).exits(0);
    let records = only_shard(&world, "copies");
    assert_eq!(
        (payloads(&records), records[0].partition_key.as_str()),
        (vec!["x".to_owned()], "ann")
    );
}

#[test]
fn hash_keys_decide_the_lane_but_not_the_result() {
    // Explicit hash keys at the edges of the space must not confuse the choice of lanes.
    let world = World::new();
    world.stream("orders", 3);
    let lines: String = [HashKey::MIN, HashKey::MAX, HashKey(1 << 127)]
        .iter()
        .map(|key| format!("{{\"data\":\"{key}\",\"explicit_hash_key\":\"{key}\"}}\n"))
        .collect();
    for more in ["--jsonl", "--jsonl --aggregate"] {
        world.put("orders", more, lines.as_bytes()).exits(0);
    }
    for (range, records) in world.kinesis_records("orders").into_values() {
        for record in records {
            let key: HashKey = text(&record.data).parse().expect("digits");
            assert!(range.contains(key));
        }
    }
    assert_eq!(world.user_records("orders").values().flatten().count(), 6);
}
