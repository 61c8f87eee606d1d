//! Word: what a worker is told at its start.

use crate::{
    id::{Session, StreamId, WorkerId},
    sync::Start,
    timing::Timing,
};

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This worker.
    pub me: WorkerId,
    /// This run of it.
    pub session: Session,
    /// The intervals.
    pub timing: Timing,
    /// Never hold more.
    pub max_leases: usize,
    /// The streams, in the order the shell numbers them.
    pub streams: Vec<Stream>,
}

/// One stream of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// In tables that serve several streams.
    pub id: Option<StreamId>,
    /// What rows are marked with: the ARN, or the name where there is none.
    pub made_for: String,
    /// Where to start without leases.
    pub start: Start,
}
