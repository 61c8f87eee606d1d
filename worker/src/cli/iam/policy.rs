//! Rule: the statements a configuration needs.
//!
//! Each action stands beside the call it is for. What a call does not need is not there: no index is queried, no tag is
//! read, and a table that may not be made may not be changed either. `worker/tests/iam.rs` runs a worker against the
//! embedded AWS and holds its calls against this policy, in both directions.

use std::collections::BTreeSet;

use serde::Serialize;

use super::arn::{self, NO_ACCOUNT, NO_REGION, Place};
use crate::config::{Access, Config, Lease, Retrieval, Stream};

/// Characters of a customer managed policy at most, white space not counted.
const LONGEST_POLICY: usize = 6_144;

/// Whose policy it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principal {
    /// The credentials the process starts with.
    Worker,
    /// A role it assumes, by ARN.
    Role(String),
}

impl Principal {
    /// Whether calls with this access are made by this principal.
    fn uses(&self, access: &Access) -> bool {
        match (self, &access.role) {
            (Principal::Worker, None) => true,
            (Principal::Role(arn), Some(role)) => role.arn.as_str() == arn,
            _ => false,
        }
    }
}

/// A policy document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Policy {
    /// The version of the policy language.
    pub(super) version: &'static str,
    /// What is allowed.
    pub(super) statement: Vec<Statement>,
}

/// Actions on resources.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Statement {
    /// What the statement is for.
    pub(super) sid: &'static str,
    effect: &'static str,
    /// What may be called.
    pub(super) action: Vec<&'static str>,
    /// On what.
    pub(super) resource: Vec<String>,
}

fn allow(sid: &'static str, action: Vec<&'static str>, resource: Vec<String>) -> Statement {
    Statement {
        sid,
        effect: "Allow",
        action,
        resource,
    }
}

/// The policy of `principal`. Statements about nothing are left out.
pub(super) fn of(
    config: &Config,
    principal: &Principal,
    place: &Place,
    kms_keys: &[String],
) -> Policy {
    let read: Vec<&Stream> = config
        .streams
        .iter()
        .filter(|stream| principal.uses(&stream.access))
        .collect();
    let arns = read
        .iter()
        .map(|stream| arn::stream(stream, place))
        .collect();
    let mut statement = vec![allow("ReadStreams", reading(&read), arns)];
    if !read.is_empty() {
        let keys = kms_keys.to_vec();
        statement.push(allow("DecryptStreams", vec!["kms:Decrypt"], keys));
    }
    if principal.uses(&config.lease.access) {
        let table = vec![arn::table(&config.lease, &config.streams, place)];
        statement.push(allow("UseLeaseTable", using(), table.clone()));
        statement.push(allow("SetUpLeaseTable", setting_up(&config.lease), table));
    }
    if *principal == Principal::Worker {
        statement.push(allow("AssumeRoles", vec!["sts:AssumeRole"], roles(config)));
    }
    statement.retain(|statement| !statement.action.is_empty() && !statement.resource.is_empty());
    Policy {
        version: "2012-10-17",
        statement,
    }
}

/// What reading these streams takes.
fn reading(streams: &[&Stream]) -> Vec<&'static str> {
    let mut actions = BTreeSet::new();
    for stream in streams {
        // At start, and for the lineage of shards.
        actions.extend(["kinesis:DescribeStreamSummary", "kinesis:ListShards"]);
        match stream.retrieval {
            Retrieval::Polling => {
                actions.extend(["kinesis:GetShardIterator", "kinesis:GetRecords"]);
            }
        }
    }
    actions.into_iter().collect()
}

/// What working with a lease table takes that is there.
fn using() -> Vec<&'static str> {
    vec![
        "dynamodb:DescribeTable",
        "dynamodb:Scan",
        // The row whose write had no answer.
        "dynamodb:GetItem",
        // New rows and the leader lock.
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        // The leader lock, rows of workers that left, rows of shards that are gone.
        "dynamodb:DeleteItem",
    ]
}

/// What making the lease table, or completing it, takes.
fn setting_up(lease: &Lease) -> Vec<&'static str> {
    let mut actions = Vec::new();
    if lease.create {
        // UpdateTable adds the index that Java workers need where it is missing.
        actions.extend(["dynamodb:CreateTable", "dynamodb:UpdateTable"]);
        if !lease.tags.is_empty() {
            actions.push("dynamodb:TagResource");
        }
    }
    if lease.point_in_time_recovery {
        actions.push("dynamodb:UpdateContinuousBackups");
    }
    actions
}

/// The roles that are assumed, each once, in the order of the configuration.
pub(super) fn roles(config: &Config) -> Vec<String> {
    let streams = config.streams.iter().map(|stream| &stream.access);
    let mut roles = Vec::new();
    for access in streams.chain([&config.lease.access]) {
        if let Some(role) = &access.role
            && !roles.iter().any(|known| known == role.arn.as_str())
        {
            roles.push(role.arn.to_string());
        }
    }
    roles
}

/// What a person has to know beside the policy.
pub(super) fn notes(
    config: &Config,
    principal: &Principal,
    policy: &Policy,
    kms_keys: &[String],
) -> Vec<String> {
    let mut notes = Vec::new();
    let resources = || policy.statement.iter().flat_map(|it| &it.resource);
    for (placeholder, option) in [(NO_ACCOUNT, "--account"), (NO_REGION, "--region")] {
        let stands = |arn: &String| arn.split(':').any(|part| part == placeholder);
        if resources().any(stands) {
            notes.push(format!(
                "replace {placeholder} in the ARNs, or give {option}"
            ));
        }
    }
    let decrypts = |statement: &Statement| statement.sid == "ReadStreams";
    if kms_keys.is_empty() && policy.statement.iter().any(decrypts) {
        notes.push("a stream encrypted with a key of your own needs --kms-key too".to_owned());
    }
    if *principal == Principal::Worker {
        notes.extend(roles(config).into_iter().map(|role| {
            format!("{role} needs a policy of its own (--role), and a trust policy that lets this worker's role assume it")
        }));
    }
    let length = serde_json::to_string(policy).map_or(0, |text| text.len());
    if length > LONGEST_POLICY {
        notes.push(format!(
            "this policy has {length} characters, a managed policy at most {LONGEST_POLICY}: split it by statement or stream"
        ));
    }
    notes
}
