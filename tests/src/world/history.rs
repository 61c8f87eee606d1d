//! Word: what happened in a world, in order.

use std::{collections::BTreeMap, fmt, time::Duration};

use checkpoint::Position;
use lease::{LeaseKey, ShardId, WorkerId};

/// Numbers the processes of a world: a worker that starts anew is another one, also under the same id.
pub type Process = usize;

/// Everything that happened, in the order in which it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The failover time of the world.
    pub failover: Duration,
    /// The events and when each happened, on the world's clock.
    pub events: Vec<(Duration, Event)>,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<&'static str, u64>,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A shard came to be.
    Shard {
        /// The shard.
        shard: ShardId,
        /// Its parents.
        parents: Vec<ShardId>,
    },
    /// A user record was put.
    Put {
        /// Its shard.
        shard: ShardId,
        /// Its place.
        position: Position,
        /// What its payload says, unique.
        text: String,
        /// When it arrived by the clock of Kinesis, epoch milliseconds.
        arrival: i64,
        /// What is to become of it.
        fate: Fate,
    },
    /// A process started.
    Started {
        /// The process.
        process: Process,
        /// Its worker id.
        id: WorkerId,
    },
    /// Something was done to a process, or by it.
    Blow {
        /// The process.
        process: Process,
        /// What.
        what: Blow,
    },
    /// The table applied a write.
    Applied {
        /// Who asked for it.
        process: Process,
        /// The operation.
        operation: &'static str,
        /// The row.
        key: LeaseKey,
        /// The row before; `None`: there was none.
        before: Option<Row>,
        /// The row after; `None`: it is gone.
        after: Option<Row>,
    },
    /// A handler was called with a batch.
    Handed {
        /// Whose handler, for which tenure.
        by: Holder,
        /// The first try is 1.
        attempt: u32,
        /// The records: position and payload.
        records: Vec<(Position, String)>,
    },
    /// A call of a handler is over.
    Returned {
        /// Whose.
        by: Holder,
        /// How.
        how: Return,
    },
    /// Everything this tenure was given up to here is done, its handler says.
    Settled {
        /// Whose.
        by: Holder,
        /// Up to here.
        through: Position,
    },
    /// A checkpoint call told a handler that everything up to here is stored.
    Confirmed {
        /// Whose.
        by: Holder,
        /// Up to here.
        through: Position,
    },
    /// No fault strikes from here on.
    Quiet,
    /// What the table shows after the quiet.
    Rest {
        /// The rows.
        rows: BTreeMap<ShardId, Row>,
        /// The ids of the workers that run.
        living: Vec<WorkerId>,
    },
}

/// A tenure of one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The shard.
    pub shard: ShardId,
    /// The counter of the row when it was acquired.
    pub tenure: u64,
    /// The process.
    pub process: Process,
}

/// What is to become of a user record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A handler gets it.
    Deliver,
    /// Its hash key belongs to another shard: left out by [`checkpoint::HashRangePolicy::DropRecord`].
    OutOfRange,
    /// It stands at or behind an item of its aggregate that cannot be read.
    Poisoned,
}

/// How a call of a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// It succeeded.
    Ok,
    /// It failed.
    Failed,
    /// It was cut off.
    Dropped,
}

/// What can happen to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blow {
    /// Killed, with all its tasks.
    Crash,
    /// It makes no progress from here on, and does not notice.
    Freeze,
    /// It goes on.
    Thaw,
    /// Told to hand everything over.
    Drain,
    /// Its `run` returned.
    Ended(String),
    /// Its `run` returned because another process has the same worker id.
    Duplicate,
    /// A task of it panicked though no handler was made to.
    Panic(String),
}

/// A lease row, as far as promises are made about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `leaseOwner`.
    pub owner: Option<WorkerId>,
    /// `checkpointOwner`.
    pub checkpoint_owner: Option<WorkerId>,
    /// `leaseCounter`.
    pub counter: u64,
    /// `checkpoint`.
    pub checkpoint: Position,
    /// Where a start by time begins, epoch milliseconds.
    pub pinned: Option<i64>,
}

