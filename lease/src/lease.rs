//! Word: a lease, the row that says who reads a shard and how far it was read.
//!
//! Invariants
//! * `counter` only rises; every change of owner and every write of the holder raises it, so whoever writes "if the
//!   counter is still c" writes over nothing it has not seen.
//! * While `checkpoint_owner` is set the lease is being handed over: `owner` is the heir, `checkpoint_owner` still
//!   reads, renews and checkpoints.
//! * `checkpoint` never goes back within the life of the row.
//!
//! The transitions are in [`crate::write`]; nothing else changes a row.

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
};

use checkpoint::{HashRange, Position};

use crate::id::{LeaseKey, Session, ShardId, StreamId, WorkerId};

/// One lease row of the KCL 3.x table. Attributes this type does not know stay in the table untouched.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The row's key.
    pub key: LeaseKey,
    /// The stream, in tables that serve several.
    pub stream: Option<StreamId>,
    /// The shard.
    pub shard: ShardId,
    /// Who holds the lease, or is about to (see `checkpoint_owner`). `None`: nobody.
    pub owner: Option<WorkerId>,
    /// The previous owner, while it still reads during a hand-over.
    pub checkpoint_owner: Option<WorkerId>,
    /// Optimistic lock and heartbeat in one.
    pub counter: u64,
    /// How often the owner changed since the last checkpoint. Diagnostic.
    pub owner_switches: u64,
    /// Everything up to and including this position is done.
    pub checkpoint: Position,
    /// Position of a prepared (two-phase) checkpoint of a Java processor, if any.
    pub pending: Option<Pending>,
    /// Parents of the shard (none, one after a split, two after a merge).
    pub parents: BTreeSet<ShardId>,
    /// Children of the shard, once known.
    pub children: BTreeSet<ShardId>,
    /// The shard's hash key range. Rows of old KCL versions lack it.
    pub range: Option<HashRange>,
    /// Smoothed throughput in KiB/s that Java leaders balance by.
    pub throughput_kbps: Option<f64>,
    /// Ours: where `LATEST` or `AT_TIMESTAMP` was when the row was made, in epoch milliseconds (hazards H24, H25).
    pub pinned: Option<i64>,
    /// Ours: the process run that holds the lease (hazard H44).
    pub session: Option<Session>,
    /// Ours: the heir of a hand-over says that it is awake and waits for the row.
    pub heir_ready: bool,
    /// Ours: ARN or name of the stream the row was made for, so that a table is never used for another stream.
    pub made_for: Option<String>,
}

/// Two equal rows hash alike; `throughput_kbps` does not take part, since floating point has no hash.
impl Hash for Lease {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, &self.owner, &self.checkpoint_owner, self.counter).hash(state);
        (
            &self.checkpoint,
            &self.pending,
            &self.parents,
            &self.children,
        )
            .hash(state);
        (&self.session, self.heir_ready, self.pinned, self.range).hash(state);
        (self.owner_switches, &self.made_for).hash(state);
    }
}

/// A prepared checkpoint; ours only carries it along, Java processors can commit it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// The prepared position.
    pub position: Position,
    /// Opaque bytes of the application.
    pub state: Option<Vec<u8>>,
}

impl Lease {
    /// A lease that nobody has held yet.
    pub fn new(stream: Option<StreamId>, shard: ShardId, checkpoint: Position) -> Self {
        Lease {
            key: LeaseKey::of(stream.as_ref(), &shard),
            stream,
            shard,
            owner: None,
            checkpoint_owner: None,
            counter: 0,
            owner_switches: 0,
            checkpoint,
            pending: None,
            parents: BTreeSet::new(),
            children: BTreeSet::new(),
            range: None,
            throughput_kbps: None,
            pinned: None,
            session: None,
            heir_ready: false,
            made_for: None,
        }
    }

    /// Who reads the shard at the moment: the previous owner during a hand-over, else the owner.
    pub fn reader(&self) -> Option<&WorkerId> {
        self.checkpoint_owner.as_ref().or(self.owner.as_ref())
    }

    /// The shard was read to its end.
    pub fn ended(&self) -> bool {
        self.checkpoint == Position::ShardEnd
    }

    /// Orders what is seen of one life of the row. Within one counter a hand-over can only begin, and its heir only
    /// answer; both end with a write that raises the counter.
    pub fn version(&self) -> (u64, bool, bool) {
        (self.counter, self.handing_over(), self.heir_ready)
    }

    /// A hand-over is under way.
    pub fn handing_over(&self) -> bool {
        self.checkpoint_owner.is_some()
    }

    /// At least one record of the shard was processed (or its end reached). `LATEST` does not count (hazard H30).
    pub fn started(&self) -> bool {
        matches!(self.checkpoint, Position::At { .. } | Position::ShardEnd)
    }
}
