//! A stream that throttles or fails, and a stop in the middle: what is put, and what the summary says of the rest.

use std::{collections::BTreeSet, time::Duration};

use rustix::process::Signal;
use shardkeeper::local::{
    faults::{Action, Rule, Service},
    model::ModelOptions,
};

use super::{number, numbers, numbers_put, only_shard};
use crate::world::{World, signal};

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
            "--generate 4 --size 700KiB --key fixed:ann --linger 1h --json",
            b"",
        )
        .exits(0);
    let summary = done.summary();
    assert_eq!(summary["records"], 4);
    assert!(
        summary["resent"].as_u64() > Some(0),
        "a shard takes 1 MiB a second: {summary}"
    );
    assert_eq!(numbers_put(&world), numbers(4));
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
            "--generate 100 --size 20 --key fixed:ann --linger 1h --json",
            b"",
        )
        .exits(0);
    let summary = done.summary();
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
    let records = only_shard(&world, "orders");
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
fn gives_up_in_time_and_says_so() {
    let world = World::new();
    world.stream("orders", 1);
    world.fault(Rule::new(Action::Throttle).on(Service::Kinesis, "PutRecords"));
    world
        .put("orders", "--give-up-after 500ms", b"one\ntwo\n")
        .exits(1)
        .prints(&["0 records"])
        .says(&[
            "2 records could not be put",
            "line 1: throttled",
            "line 2: throttled",
        ]);
}

#[test]
fn told_to_stop_it_puts_what_it_has_read() {
    let world = World::new();
    world.stream("orders", 1);
    let without_end = "--generate 1000000 --rate 200/s --key sequence --json";
    let child = world.spawn(world.put_command("orders", without_end));
    while world.user_records("orders").values().all(Vec::is_empty) {
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&child, Signal::INT);
    let done = world.ended(child).exits(1);
    let put = done.summary()["records"].as_u64().expect("a number");
    assert_eq!(
        numbers_put(&world),
        numbers(put),
        "all it says it has put, from the first on"
    );
    done.says(&["told to stop"]);
}
