//! `check`: what is right is said to be right, and what is not is named.

use aws_sdk_dynamodb::types::AttributeValue;
use shardkeeper::local::faults::{Action, Rule, Service};

use crate::world::World;

/// Splits lines into words, so that alignment does not matter.
fn verdicts(out: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    out.lines().filter_map(line).collect()
}

fn says(out: &str, verdict: &str, what: &str) -> bool {
    verdicts(out)
        .iter()
        .any(|(found, of)| found == verdict && of == what)
}

#[test]
fn a_good_file_is_told_in_short_with_what_overrides_it() {
    let world = World::new();
    let mut command = world.command(&["check", "--set", "checkpoint.every=7s"]);
    command.env("SHARDKEEPER__LEASE__FAILOVER", "4s");
    world.finish(command).exits(0).prints(&[
        "worker.toml is a good configuration\n",
        "orders-app",
        "failover 4s",
        "every 7s",
        "SHARDKEEPER__LEASE__FAILOVER=4s (environment)",
        "checkpoint.every=7s (--set)",
    ]);
    world
        .run(&["check"])
        .exits(0)
        .prints(&["overridden   nothing"]);
}

#[test]
fn a_bad_file_is_refused_by_file_and_line() {
    let world = World::new();
    world.file("bad.toml", "[app]\nname = \"x-app\"\n[[stream]]\nname = \"orders\"\nstrat = \"latest\"\n[lease]\nfailover = \"5\"\n");
    world
        .run(&["check", "--config", "bad.toml"])
        .exits(2)
        .says(&["bad.toml:5: ", "strat", "start", "bad.toml:7: ", "failover"]);
    world
        .run(&["check", "--config", "none.toml"])
        .exits(2)
        .says(&["none.toml"]);
    world
        .run(&["check", "--set", "lease.failover=1"])
        .exits(2)
        .says(&["--set lease.failover"]);
}

#[test]
fn every_permission_is_tried_and_nothing_is_changed() {
    let world = World::new();
    world.stream("orders", 2);
    let done = world.run(&["check", "--aws"]).exits(0);
    for action in [
        "kinesis:DescribeStreamSummary",
        "kinesis:ListShards",
        "kinesis:GetShardIterator",
        "kinesis:GetRecords",
        "dynamodb:DescribeTable",
        "dynamodb:Scan",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    ] {
        assert!(says(&done.out, "ok", action), "{action}: {}", done.out);
    }
    let done = done.prints(&[
        "access key test",
        "2 open shards",
        "does not exist; the first worker makes it",
    ]);
    drop(done);
    let tables = world
        .runtime
        .block_on(world.dynamodb().list_tables().send())
        .expect("tables");
    assert!(tables.table_names().is_empty(), "nothing was made");

    world.table("orders-app", "leaseKey");
    world
        .run(&["check", "--aws"])
        .exits(0)
        .prints(&["0 leases, of this application's streams"]);
    let rows = world
        .runtime
        .block_on(world.dynamodb().scan().table_name("orders-app").send())
        .expect("rows");
    assert!(rows.items().is_empty(), "nothing was written");
}

#[test]
fn what_is_not_there_is_absent() {
    let world = World::new();
    let done = world.run(&["check", "--aws"]).exits(4);
    assert!(
        says(&done.out, "absent", "kinesis:DescribeStreamSummary"),
        "{}",
        done.out
    );
    world.stream("orders", 1);
    let done = world
        .run(&["check", "--aws", "--set", "lease.create=false"])
        .exits(4);
    done.prints(&["does not exist, and lease.create is false"]);
}

#[test]
fn what_is_refused_is_missing() {
    let world = World::new();
    world.stream("orders", 1);
    world.table("orders-app", "leaseKey");
    for (service, operation) in [
        (Service::Kinesis, "GetRecords"),
        (Service::DynamoDb, "UpdateItem"),
    ] {
        let mut rule = Rule::new(Action::Error).on(service, operation);
        rule.code = Some("AccessDeniedException".to_owned());
        world.fault(rule);
    }
    let done = world.run(&["check", "--aws"]).exits(5);
    for (verdict, action) in [
        ("missing", "kinesis:GetRecords"),
        ("ok", "kinesis:GetShardIterator"),
        ("missing", "dynamodb:UpdateItem"),
        ("ok", "dynamodb:PutItem"),
    ] {
        assert!(says(&done.out, verdict, action), "{action}: {}", done.out);
    }
}

#[test]
fn without_an_answer_nothing_is_claimed() {
    let world = World::new();
    world.stream("orders", 1);
    world.fault(Rule::new(Action::Internal).on(Service::Kinesis, "ListShards"));
    let done = world.run(&["check", "--aws"]).exits(1);
    assert!(
        says(&done.out, "unclear", "kinesis:ListShards"),
        "{}",
        done.out
    );
}

#[test]
fn without_credentials_nothing_else_is_tried() {
    let world = World::new();
    let done = world
        .finish(world.command_without_credentials(&["check", "--aws"]))
        .exits(5);
    assert!(says(&done.out, "missing", "credentials"), "{}", done.out);
    assert!(!done.out.contains("kinesis:"), "{}", done.out);
}

#[test]
fn a_table_of_another_stream_is_foreign_and_so_is_one_of_another_key() {
    let world = World::new();
    world.stream("orders", 1);
    world.table("customers", "id");
    world
        .run(&["check", "--aws", "--set", "lease.table=customers"])
        .exits(3)
        .prints(&["foreign", "it is no lease table", "leaseKey"]);
    world.table("orders-app", "leaseKey");
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let row = [
        ("leaseKey", text("shardId-000000000000")),
        ("checkpoint", text("TRIM_HORIZON")),
        ("leaseCounter", AttributeValue::N("1".to_owned())),
        ("startingHashKey", text("0")),
        ("endingHashKey", text("5")),
    ];
    world.row(
        "orders-app",
        row.map(|(name, value)| (name.to_owned(), value)),
    );
    world
        .run(&["check", "--aws"])
        .exits(3)
        .prints(&["foreign", "another hash key range"]);
}
