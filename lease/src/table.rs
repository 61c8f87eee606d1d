//! Seam: the table of leases, as the rules need it.
//!
//! Two implementations: [`crate::memory::MemoryTable`], the obvious one and the reference, and
//! [`crate::dynamodb::DynamoTable`].

use std::{future::Future, time::Duration};

use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    write::Write,
};

/// A lease table. Every call is one attempt: retries are the rules' business, since only they know how long the
/// answer is still worth something.
pub trait Table: Send + Sync + 'static {
    /// Reads every row.
    fn list(
        &self,
        consistency: Consistency,
    ) -> impl Future<Output = Result<View, TableError>> + Send;

    /// Reads one lease row, consistently. `None`: there is no such row.
    fn get(&self, key: &LeaseKey)
    -> impl Future<Output = Result<Option<Lease>, TableError>> + Send;

    /// Does one conditional write and returns the row as it is then (`None` after a delete).
    fn write(
        &self,
        write: &Write,
    ) -> impl Future<Output = Result<Option<Lease>, TableError>> + Send;

    /// Does one conditional write of the leader lock and returns the lock as it is then (`None` after a release).
    fn lock(
        &self,
        write: &LockWrite,
    ) -> impl Future<Output = Result<Option<Lock>, TableError>> + Send;

    /// Writes a worker's own row, unconditionally (the KCL's worker metric row).
    fn put_worker(&self, row: &WorkerRow) -> impl Future<Output = Result<(), TableError>> + Send;

    /// Removes a worker's row if it is still the one that was seen.
    fn remove_worker(
        &self,
        worker: &WorkerId,
        seen_updated: i64,
    ) -> impl Future<Output = Result<(), TableError>> + Send;
}

/// How fresh a list must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// May lag behind; half the price. Safe, since every decision is checked by a conditional write.
    Eventual,
    /// Sees every write that was answered before.
    Strong,
}

/// Everything in the table, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The lease rows.
    pub leases: Vec<Lease>,
    /// The leader lock, if there is one.
    pub lock: Option<Lock>,
    /// The workers' rows.
    pub workers: Vec<WorkerRow>,
    /// Rows that look like leases but cannot be read: they are left alone and reported.
    pub unreadable: Vec<Unreadable>,
}

/// A row that could not be read as a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The row's key.
    pub key: String,
    /// Which attribute is wrong and how.
    pub reason: String,
}

/// The leader lock row (the DynamoDB lock client's, as the Java KCL uses it).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Who holds it.
    pub owner: WorkerId,
    /// A word that changes with every heartbeat.
    pub version: String,
    /// How long the lock holds after a heartbeat.
    pub duration: Duration,
    /// The holder has given it back but left the row.
    pub released: bool,
}

/// A conditional write of the leader lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockWrite {
    /// Take the lock if the row is still as seen (`None`: absent).
    Acquire {
        /// The new holder.
        me: WorkerId,
        /// The new version.
        version: String,
        /// How long it holds.
        duration: Duration,
        /// The version as last seen.
        seen: Option<String>,
    },
    /// The holder lives.
    Heartbeat {
        /// The holder.
        me: WorkerId,
        /// The version it knows.
        version: String,
        /// The new version.
        next: String,
        /// How long it holds.
        duration: Duration,
    },
    /// Remove the row.
    Release {
        /// The holder.
        me: WorkerId,
        /// The version it knows.
        version: String,
    },
}

impl LockWrite {
    /// The condition, on the lock as it stands.
    pub fn permitted(&self, lock: Option<&Lock>) -> bool {
        match self {
            LockWrite::Acquire { seen, .. } => lock.map(|lock| &lock.version) == seen.as_ref(),
            LockWrite::Heartbeat { me, version, .. } | LockWrite::Release { me, version } => {
                lock.is_some_and(|lock| lock.owner == *me && lock.version == *version)
            }
        }
    }

    /// The lock after the write.
    pub fn apply(&self) -> Option<Lock> {
        match self {
            LockWrite::Acquire {
                me,
                version,
                duration,
                ..
            }
            | LockWrite::Heartbeat {
                me,
                next: version,
                duration,
                ..
            } => Some(Lock {
                owner: me.clone(),
                version: version.clone(),
                duration: *duration,
                released: false,
            }),
            LockWrite::Release { .. } => None,
        }
    }
}

/// A worker's own row: the KCL's worker metric row, by which Java leaders know whom to give leases.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRow {
    /// The worker.
    pub id: WorkerId,
    /// `lut`: when the row was written, epoch **seconds** by the writer's clock. Only ever compared with itself.
    pub updated: i64,
    /// Ours: the writer promises a new row within this time. `None`: a Java worker.
    pub every: Option<Duration>,
    /// Ours: the worker is on its way out and wants nothing more.
    pub leaving: bool,
}

/// Why a call to the table failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TableError {
    /// The condition did not hold; nothing was written. Carries the row as it stands, where the table told.
    /// Look at the row and decide anew.
    #[error("the row changed")]
    Changed(Option<Box<Lease>>),
    /// The table asks to slow down; nothing was written. Try again later.
    #[error("throttled: {0}")]
    Throttled(String),
    /// No clear answer: the write may have happened. Read the row before writing again.
    #[error("no clear answer: {0}")]
    Unknown(String),
    /// The table does not exist.
    #[error("the table does not exist: {0}")]
    Missing(String),
    /// Access is denied or the request is wrong; trying again will not help by itself.
    #[error("refused: {0}")]
    Refused(String),
    /// The row that came back cannot be read.
    #[error("unreadable row: {0}")]
    Unreadable(String),
}

/// What a new table is made with.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableSpec {
    /// `None`: pay per request. Else provisioned read and write units.
    pub provisioned: Option<(i64, i64)>,
    /// Tags, put on at creation.
    pub tags: Vec<(String, String)>,
    /// Refuse deletion, set at creation.
    pub deletion_protection: bool,
    /// Point-in-time recovery, set at every start when true, as the KCL does.
    pub point_in_time_recovery: bool,
    /// Make the table if it is not there.
    pub create: bool,
}

/// Why a table cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnsureError {
    /// It is not there and may not be made.
    #[error("table {0} does not exist and `lease.create` is false")]
    Absent(String),
    /// It is there but is no lease table.
    #[error("table {table} is no lease table: {reason}")]
    Foreign {
        /// The table.
        table: String,
        /// What is different.
        reason: String,
    },
    /// It did not become active in time, or a call failed.
    #[error("table {table} cannot be set up: {reason}")]
    Failed {
        /// The table.
        table: String,
        /// What happened.
        reason: String,
        /// Trying again later can help (throttling, no connection).
        transient: bool,
    },
}
