//! Wire: rows of the KCL's table, as attributes. Nothing outside this file spells an attribute.
//!
//! The format is that of the Java KCL 3.5 (`DynamoDBLeaseSerializer`, `DynamoDBMultiStreamLeaseSerializer`, the
//! DynamoDB lock client, `WorkerMetricStats`). Several kinds of rows share one table; `entityType` tells them apart:
//!
//! | `entityType` | row | read as |
//! |---|---|---|
//! | `LEASE`, or absent (written before 3.5) | a lease | [`Row::Lease`] |
//! | `LEADER` | the lock of the DynamoDB lock client | [`Row::Lock`] |
//! | `WORKER_METRIC_STATS` | what a worker says about itself | [`Row::Worker`] |
//! | anything else (`STREAM`, migration states, what a later KCL adds) | not ours | [`Row::Other`] |
//!
//! The Java KCL takes a row of an unknown type for a lease; here it is skipped, so that nothing is ever misread.
//! Attributes whose names begin with `sk` are shardkeeper's own: Java workers keep and ignore them.

mod lease;
mod reader;
mod service;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use self::{
    lease::read_lease,
    reader::Reader,
    service::{read_lock, read_worker},
};
pub(super) use self::{
    lease::{checkpoint_values, lease_item, throughput_value},
    service::{duration_value, lock_item, worker_values},
};
use crate::{
    lease::Lease,
    table::{Lock, Unreadable, WorkerRow},
};

/// A row as the table holds it.
pub(super) type Item = HashMap<String, AttributeValue>;

// Every row.
pub(super) const LEASE_KEY: &str = "leaseKey";
pub(super) const ENTITY_TYPE: &str = "entityType";

// A lease.
pub(super) const LEASE_COUNTER: &str = "leaseCounter";
pub(super) const LEASE_OWNER: &str = "leaseOwner";
pub(super) const CHECKPOINT_OWNER: &str = "checkpointOwner";
pub(super) const OWNER_SWITCHES: &str = "ownerSwitchesSinceCheckpoint";
pub(super) const CHECKPOINT: &str = "checkpoint";
pub(super) const CHECKPOINT_SUB_SEQUENCE: &str = "checkpointSubSequenceNumber";
pub(super) const PENDING_CHECKPOINT: &str = "pendingCheckpoint";
pub(super) const PENDING_SUB_SEQUENCE: &str = "pendingCheckpointSubSequenceNumber";
pub(super) const PENDING_STATE: &str = "pendingCheckpointState";
pub(super) const CHILD_SHARD_IDS: &str = "childShardIds";
pub(super) const THROUGHPUT: &str = "throughputKBps";
const PARENT_SHARD_ID: &str = "parentShardId";
const STARTING_HASH_KEY: &str = "startingHashKey";
const ENDING_HASH_KEY: &str = "endingHashKey";
const STREAM_NAME: &str = "streamName";
const SHARD_ID: &str = "shardId";

// A lease, ours.
pub(super) const PINNED_AT: &str = "skPinnedAt";
pub(super) const SESSION: &str = "skSession";
pub(super) const HEIR_READY: &str = "skHeirReady";
const MADE_FOR: &str = "skMadeFor";

// The lock.
pub(super) const OWNER_NAME: &str = "ownerName";
pub(super) const LEASE_DURATION: &str = "leaseDuration";
pub(super) const RECORD_VERSION: &str = "recordVersionNumber";
const IS_RELEASED: &str = "isReleased";

// A worker.
pub(super) const LAST_UPDATE: &str = "lut";
const METRICS: &str = "sts";
const OPERATING_RANGE: &str = "opr";
const SUPPORT_CODE: &str = "sup";
const SUPPORT_UPDATE: &str = "slu";

// A worker, ours.
pub(super) const EVERY: &str = "skEvery";
pub(super) const LEAVING: &str = "skLeaving";

const LEASE: &str = "LEASE";
const LEADER: &str = "LEADER";
pub(super) const WORKER: &str = "WORKER_METRIC_STATS";

/// The key of the lock row. No worker may bear this name (hazard H45).
pub(super) const LOCK_KEY: &str = "Leader";
/// Keys of the KCL's migration states, whose early rows have no `entityType`.
const MIGRATION_KEYS: [&str; 2] = ["Migration3.0", "TableMigration3.5"];

/// The index by which Java workers find the leases they were given.
pub(super) const OWNER_INDEX: &str = "LeaseOwnerToLeaseKeyIndex";

/// A row of the table.
#[derive(Debug, PartialEq)]
pub(super) enum Row {
    /// A lease.
    Lease(Box<Lease>),
    /// The leader lock.
    Lock(Lock),
    /// A worker's own row.
    Worker(WorkerRow),
    /// A row of a kind that does not concern us; carries its `entityType`, or its key if it has none.
    Other(String),
}

/// Reads a row, whatever it is.
///
/// # Errors
/// When it is of a kind we know and one of its attributes is missing or wrong; the reason names the attribute.
pub(super) fn read(item: &Item) -> Result<Row, Unreadable> {
    let reader = Reader(item);
    let key = reader.key();
    let row = || match reader.text(ENTITY_TYPE)? {
        Some(LEASE) => Ok(Row::Lease(Box::new(read_lease(&reader)?))),
        Some(LEADER) => Ok(Row::Lock(read_lock(&reader)?)),
        Some(WORKER) => Ok(Row::Worker(read_worker(&reader)?)),
        Some(other) => Ok(Row::Other(other.to_owned())),
        None if key == LOCK_KEY => Ok(Row::Lock(read_lock(&reader)?)),
        None if MIGRATION_KEYS.contains(&key) => Ok(Row::Other(key.to_owned())),
        None => Ok(Row::Lease(Box::new(read_lease(&reader)?))),
    };
    row().map_err(|wrong: reader::Wrong| Unreadable {
        key: key.to_owned(),
        reason: wrong.to_string(),
    })
}

/// Reads a row that must be a lease.
///
/// # Errors
/// When it is something else, or [unreadable](read).
pub(super) fn read_as_lease(item: &Item) -> Result<Lease, Unreadable> {
    let kind = match read(item)? {
        Row::Lease(lease) => return Ok(*lease),
        Row::Lock(_) => LEADER.to_owned(),
        Row::Worker(_) => WORKER.to_owned(),
        Row::Other(kind) => kind,
    };
    Err(Unreadable {
        key: Reader(item).key().to_owned(),
        reason: format!("the row is no lease but of type {kind}"),
    })
}

/// Reads a row that must be the lock.
///
/// # Errors
/// When one of its attributes is missing or wrong.
pub(super) fn read_as_lock(item: &Item) -> Result<Lock, Unreadable> {
    let reader = Reader(item);
    read_lock(&reader).map_err(|wrong| Unreadable {
        key: reader.key().to_owned(),
        reason: wrong.to_string(),
    })
}

/// The primary key of a row.
pub(super) fn key(key: &str) -> Item {
    Item::from([(LEASE_KEY.to_owned(), text(key))])
}

/// An `S`.
pub(super) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// An `N`.
pub(super) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// An `SS`. The table has no empty sets: an empty one is an absent attribute.
pub(super) fn text_set<T: ToString>(texts: impl IntoIterator<Item = T>) -> AttributeValue {
    AttributeValue::Ss(texts.into_iter().map(|text| text.to_string()).collect())
}
