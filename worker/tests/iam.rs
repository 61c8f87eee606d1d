//! The policy of `shardkeeper iam` against the calls a worker really makes: the binary works on the embedded AWS, is made
//! to use everything it can use, and every call must be allowed – and everything that is allowed must have been called.
#![cfg(feature = "local")]
#![allow(clippy::disallowed_methods)] // processes take real time

mod sdk;

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use aws_sdk_kinesis::{primitives::Blob, types::ScalingType};
use serde_json::Value;
use shardkeeper::local::{
    LocalAws, LocalOptions,
    faults::{Action, Faults, Rule, Service},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shardkeeper");
/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(150);

/// A worker's configuration in a directory of its own, and how to start programs with it.
struct Stage {
    aws: LocalAws,
    directory: std::path::PathBuf,
}

impl Stage {
    async fn new(name: &str, extra: &str) -> Stage {
        let aws = LocalAws::start(LocalOptions::default()).await.unwrap();
        let directory =
            std::env::temp_dir().join(format!("shardkeeper-iam-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let text = format!(
            "[app]\nname = \"policy\"\n\
             [[stream]]\nname = \"orders\"\nregion = \"eu-central-1\"\nendpoint = \"{}\"\n\
             [lease]\nendpoint = \"{}\"\nfailover = \"5s\"\n{extra}\n\
             [handler]\nsink = \"jsonl\"\npath = \"{}/out.jsonl\"\n\
             [admin]\nlisten = \"off\"\n",
            aws.kinesis_url(),
            aws.dynamodb_url(),
            directory.display(),
        );
        let mut file = std::fs::File::create(directory.join("worker.toml")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Stage { aws, directory }
    }

    fn program(&self, subcommand: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args([subcommand, "--config"])
            .arg(self.directory.join("worker.toml"))
            .env_remove("AWS_REGION")
            .env_remove("AWS_DEFAULT_REGION")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    fn worker(&self) -> Worker {
        let log = std::fs::File::create(self.directory.join("log")).unwrap();
        let child = self
            .program("run")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Worker(child)
    }

    /// The actions of the policy, e.g. `dynamodb:Scan`.
    fn allowed(&self) -> Vec<String> {
        let answer = self
            .program("iam")
            .args(["--account", "123456789012"])
            .output()
            .unwrap();
        assert!(answer.status.success(), "{answer:?}");
        let policy: Value = serde_json::from_slice(&answer.stdout).unwrap();
        let statements = policy["Statement"].as_array().unwrap();
        let actions = statements
            .iter()
            .flat_map(|statement| statement["Action"].as_array().unwrap());
        actions
            .map(|action| action.as_str().unwrap().to_owned())
            .collect()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn kinesis(&self) -> aws_sdk_kinesis::Client {
        aws_sdk_kinesis::Client::new(&sdk::config(&self.aws.kinesis_url()))
    }

    async fn make_stream(&self) {
        let kinesis = self.kinesis();
        let call = kinesis.create_stream().stream_name("orders").shard_count(2);
        call.send().await.unwrap();
    }

    async fn make_table(&self) {
        let client = aws_sdk_dynamodb::Client::new(&sdk::config(&self.aws.dynamodb_url()));
        sdk::create_table(&client, "policy", "leaseKey").await;
    }

    /// Makes every parent end and children begin.
    async fn reshard(&self) {
        let kinesis = self.kinesis();
        let call = kinesis.update_shard_count().stream_name("orders");
        let call = call
            .target_shard_count(4)
            .scaling_type(ScalingType::UniformScaling);
        call.send().await.unwrap();
    }

    async fn put(&self, key: &str) {
        let kinesis = self.kinesis();
        let call = kinesis.put_record().stream_name("orders");
        let call = call.partition_key(key).data(Blob::new(key.to_owned()));
        call.send().await.unwrap();
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(self.directory.join("out.jsonl"))
            .map_or(0, |text| text.lines().count())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A worker process; a test that fails does not leave it behind.
struct Worker(Child);

impl Worker {
    fn stop(&mut self) {
        let told = Command::new("kill")
            .arg(self.0.id().to_string())
            .status()
            .unwrap();
        assert!(told.success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn until(what: &str, stage: &Stage, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(
            Instant::now() < end,
            "never happened: {what}\n{}",
            stage.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Counts calls by rules of the fault hook that match and never fire: one for each action, and one for all calls of a
/// service, which shows calls that no action stands for.
struct Spy {
    faults: Faults,
}

impl Spy {
    fn watch(stage: &Stage, actions: &[String]) -> Spy {
        let faults = stage.aws.faults();
        let unseen = |service, operation: Option<&str>| Rule {
            service: Some(service),
            operation: operation.map(str::to_owned),
            delay_ms: 1,
            probability: 0.0,
            ..Rule::new(Action::Delay)
        };
        for action in actions {
            let (service, operation) = split(action);
            faults.add(unseen(service, Some(operation)), 0).unwrap();
        }
        for service in [Service::Kinesis, Service::DynamoDb] {
            faults.add(unseen(service, None), 0).unwrap();
        }
        Spy { faults }
    }

    fn calls(&self, service: Service, operation: Option<&str>) -> u64 {
        let rules = self.faults.list();
        let rule = rules.iter().find(|status| {
            status.rule.probability == 0.0
                && status.rule.service == Some(service)
                && status.rule.operation.as_deref() == operation
        });
        rule.map_or(0, |status| status.seen)
    }
}

fn split(action: &str) -> (Service, &str) {
    match action.split_once(':').unwrap() {
        ("kinesis", operation) => (Service::Kinesis, operation),
        ("dynamodb", operation) => (Service::DynamoDb, operation),
        other => panic!("the embedded AWS has no service for {other:?}"),
    }
}

/// Permissions that CreateTable needs beside its own; there is no call of their own.
const IMPLIED: [&str; 1] = ["dynamodb:TagResource"];

fn calls_of(spy: &Spy, actions: &[String]) -> BTreeMap<String, u64> {
    let called = |action: &String| {
        let (service, operation) = split(action);
        (action.clone(), spy.calls(service, Some(operation)))
    };
    actions.iter().map(called).collect()
}

/// Calls of a service that are none of these actions.
fn others(spy: &Spy, service: Service, calls: &BTreeMap<String, u64>) -> u64 {
    let of_service = |action: &String| split(action).0 == service;
    let known: u64 = calls
        .iter()
        .filter(|(action, _)| of_service(action))
        .map(|(_, calls)| calls)
        .sum();
    spy.calls(service, None) - known
}

/// A fleet's life: the table is made, shards are read to their end, their children after them, answers get lost, and the
/// worker leaves.
async fn whole_life(stage: &Stage, actions: &[String]) -> BTreeMap<String, u64> {
    stage.make_stream().await;
    let spy = Spy::watch(stage, actions);
    let mut worker = stage.worker();
    for key in ["a", "b", "c", "d"] {
        stage.put(key).await;
    }
    until("four records", stage, || stage.lines() >= 4).await;
    // A holder whose write had no answer reads the row.
    let lost = Rule::new(Action::Lost)
        .on(Service::DynamoDb, "UpdateItem")
        .times(8);
    stage.aws.faults().add(lost, 0).unwrap();
    until("a row read again", stage, || {
        spy.calls(Service::DynamoDb, Some("GetItem")) > 0
    })
    .await;
    stage.reshard().await;
    for key in ["e", "f", "g", "h"] {
        stage.put(key).await;
    }
    until("eight records", stage, || stage.lines() >= 8).await;
    worker.stop();
    let calls = calls_of(&spy, actions);
    // Eight puts and one reshard are the test's own.
    assert_eq!(others(&spy, Service::Kinesis, &calls), 9, "{calls:?}");
    assert_eq!(others(&spy, Service::DynamoDb, &calls), 0, "{calls:?}");
    calls
}

/// A table that an older program made without the index.
async fn without_index(stage: &Stage, actions: &[String]) -> BTreeMap<String, u64> {
    stage.make_stream().await;
    stage.make_table().await;
    let spy = Spy::watch(stage, actions);
    let mut worker = stage.worker();
    until("the index added", stage, || {
        spy.calls(Service::DynamoDb, Some("UpdateTable")) > 0
    })
    .await;
    stage.put("a").await;
    until("a record", stage, || stage.lines() >= 1).await;
    worker.stop();
    let calls = calls_of(&spy, actions);
    assert_eq!(others(&spy, Service::Kinesis, &calls), 1, "{calls:?}");
    assert_eq!(others(&spy, Service::DynamoDb, &calls), 0, "{calls:?}");
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_calls_what_its_policy_allows_and_nothing_else() {
    let keys = "point_in_time_recovery = true\ntags = { team = \"data\" }";
    let stage = Stage::new("life", keys).await;
    let allowed = stage.allowed();
    let (implied, actions): (Vec<String>, Vec<String>) = allowed
        .into_iter()
        .partition(|action| IMPLIED.contains(&action.as_str()));
    assert_eq!(implied, IMPLIED);

    let mut calls = whole_life(&stage, &actions).await;
    let young = Stage::new("index", keys).await;
    for (action, count) in without_index(&young, &actions).await {
        *calls.entry(action).or_default() += count;
    }
    let idle: Vec<_> = calls.iter().filter(|(_, count)| **count == 0).collect();
    assert!(idle.is_empty(), "allowed, and never called: {idle:?}");
}