impl From<&lease::Lease> for Row {
    fn from(lease: &lease::Lease) -> Self {
        Row {
            owner: lease.owner.clone(),
            checkpoint_owner: lease.checkpoint_owner.clone(),
            counter: lease.counter,
            checkpoint: lease.checkpoint.clone(),
            pinned: lease.pinned,
        }
    }
}

impl History {
    /// How many user records were put.
    pub fn records(&self) -> usize {
        let puts = self.events.iter();
        puts.filter(|(_, event)| matches!(event, Event::Put { .. }))
            .count()
    }

    /// How many hand-overs there were.
    pub fn hand_overs(&self) -> usize {
        let handed = self.events.iter();
        handed
            .filter(|(_, event)| matches!(event, Event::Handed { .. }))
            .count()
    }
}

/// One event a line.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (at, event)) in self.events.iter().enumerate() {
            writeln!(f, "{index:>6} {:>9.3} {event}", at.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Shard { shard, parents } => {
                let parents: Vec<&str> = parents.iter().map(|parent| tail(parent)).collect();
                write!(f, "shard {} parents {parents:?}", tail(shard))
            }
            Event::Put {
                shard,
                position,
                text,
                fate,
                ..
            } => write!(
                f,
                "put {text} shard {} at {} {fate:?}",
                tail(shard),
                short(position)
            ),
            Event::Started { process, id } => write!(f, "process {process} starts as {id}"),
            Event::Blow { process, what } => write!(f, "process {process}: {what:?}"),
            Event::Applied {
                process,
                operation,
                key,
                before,
                after,
            } => {
                write!(
                    f,
                    "process {process} {operation} {}: ",
                    tail_of(key.as_str())
                )?;
                row(before.as_ref(), f)?;
                f.write_str(" => ")?;
                row(after.as_ref(), f)
            }
            Event::Handed {
                by,
                attempt,
                records,
            } => {
                let texts: Vec<&str> = records.iter().map(|(_, text)| text.as_str()).collect();
                write!(f, "{by} handed {texts:?} attempt {attempt}")
            }
            Event::Returned { by, how } => write!(f, "{by} returned {how:?}"),
            Event::Settled { by, through } => write!(f, "{by} settled {}", short(through)),
            Event::Confirmed { by, through } => write!(f, "{by} confirmed {}", short(through)),
            Event::Quiet => f.write_str("quiet"),
            Event::Rest { rows, living } => {
                write!(f, "rest, living {living:?}")?;
                for (shard, held) in rows {
                    write!(f, "; {} ", tail(shard))?;
                    row(Some(held), f)?;
                }
                Ok(())
            }
        }
    }
}

fn row(row: Option<&Row>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(row) = row else {
        return f.write_str("none");
    };
    write!(f, "[{}", row.counter)?;
    if let Some(owner) = &row.owner {
        write!(f, " {owner}")?;
    }
    if let Some(from) = &row.checkpoint_owner {
        write!(f, " from {from}")?;
    }
    write!(f, " {}]", short(&row.checkpoint))
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} shard {} tenure {}",
            self.process,
            tail(&self.shard),
            self.tenure
        )
    }
}

/// The digits of a shard id that differ.
fn tail(shard: &ShardId) -> &str {
    tail_of(shard.as_str())
}

fn tail_of(text: &str) -> &str {
    &text[text.len().saturating_sub(3)..]
}

/// A position without the digits that all numbers of a shard share.
pub(crate) fn short(position: &Position) -> String {
    match position {
        Position::At {
            sequence,
            sub_sequence,
        } => {
            let digits = sequence.as_str();
            format!(
                "…{}/{sub_sequence}",
                &digits[digits.len().saturating_sub(34)..]
            )
        }
        sentinel => sentinel.to_string(),
    }
}
