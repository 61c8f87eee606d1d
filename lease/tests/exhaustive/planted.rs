//! A test that finds nothing must be able to find something: mistakes that are planted, at least one for each property.

use lease::Write;

/// Mistakes that must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A belief begins when the reply arrives (hazard H3).
    StampedByReply,
    /// A row is taken without a look at its counter (hazard H6).
    TakenUnseen,
    /// Whoever once held a row can give it back.
    ReleaseUnasked,
    /// A renewal without news stores where the first tenure began.
    StoredAgain,
    /// A late write is done whatever the row says.
    LateAccepted,
    /// What is read is stored, though it is not settled.
    StoredUnsettled,
    /// A shard's end is stored when its last page is read.
    EndedUnsettled,
    /// A finished row is taken like any other.
    EndedTaken,
    /// Nobody takes what a dead worker has left.
    NobodyRescues,
    /// A shard's end is stored before its child has a row (hazard H28).
    EndBeforeChild,
    /// A child is read as soon as it has a row.
    ChildUnblocked,
    /// A finished row goes before its child has begun.
    RetiredEarly,
}

impl Planted {
    /// Whether it makes something of what else has no consequence.
    pub(crate) fn needs_everything(self) -> bool {
        matches!(
            self,
            Planted::StampedByReply
                | Planted::TakenUnseen
                | Planted::ReleaseUnasked
                | Planted::LateAccepted
        )
    }

    /// Whether the table does a write whose condition does not hold.
    pub(crate) fn waives(self, write: &Write, late: bool) -> bool {
        match self {
            Planted::ReleaseUnasked => matches!(write, Write::Release(_)),
            Planted::LateAccepted => late,
            _ => false,
        }
    }
}
