//! Word: what the shell reports – answers to what it was asked, news of consumers, and orders from above.
//!
//! Each answer comes exactly once. News of a consumer name its tenure, so that what a former one says is not taken for
//! news of the present.

use std::collections::BTreeSet;

use checkpoint::Position;

use super::WriteId;
use crate::{
    id::{LeaseKey, ShardId},
    lease::Lease,
    renew::Tenure,
    shard::Shard,
    table::{Lock, TableError, View},
};

/// What the shell reports.
#[derive(Clone, Debug)]
pub enum Event {
    /// The answer to [`Action::List`](super::Action::List).
    Listed(Result<View, TableError>),
    /// The answer to [`Action::ListShards`](super::Action::ListShards): the shards, and the ids that were open at the
    /// start timestamp.
    ShardsListed {
        /// Which stream.
        stream: usize,
        /// A complete list, or `None` if it failed.
        shards: Option<(Vec<Shard>, Option<BTreeSet<ShardId>>)>,
    },
    /// The answer to [`Action::Write`](super::Action::Write).
    Written {
        /// Which write.
        id: WriteId,
        /// Its answer.
        result: Result<Option<Lease>, TableError>,
    },
    /// The answer to [`Action::Read`](super::Action::Read).
    Read {
        /// Which row.
        key: LeaseKey,
        /// Its answer.
        result: Result<Option<Lease>, TableError>,
    },
    /// The answer to [`Action::Lock`](super::Action::Lock).
    Locked(Result<Option<Lock>, TableError>),
    /// The answer to [`Action::PutWorker`](super::Action::PutWorker).
    WorkerPut(bool),
    /// A processor wants its watermark stored now.
    Checkpoint {
        /// The row.
        key: LeaseKey,
        /// The consumer's tenure.
        tenure: Tenure,
        /// The position that must be stored; the watermark is there already.
        position: Position,
        /// Who waits.
        caller: Caller,
    },
    /// A consumer has settled the last record of its shard and is gone.
    ShardEnded {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
        /// The children, as Kinesis told.
        children: Vec<Shard>,
    },
    /// A consumer is gone.
    Stopped {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
    },
    /// A consumer makes no progress: its reader is dead or its handler hangs.
    Stuck {
        /// The row.
        key: LeaseKey,
        /// Its tenure.
        tenure: Tenure,
    },
    /// Leave the fleet.
    Leave,
    /// The time to leave runs out: whatever still drains is cut off, and goes with what is settled.
    CutShort,
}

/// Names one caller who waits for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(pub u64);
