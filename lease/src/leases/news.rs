//! Word: what happened, for logs and metrics; and why a lease was lost or a worker must end.

use checkpoint::Position;

use crate::{
    id::{LeaseKey, WorkerId},
    table::TableError,
};

/// Something a log or a metric wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A lease was acquired or taken.
    Took {
        /// The row.
        key: LeaseKey,
        /// `acquire`, `take`.
        how: &'static str,
        /// From whom, where the row named somebody else.
        from: Option<WorkerId>,
    },
    /// A lease was lost to somebody else, or to time.
    Lost {
        /// The row.
        key: LeaseKey,
        /// Why.
        why: Loss,
    },
    /// A lease was given back.
    Released(LeaseKey),
    /// A lease was handed over.
    HandedOver {
        /// The row.
        key: LeaseKey,
        /// The heir.
        to: WorkerId,
    },
    /// A shard's end is stored.
    Finished(LeaseKey),
    /// A checkpoint is stored.
    Stored(LeaseKey, Position),
    /// A row was made.
    Created {
        /// The row.
        key: LeaseKey,
        /// Where its shard is read from.
        from: Position,
        /// What it was made for.
        why: Made,
    },
    /// A finished row was removed.
    Deleted(LeaseKey),
    /// A list failed.
    ListFailed(TableError),
    /// A write failed otherwise than by its condition.
    WriteFailed(LeaseKey, &'static str, TableError),
    /// A row cannot be read as a lease.
    Unreadable(String, String),
    /// A `AT_TIMESTAMP` row has no timestamp and the configuration names none: it starts at its beginning.
    NoTimestamp(LeaseKey),
    /// This worker became leader, or is no longer.
    Leads(bool),
    /// A row's heir did not answer; the row was taken back.
    HeirSilent(LeaseKey, WorkerId),
    /// A shard's consumer is stuck and the lease is given up.
    Stuck(LeaseKey),
}

/// Why a row was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The stream had no rows.
    First,
    /// The shard's parent has ended.
    Child,
    /// The stream had rows, but a part of its hash range had none: somebody failed to make it.
    Repair,
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Somebody else has it now.
    To(Option<WorkerId>),
    /// The row is gone.
    Deleted,
    /// No renewal succeeded in time.
    Expired,
    /// Its consumer was cut off and did not end: a handler that blocks its thread.
    Stuck,
}

/// Why a worker must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// Another process runs under the same worker id and has taken over (hazard H44).
    #[error(
        "another process runs with the worker id {0} and has taken over its leases; worker ids must be unique"
    )]
    DuplicateWorker(WorkerId),
}
