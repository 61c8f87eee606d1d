//! Every exit code that the program can be brought to, but for the demo's own.

use std::{process::Stdio, time::Duration};

use rustix::process::Signal;
use shardkeeper::local::faults::{Action, Rule, Service};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};

use crate::world::{World, signal, wait};

fn start(world: &World, arguments: &[&str]) -> Child {
    let mut command = world.command(arguments);
    command.stdout(Stdio::null());
    world.spawn(command)
}

/// Waits until a worker holds the stream's only shard.
fn until_held(world: &World, by: &str) {
    for _ in 0..300 {
        let shown = world.run(&["leases", "--json"]);
        if shown.code == Some(0) && shown.json().iter().any(|line| line["reader"] == by) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{by} holds nothing after all this time");
}

#[test]
fn done_is_0() {
    let world = World::new();
    world.run(&["--help"]).exits(0).prints(&["Exit codes"]);
    for name in ["run", "leases", "check", "put", "version"] {
        let help = world.run(&[name, "--help"]).exits(0);
        let examples = name == "run" || help.out.contains("Examples:");
        assert!(examples, "{name} --help has no examples");
    }
    world
        .run(&["--version"])
        .exits(0)
        .prints(&[env!("CARGO_PKG_VERSION")]);
    world.run(&["version"]).exits(0).prints(&[
        "shardkeeper ",
        "features     local\n",
        "lease table  KCL 3.x",
    ]);
    let version = world
        .run(&["version", "--json"])
        .exits(0)
        .json()
        .swap_remove(0);
    assert_eq!(
        (&version["version"], &version["features"][0]),
        (&env!("CARGO_PKG_VERSION").into(), &"local".into())
    );

    world.stream("orders", 1);
    let worker = start(&world, &["run", "--set", "app.worker_id=ann"]);
    until_held(&world, "ann");
    signal(&worker, Signal::TERM);
    world.ended(worker).exits(0);
}

#[test]
fn failed_is_1() {
    // A second signal does not wait for what is left.
    let world = World::new();
    world.stream("orders", 1);
    world.put("orders", "", b"one\n").exits(0);
    let worker = start(&world, &["run", "--set", "app.worker_id=ann"]);
    until_held(&world, "ann");
    // Hand-over cannot be written, so it lasts until the second signal.
    let rule = serde_json::json!({ "service": "dynamodb", "action": "throttle" });
    world.fault(serde_json::from_value(rule).expect("a rule"));
    signal(&worker, Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    signal(&worker, Signal::TERM);
    world.ended(worker).exits(1).says(&["told to end at once"]);

    world
        .run(&["leases"])
        .exits(1)
        .says(&["table orders-app", "throttled"]);
}

/// `shardkeeper run | head -n 1`
#[test]
fn a_reader_that_goes_away_ends_the_worker_and_the_rest_comes_again() {
    let world = World::new();
    world.stream("orders", 1);
    world.put("orders", "", b"one\n").exits(0);
    let mut worker = world.spawn(world.command(&["run", "--set", "app.worker_id=ann"]));
    let mut out = BufReader::new(worker.stdout.take().expect("piped")).lines();
    let first = world.runtime.block_on(out.next_line()).expect("readable");
    assert!(first.expect("a line").contains("\"one\""));
    drop(out);
    // The pipe is full of nothing: the next write shows that nobody reads.
    world.put("orders", "", b"two\n").exits(0);
    world
        .ended(worker)
        .exits(1)
        .says(&["nobody reads the standard output any more"]);

    let mut worker = world.spawn(world.command(&["run", "--set", "app.worker_id=bob"]));
    let mut out = BufReader::new(worker.stdout.take().expect("piped")).lines();
    let next = world.runtime.block_on(out.next_line()).expect("readable");
    assert!(next.expect("a line").contains("\"two\""), "one is done");
    signal(&worker, Signal::TERM);
    world.ended(worker).exits(0);
}

#[test]
fn usage_is_2() {
    let world = World::new();
    world.run(&[]).exits(2).says(&["Usage"]);
    world
        .run(&["lease"])
        .exits(2)
        .says(&["'lease'", "'leases'"]);
    world
        .run(&["run", "--confg", "x"])
        .exits(2)
        .says(&["--config"]);
    world.file(
        "typo.toml",
        &world
            .config("orders", "orders-app")
            .replace("failover", "failovr"),
    );
    world
        .run(&["run", "--config", "typo.toml"])
        .exits(2)
        .says(&["typo.toml:12: ", "failovr", "failover"]);
    world
        .run(&["run", "--set", "lease.failover"])
        .exits(2)
        .says(&["--set lease.failover"]);
}

#[test]
fn foreign_is_3() {
    let world = World::new();
    world.stream("orders", 1);
    world.stream("payments", 2);
    // A table of another stream: the one `orders` was read with.
    let worker = start(&world, &["run", "--set", "app.worker_id=ann"]);
    until_held(&world, "ann");
    signal(&worker, Signal::TERM);
    world.ended(worker).exits(0);
    world.file("payments.toml", &world.config("payments", "orders-app"));
    world
        .run(&["run", "--config", "payments.toml"])
        .exits(3)
        .says(&["shardId-000000000000", "orders", "payments"]);
    // It still serves its own stream.
    world.run(&["check", "--aws"]).exits(0);

    // A table that is no lease table.
    world.table("customers", "id");
    world
        .run(&["run", "--set", "lease.table=customers"])
        .exits(3)
        .says(&["customers", "leaseKey"]);
}

#[test]
fn absent_is_4() {
    let world = World::new();
    world
        .run(&["run"])
        .exits(4)
        .says(&["stream orders does not exist"]);
    world.stream("orders", 1);
    let never = [
        "run",
        "--set",
        "lease.create=false",
        "--set",
        "lease.table=nowhere",
    ];
    world
        .run(&never)
        .exits(4)
        .says(&["nowhere", "lease.create"]);
}

#[test]
fn denied_is_5() {
    let world = World::new();
    world.stream("orders", 1);
    world
        .finish(world.command_without_credentials(&["run"]))
        .exits(5)
        .says(&["no AWS credentials"]);
    world
        .finish(world.command_without_credentials(&["leases"]))
        .exits(5)
        .says(&["no AWS credentials"]);
    let rule = serde_json::json!({
        "service": "dynamodb", "operation": "DescribeTable", "action": "error", "code": "AccessDeniedException"
    });
    world.fault(serde_json::from_value(rule).expect("a rule"));
    world
        .run(&["run"])
        .exits(5)
        .says(&["orders-app", "AccessDenied"]);
}

#[test]
fn a_duplicate_worker_id_is_6() {
    let world = World::new();
    world.stream("orders", 1);
    let twins = ["run", "--set", "app.worker_id=ann"];
    let first = start(&world, &twins);
    until_held(&world, "ann");
    let second = start(&world, &twins);
    let ended = world.runtime.block_on(async {
        let both = futures::future::select(Box::pin(wait(first)), Box::pin(wait(second)));
        let (ended, _lives_on) = both.await.factor_first();
        ended
    });
    ended.exits(6).says(&["worker id ann"]);
}

#[test]
fn aws_that_is_away_at_the_start_is_waited_for() {
    let world = World::new();
    world.stream("orders", 1);
    for (service, operation) in [
        (Service::Kinesis, "DescribeStreamSummary"),
        (Service::DynamoDb, "DescribeTable"),
    ] {
        world.fault(Rule::new(Action::Cut).on(service, operation).times(3));
    }
    let worker = start(&world, &["run", "--set", "app.worker_id=ann"]);
    until_held(&world, "ann");
    signal(&worker, Signal::TERM);
    world.ended(worker).exits(0).says(&[
        "cannot start yet: table orders-app cannot be set up",
        "cannot start yet: DescribeStreamSummary of orders",
    ]);
}
