//! Which promises a history breaks. Each is judged by itself, from the events alone: nothing here asks the workers, or
//! the code they share, what they meant to do.
//!
//! ```text
//!   history ─▶ records   every record, in order, none invented
//!           ─▶ stored    what the table says is done, is
//!           ─▶ tenure    one reader at a time, each from where the row stood
//!           ─▶ outcome   rest after the storm, and processes that end as they should
//! ```

mod outcome;
mod records;
mod scope;
mod stored;
mod tenure;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::world::{Event, History};
use scope::Scope;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Every record from the application's start on, which no policy drops, is handed over and settled.
    NothingLost,
    /// What the table stores as done has no unsettled record before it.
    StoredIsSettled,
    /// Within the life of a row the stored position never goes back.
    NeverBack,
    /// In each shard, records are handed over for the first time in their order, and after all records of the parents.
    InOrder,
    /// No tenure hands anything over once another has begun, or once it has given the row away; and no call of a former
    /// tenure still runs when a later one hands over, unless its process stands still at that moment. Two processes with
    /// one id may read side by side for a failover time at most.
    OneReader,
    /// Only records that were put are handed over, as they were put, and none that a policy drops.
    NothingInvented,
    /// After the quiet every open shard is held by a living worker, nothing is on its way, and shares differ by one at
    /// most.
    Rest,
    /// A tenure begins with the next user record after the position its row had when it was taken, be that inside an
    /// aggregate; and it hands a record over again only as a retry.
    ResumesWhereStored,
    /// A row that is given away carries everything its tenure has settled: a clean hand-over repeats nothing.
    GivenAwayWhole,
    /// When a checkpoint call succeeds, the position is in the table.
    ConfirmedIsStored,
    /// A shard's end is stored only when all its children have rows.
    ChildrenBeforeEnd,
    /// A shard whose end is stored gets no row again: all that the stream still stores of it would be handed over once more.
    EndsOnce,
    /// Processes end only when told to, without a panic; what leaves in quiet leaves nothing behind.
    EndsWell,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub property: Property,
    /// At which event of the history.
    pub at: usize,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at event {}: {}", self.property, self.at, self.what)
    }
}

/// Every promise that the history breaks.
pub fn check(history: &History) -> Vec<Violation> {
    let scope = Scope::of(history);
    let mut violations = Vec::new();
    records::check(&scope, history, &mut violations);
    stored::check(&scope, history, &mut violations);
    tenure::check(&scope, history, &mut violations);
    outcome::check(history, &mut violations);
    violations
}

/// Where the judges write.
type Verdicts = Vec<Violation>;

fn broken(verdicts: &mut Verdicts, property: Property, at: usize, what: impl Into<String>) {
    verdicts.push(Violation {
        property,
        at,
        what: what.into(),
    });
}

fn numbered(history: &History) -> impl Iterator<Item = (usize, &Event)> {
    history.events.iter().map(|(_, event)| event).enumerate()
}
