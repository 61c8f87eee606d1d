//! Word: what a holder is about to do with its lease, and how far it is with it.

use crate::{
    id::{ShardId, WorkerId},
    lease::Lease,
    time::Time,
};

/// What a holder is about.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Phase {
    /// Parents are not at their end; nothing is read yet.
    Blocked,
    /// Reading.
    Running,
    /// The lease goes to another worker.
    HandOver {
        /// The heir.
        to: WorkerId,
        /// Since when.
        since: Time,
        /// How far.
        stage: Stage,
    },
    /// The lease goes back to nobody.
    Leaving {
        /// Since when.
        since: Time,
        /// How far.
        stage: Stage,
    },
    /// The shard is read to its end; these children get rows, then the end is written.
    Ended {
        /// Rows still to be made.
        todo: Vec<Lease>,
        /// All children.
        children: Vec<ShardId>,
    },
}

/// How far a lease on its way out is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The holder means to hand over, but the row does not say so yet; reading goes on.
    Offered,
    /// The row names the heir, who has not answered; reading goes on.
    Waiting,
    /// Reading has stopped, the batch in hand completes.
    Draining,
    /// The batch in hand is cut off.
    Cut,
    /// The last position is known.
    Drained,
}
