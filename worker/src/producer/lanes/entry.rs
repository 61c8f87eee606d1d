//! Word: a user record on its way, and the Kinesis record it travels in – alone, or in an aggregate.

use bytes::Bytes;
use checkpoint::{HashKey, PutRecord};
use lease::{ShardId, Time};

use crate::limits;

/// A user record on its way.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) record: PutRecord,
    pub(super) tag: u64,
    /// The order in which records were given.
    pub(super) number: u64,
    /// When its aggregate was first sent that then landed in a wrong shard.
    pub(super) astray: Option<Time>,
}

/// A Kinesis record on its way.
#[derive(Debug)]
pub(in crate::producer) struct Entry {
    pub(in crate::producer) partition_key: String,
    pub(in crate::producer) explicit_hash_key: Option<HashKey>,
    pub(in crate::producer) data: Bytes,
    pub(super) users: Vec<User>,
    /// Where an aggregate has to land.
    pub(super) foretold: Option<ShardId>,
    pub(super) queued: Time,
    pub(super) first_sent: Option<Time>,
}

impl User {
    /// Decides where the record goes.
    pub(super) fn hash_key(&self) -> HashKey {
        self.record
            .explicit_hash_key
            .unwrap_or_else(|| HashKey::of_partition_key(&self.record.partition_key))
    }

    /// Why no stream can take the record, whatever its settings.
    pub(super) fn unfit(&self) -> Option<String> {
        let record = &self.record;
        let key = record.partition_key.chars().count();
        if key == 0 || key > limits::RECORD_KEY_LONGEST {
            let most = limits::RECORD_KEY_LONGEST;
            return Some(format!(
                "the partition key has {key} characters; Kinesis takes 1 to {most}"
            ));
        }
        let size = record.partition_key.len() + record.data.len();
        (size > limits::RECORD_MOST_BYTES).then(|| {
            format!(
                "the record has {size} bytes, key included; Kinesis takes at most {}",
                limits::RECORD_MOST_BYTES
            )
        })
    }
}

impl Entry {
    /// A record that travels alone.
    pub(super) fn plain(user: User, now: Time) -> Self {
        Entry {
            partition_key: user.record.partition_key.clone(),
            explicit_hash_key: user.record.explicit_hash_key,
            data: user.record.data.clone(),
            users: vec![user],
            foretold: None,
            queued: now,
            first_sent: None,
        }
    }

    /// What Kinesis counts: payload and key.
    pub(super) fn size(&self) -> usize {
        self.data.len() + self.partition_key.len()
    }
}
