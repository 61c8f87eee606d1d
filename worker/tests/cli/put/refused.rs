//! What is refused and named: records, lines, arguments, streams.

use std::collections::BTreeSet;

use shardkeeper::local::faults::{Action, Rule, Service};

use super::sorted_payloads;
use crate::world::World;

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
        .put("orders", "--jsonl --json", input.as_bytes())
        .exits(1);
    let summary = done.summary();
    let lines: BTreeSet<u64> = summary["unplaced"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["line"].as_u64().expect("a line"))
        .collect();
    assert_eq!(lines, [2, 3].into());
    assert_eq!(summary["records"], 2);
    done.says(&[
        "2 records could not be put",
        "line 2: ",
        "line 3: the partition key has 257 characters",
    ]);
    assert_eq!(sorted_payloads(&world), ["four", "one"]);
}

#[test]
fn a_bad_line_ends_it_and_is_named() {
    let world = World::new();
    world.stream("orders", 1);
    let input = b"{\"data\":\"one\"}\n\n{\"dta\":\"two\"}\n{\"data\":\"three\"}\n";
    world
        .put("orders", "--jsonl", input)
        .exits(2)
        .prints(&["1 records"])
        .says(&["line 3 ", "dta"]);
    assert_eq!(sorted_payloads(&world), ["one"]);
    world
        .put("orders", "--key json:id", b"{\"id\":1}\nno json\n")
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
        .put("nowhere", "--json", b"one\n")
        .exits(4)
        .says(&["nowhere does not exist"]);
    world
        .put("nowhere", "--aggregate", b"one\n")
        .exits(4)
        .says(&["nowhere does not exist"]);
    world.stream("orders", 1);
    let mut denied = Rule::new(Action::Error).on(Service::Kinesis, "PutRecords");
    denied.code = Some("AccessDeniedException".to_owned());
    world.fault(denied);
    let done = world
        .put("orders", "--json", b"one\n")
        .exits(5)
        .says(&["cannot be written"]);
    assert_eq!(done.summary()["unplaced"][0]["line"], 1);

    let arguments = world.put_arguments("orders", "");
    world
        .finish(world.command_without_credentials(&arguments))
        .exits(5)
        .says(&["no AWS credentials"]);
    world
        .run(&[
            "put",
            "--stream",
            "orders",
            "--endpoint",
            &world.aws.kinesis_url(),
        ])
        .exits(2)
        .says(&["no AWS region"]);
}
