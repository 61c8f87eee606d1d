//! `put`: what goes in comes out, and what cannot go in is named.

use std::{collections::BTreeSet, time::Duration};

use checkpoint::{HashKey, UserRecord};
use shardkeeper::{
    clock::system_wall,
    local::{
        faults::{Action, Rule, Service},
        model::ModelOptions,
    },
};

use crate::world::{World, text};

fn payloads<'a>(records: impl IntoIterator<Item = &'a UserRecord>) -> Vec<String> {
    records
        .into_iter()
        .map(|record| text(&record.data))
        .collect()
}

fn numbers(count: u64) -> BTreeSet<u64> {
    (1..=count).collect()
}

/// Generated records begin with their number.
fn number(record: &UserRecord) -> u64 {
    let text = text(&record.data);
    let digits = text.split(' ').next().expect("a number");
    digits.parse().expect("a number")
}

#[test]
fn lines_become_records_spread_over_the_shards() {
    let world = World::new();
    world.stream("orders", 2);
    let input: String = (1..=200)
        .map(|number| format!("line {number}\n\n"))
        .collect();
    let done = world.put("orders", &["--json"], input.as_bytes()).exits(0);
    let summary = &done.json()[0];
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
    let mut found = payloads(shards.values().flatten());
    let mut expected: Vec<String> = (1..=200).map(|number| format!("line {number}")).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn records_of_one_key_keep_their_order_over_several_calls() {
    let world = World::new();
    world.stream("orders", 2);
    let lines: Vec<String> = (1..=1_200).map(|number| number.to_string()).collect();
    let done = world
        .put(
            "orders",
            &["--key", "fixed:ann"],
            lines.join("\n").as_bytes(),
        )
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
    world.put("copies", &["--jsonl"], line).exits(0);
    let records = world
        .user_records("copies")
        .remove("shardId-000000000000")
        .expect("a shard");
    assert_eq!(
        (payloads(&records), records[0].partition_key.as_str()),
        (vec!["x".to_owned()], "ann")
    );
}

#[test]
fn aggregates_hold_what_belongs_to_their_shard_and_lose_nothing() {
    let world = World::new();
    world.stream("orders", 4);
    let generate = [
        "--generate",
        "5000",
        "--size",
        "100",
        "--seed",
        "7",
        "--aggregate=8KiB",
        "--linger",
        "1h",
        "--key",
        "sequence",
        "--json",
    ];
    let done = world.put("orders", &generate, b"").exits(0);
    let summary = &done.json()[0];
    assert_eq!(
        (&summary["records"], &summary["misplaced"]),
        (&5_000.into(), &0.into())
    );
    let kinesis_records = summary["kinesis_records"].as_u64().expect("a number");
    assert!(
        (60..120).contains(&kinesis_records),
        "8 KiB hold about 70 of them: {kinesis_records}"
    );

    let raw = world.kinesis_records("orders");
    let count: usize = raw.values().map(|(_, records)| records.len()).sum();
    assert_eq!(count as u64, kinesis_records);
    let sizes = raw
        .values()
        .flat_map(|(_, records)| records)
        .map(|record| record.data.len());
    assert!(sizes.max() <= Some(8 << 10));

    // Unpacked with each shard's range: a record in the wrong shard would be missing here.
    let shards = world.user_records("orders");
    let all: Vec<_> = shards.values().flatten().collect();
    assert_eq!(all.len(), 5_000);
    assert_eq!(
        all.iter()
            .map(|record| number(record))
            .collect::<BTreeSet<_>>(),
        numbers(5_000)
    );
    for records in shards.values() {
        assert!(
            records
                .iter()
                .all(|record| record.aggregated && record.data.len() == 100)
        );
        let order: Vec<u64> = records.iter().map(number).collect();
        assert!(order.is_sorted(), "each shard in the order of the input");
    }
    for record in all {
        assert_eq!(record.partition_key, number(record).to_string().as_str());
    }
}

#[test]
fn the_same_seed_makes_the_same_records() {
    let world = World::new();
    let mut streams = Vec::new();
    for (stream, seed) in [("first", "3"), ("second", "3"), ("third", "4")] {
        world.stream(stream, 1);
        world
            .put(
                stream,
                &["--generate", "20", "--size", "64", "--seed", seed],
                b"",
            )
            .exits(0);
        let records = world
            .user_records(stream)
            .remove("shardId-000000000000")
            .expect("a shard");
        // Calls of several lanes arrive in any order.
        let found: BTreeSet<_> = records
            .iter()
            .map(|record| (record.partition_key.as_str().to_owned(), text(&record.data)))
            .collect();
        assert_eq!(found.len(), 20);
        streams.push(found);
    }
    assert_eq!(streams[0], streams[1]);
    assert_ne!(streams[0], streams[2]);
}

/// The shards of the aggregates' records change while they are put, twice.
#[test]
fn aggregates_survive_a_split_and_a_merge() {
    let world = World::new();
    world.stream("orders", 2);
    let url = world.aws.kinesis_url();
    let arguments = [
        "put",
        "--stream",
        "orders",
        "--region",
        "us-east-1",
        "--endpoint",
        &url,
        "--generate",
        "6000",
        "--size",
        "50",
        "--rate",
        "2000/s",
        "--aggregate=16KiB",
        "--key",
        "sequence",
        "--json",
    ];
    let mut command = world.command(&arguments);
    let put = world.runtime.spawn(async move { command.output().await });
    let reshard = |what: &dyn Fn(&mut shardkeeper::local::model::Kinesis)| {
        std::thread::sleep(Duration::from_millis(900));
        what(&mut world.aws.kinesis().lock());
    };
    reshard(&|kinesis| {
        let middle = (1 << 126) + 1;
        kinesis
            .split_shard("orders", "shardId-000000000000", middle, system_wall())
            .expect("a split");
    });
    reshard(&|kinesis| {
        let (one, other) = ("shardId-000000000003", "shardId-000000000001");
        kinesis
            .merge_shards("orders", one, other, system_wall())
            .expect("a merge");
    });
    let output = world
        .runtime
        .block_on(put)
        .expect("no panic")
        .expect("it starts");
    let done = crate::world::done(output).exits(0);
    let summary = &done.json()[0];
    assert_eq!(summary["records"], 6_000);
    assert!(
        summary["misplaced"].as_u64() > Some(0),
        "the split met an aggregate: {summary}"
    );
    let shards = world.user_records("orders");
    let children = shards
        .iter()
        .filter(|(id, records)| id.as_str() > "shardId-000000000001" && !records.is_empty());
    assert!(children.count() >= 2, "it went on in the children");
    let found: BTreeSet<u64> = shards.values().flatten().map(number).collect();
    assert_eq!(found, numbers(6_000));
}

#[test]
fn a_stream_that_is_too_slow_gets_everything_in_the_end() {
    let world = World::with(ModelOptions {
        enforce_throughput: true,
        ..ModelOptions::default()
    });
    world.stream("orders", 1);
    let done = world
        .put(
            "orders",
            &[
                "--generate",
                "4",
                "--size",
                "700KiB",
                "--key",
                "fixed:ann",
                "--linger",
                "1h",
                "--json",
            ],
            b"",
        )
        .exits(0);
    let summary = &done.json()[0];
    assert_eq!(summary["records"], 4);
    assert!(
        summary["resent"].as_u64() > Some(0),
        "a shard takes 1 MiB a second: {summary}"
    );
    let found: BTreeSet<u64> = world
        .user_records("orders")
        .values()
        .flatten()
        .map(number)
        .collect();
    assert_eq!(found, numbers(4));
}

#[test]
fn faults_are_outlived() {
    let world = World::new();
    world.stream("orders", 1);
    for action in [
        Action::Throttle,
        Action::Internal,
        Action::Cut,
        Action::Lost,
    ] {
        world.fault(
            Rule::new(action)
                .on(Service::Kinesis, "PutRecords")
                .times(1),
        );
    }
    let done = world
        .put(
            "orders",
            &[
                "--generate",
                "100",
                "--size",
                "20",
                "--key",
                "fixed:ann",
                "--linger",
                "1h",
                "--json",
            ],
            b"",
        )
        .exits(0);
    let summary = &done.json()[0];
    assert_eq!(
        (
            &summary["records"],
            summary["unplaced"].as_array().map(Vec::len)
        ),
        (&100.into(), Some(0))
    );
    assert_eq!(
        summary["resent"], 400,
        "four calls of 100 records came to nothing: {summary}"
    );
    let records = world
        .user_records("orders")
        .remove("shardId-000000000000")
        .expect("a shard");
    assert_eq!(
        records.len(),
        200,
        "one of them was carried out, but its answer lost"
    );
    assert_eq!(
        records.iter().map(number).collect::<BTreeSet<_>>(),
        numbers(100)
    );
}

#[test]
fn what_cannot_be_put_is_listed_and_the_rest_is_put() {
    let world = World::new();
    world.stream("orders", 1);
    let big = "x".repeat((1 << 20) + 1);
    let long_key = format!(r#"{{"data":"x","partition_key":"{}"}}"#, "k".repeat(257));
    let input = format!(
        "{{\"data\":\"one\"}}\n{{\"data\":\"{big}\"}}\n{long_key}\n{{\"data\":\"four\"}}\n"
    );
    let done = world
        .put("orders", &["--jsonl", "--json"], input.as_bytes())
        .exits(1);
    let summary = &done.json()[0];
    let lines: BTreeSet<u64> = summary["unplaced"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["line"].as_u64().expect("a line"))
        .collect();
    assert_eq!(lines, [2, 3].into());
    let done = done.says(&[
        "2 records could not be put",
        "line 2: ",
        "line 3: the partition key has 257 characters",
    ]);
    assert_eq!(done.json()[0]["records"], 2);
    let mut found = payloads(world.user_records("orders").values().flatten());
    found.sort_unstable();
    assert_eq!(found, ["four", "one"]);
}

#[test]
fn gives_up_in_time_and_says_so() {
    let world = World::new();
    world.stream("orders", 1);
    world.fault(Rule::new(Action::Throttle).on(Service::Kinesis, "PutRecords"));
    world
        .put("orders", &["--give-up-after", "500ms"], b"one\ntwo\n")
        .exits(1)
        .prints(&["0 records"])
        .says(&[
            "2 records could not be put",
            "line 1: throttled",
            "line 2: throttled",
        ]);
}

#[test]
fn a_bad_line_ends_it_and_is_named() {
    let world = World::new();
    world.stream("orders", 1);
    let input = b"{\"data\":\"one\"}\n\n{\"dta\":\"two\"}\n{\"data\":\"three\"}\n";
    world
        .put("orders", &["--jsonl"], input)
        .exits(2)
        .prints(&["1 records"])
        .says(&["line 3 ", "dta"]);
    assert_eq!(
        payloads(world.user_records("orders").values().flatten()),
        ["one"]
    );
    world
        .put("orders", &["--key", "json:id"], b"{\"id\":1}\nno json\n")
        .exits(2)
        .says(&["line 2 is not JSON"]);
}

#[test]
fn wrong_arguments_are_refused_with_a_reason() {
    let world = World::new();
    let wrong: [(&[&str], &str); 11] = [
        (&["put"], "--stream"),
        (&["put", "--stream", "or ders"], "stream name"),
        (&["put", "--stream", "arn:aws:s3:::x"], "stream ARN"),
        (
            &["put", "--stream", "orders", "--key", "hash"],
            "random, fixed:KEY",
        ),
        (&["put", "--stream", "orders", "--rate", "fast"], "500/s"),
        (
            &["put", "--stream", "orders", "--aggregate=20MiB"],
            "one Kinesis record",
        ),
        (&["put", "--stream", "orders", "--size", "10"], "--generate"),
        (
            &["put", "--stream", "orders", "--endpoint", "localhost"],
            "endpoint",
        ),
        (
            &["put", "--stream", "orders", "--generate", "5", "file"],
            "cannot be used with",
        ),
        (
            &["put", "--stream", "orders", "no-such-file"],
            "no-such-file cannot be read",
        ),
        (
            &["put", "--config", "worker.toml", "--stream", "payments"],
            "it has orders",
        ),
    ];
    for (arguments, word) in wrong {
        world.run(arguments).exits(2).says(&[word]);
    }
}

#[test]
fn the_stream_must_be_there_and_open_to_us() {
    let world = World::new();
    world
        .put("nowhere", &["--json"], b"one\n")
        .exits(4)
        .says(&["nowhere does not exist"]);
    world
        .put("nowhere", &["--aggregate"], b"one\n")
        .exits(4)
        .says(&["nowhere does not exist"]);
    world.stream("orders", 1);
    let mut denied = Rule::new(Action::Error).on(Service::Kinesis, "PutRecords");
    denied.code = Some("AccessDeniedException".to_owned());
    world.fault(denied);
    let done = world
        .put("orders", &["--json"], b"one\n")
        .exits(5)
        .says(&["cannot be written"]);
    assert_eq!(done.json()[0]["unplaced"][0]["line"], 1);
    let url = world.aws.kinesis_url();
    let arguments = [
        "put",
        "--stream",
        "orders",
        "--region",
        "us-east-1",
        "--endpoint",
        &url,
    ];
    world
        .finish(world.command_without_credentials(&arguments))
        .exits(5)
        .says(&["no AWS credentials"]);
    world
        .run(&["put", "--stream", "orders", "--endpoint", &url])
        .exits(2)
        .says(&["no AWS region"]);
}

#[test]
fn told_to_stop_it_puts_what_it_has_read() {
    let world = World::new();
    world.stream("orders", 1);
    let url = world.aws.kinesis_url();
    let arguments = [
        "put",
        "--stream",
        "orders",
        "--region",
        "us-east-1",
        "--endpoint",
        &url,
        "--generate",
        "1000000",
        "--rate",
        "200/s",
        "--key",
        "sequence",
        "--json",
    ];
    let mut command = world.command(&arguments);
    let child = {
        let _runtime = world.runtime.enter();
        command.spawn().expect("it starts")
    };
    while world.user_records("orders").values().all(Vec::is_empty) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = i32::try_from(child.id().expect("it lives")).expect("a process id");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(id).expect("not zero"),
        rustix::process::Signal::INT,
    )
    .expect("it lives");
    let done = crate::world::done(
        world
            .runtime
            .block_on(child.wait_with_output())
            .expect("it ends"),
    )
    .exits(1);
    let put = done.json()[0]["records"].as_u64().expect("a number");
    let found: BTreeSet<u64> = world
        .user_records("orders")
        .values()
        .flatten()
        .map(number)
        .collect();
    assert_eq!(
        found,
        numbers(put),
        "all it says it has put, from the first on"
    );
    done.says(&["told to stop"]);
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
    for more in [&["--jsonl"][..], &["--jsonl", "--aggregate"]] {
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
