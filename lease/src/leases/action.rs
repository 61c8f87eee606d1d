//! Word: what the shell is to do. It does so in this order, and decides nothing.

use std::time::Duration;

use super::{Caller, Fatal, News, WriteId};
use crate::{
    id::{LeaseKey, WorkerId},
    lease::Lease,
    renew::Tenure,
    table::{Consistency, LockWrite},
    time::Time,
    write::Write,
};

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the table; answer with [`Event::Listed`](super::Event::Listed).
    List(Consistency),
    /// Ask Kinesis for all shards (and, for a timestamp start, for those open at that time); answer with
    /// [`Event::ShardsListed`](super::Event::ShardsListed).
    ListShards(usize),
    /// Do the write; answer with [`Event::Written`](super::Event::Written).
    Write(WriteId, Write),
    /// Read one row, consistently; answer with [`Event::Read`](super::Event::Read).
    Read(LeaseKey),
    /// Do the write; answer with [`Event::Locked`](super::Event::Locked).
    Lock(LockWrite),
    /// Write this worker's row; answer with [`Event::WorkerPut`](super::Event::WorkerPut).
    PutWorker {
        /// The next row will come within this time.
        every: Duration,
        /// This worker is on its way out.
        leaving: bool,
    },
    /// Remove a worker's row (the own one at the end, or one of a worker long dead); no answer.
    RemoveWorker {
        /// The worker.
        id: WorkerId,
        /// `lut` as seen; `None`: the own row, whatever it says.
        updated: Option<i64>,
    },
    /// Start to read the shard; report with [`Event::ShardEnded`](super::Event::ShardEnded) or
    /// [`Event::Stopped`](super::Event::Stopped).
    Start {
        /// The row to start from.
        lease: Box<Lease>,
        /// The tenure, to name in reports.
        tenure: Tenure,
        /// Until when nothing has to be renewed.
        valid_until: Time,
    },
    /// The consumer may hand records over before this time.
    Believe {
        /// The row.
        key: LeaseKey,
        /// The end of the belief.
        until: Time,
    },
    /// Stop the consumer of a row; it reports [`Event::Stopped`](super::Event::Stopped) when it is gone.
    Stop {
        /// The row.
        key: LeaseKey,
        /// How.
        halt: Halt,
    },
    /// A caller's checkpoint is stored or cannot be.
    Answer {
        /// The caller.
        caller: Caller,
        /// Stored, or lost.
        stored: bool,
    },
    /// For logs and metrics.
    Tell(News),
    /// This worker has left: nothing is held, nothing is under way.
    Gone,
    /// This worker must end at once.
    Fatal(Fatal),
}

/// How a consumer stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Read no more; the batch in hand completes.
    Drain,
    /// The lease is lost: hand nothing more over, cancel what runs.
    Lost,
    /// The holder gives up on it: cancel what runs.
    Cancel,
}
