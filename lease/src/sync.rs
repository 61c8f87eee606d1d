//! Rule: which lease rows a stream needs, and which it needs no more.
//!
//! **First leases** – the stream has none yet. Only the generation that is needed first gets rows; later ones get
//! theirs when their parents end.
//! * `TrimHorizon`: every shard without a listed parent (the roots).
//! * `Latest`: every open shard, pinned to the moment.
//! * `AtTimestamp`: every shard that was open at that time, as ListShards says when asked with that filter.
//!
//! **Later** – the table has rows. A shard without one is **past** if a descendant (by the list, or by the parents that
//! the row itself names, since a list may be too old to know it) has a row that is not at its beginning: descendants only leave their beginning, and finished rows are only removed, once their parents are done;
//! and a row with a start of its own was made where the application began. A listed shard without a row is
//! * left to its parent's end, if a parent's row is not at its end;
//! * left alone, if it is past;
//! * created at its beginning, if all its parents' rows are at their end (hazard H26);
//! * left alone for now, if a listed parent is itself about to be created: the older generation goes first;
//! * else a hole: created where the application started – at the pin its other rows carry, or at the beginning.
//!   Never at a new `LATEST`, which would lose what lies between (hazard H27). A first creation that was interrupted
//!   before any row of a closed shard's family was made is completed in the same way: the family's eldest listed shard
//!   is read from the pin, its children from their beginning, which may repeat older records but loses none.
//!
//! A new row's counter starts at the wall clock in milliseconds, not at 0 as the KCL's: a row that was removed by hand
//! and is made anew must not repeat counters of its former life, or a write that was long under way could still meet
//! its condition, and a tenure would not be greater than those before it.
//!
//! **Retire** – a row at its end goes when all its children have rows that are past their beginning and no parent's
//! row is left (so that order is kept and the table never shows a hole), or when Kinesis lists the shard no more.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;

use crate::{
    id::{LeaseKey, ShardId, StreamId},
    lease::Lease,
    shard::{Shard, Shards},
};

/// Where an application starts to read a stream that it has no leases for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is still stored.
    TrimHorizon,
    /// At the moment the first leases are made.
    Latest,
    /// At this time, epoch milliseconds.
    AtTimestamp(i64),
}

/// What a sync looks at: one stream.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The stream, in tables that serve several.
    pub stream: Option<&'a StreamId>,
    /// What new rows are marked with.
    pub made_for: Option<&'a str>,
    /// Where the application starts.
    pub start: Start,
    /// Everything Kinesis lists. By a list that is older than the rows, a row that was removed looks like a hole.
    pub shards: &'a Shards,
    /// For `Start::AtTimestamp`: the ids that ListShards names with that filter. Unused otherwise.
    pub open_at_start: Option<&'a BTreeSet<ShardId>>,
    /// The stream's rows.
    pub leases: &'a BTreeMap<ShardId, &'a Lease>,
    /// The wall clock, epoch milliseconds: where a `LATEST` is pinned, and where counters start.
    pub wall: i64,
}

/// The rows to create, oldest shard first, so that a crash half-way leaves a prefix.
pub fn missing(scene: &Scene<'_>) -> Vec<Lease> {
    let mut made = if scene.leases.is_empty() {
        first(scene)
    } else {
        later(scene)
    };
    made.sort_by(|(a, _), (b, _)| {
        (&a.starting_sequence, &a.id).cmp(&(&b.starting_sequence, &b.id))
    });
    made.into_iter().map(|(_, lease)| lease).collect()
}

fn first<'a>(scene: &Scene<'a>) -> Vec<(&'a Shard, Lease)> {
    let wanted = |shard: &&Shard| match scene.start {
        Start::TrimHorizon => scene.shards.parents(shard).next().is_none(),
        Start::Latest => !shard.closed,
        Start::AtTimestamp(_) => match scene.open_at_start {
            // A stand-in that ignores the filter names whole families: only the eldest of each is taken.
            Some(open) => {
                open.contains(&shard.id)
                    && !shard.parents.iter().any(|parent| open.contains(parent))
            }
            None => scene.shards.parents(shard).next().is_none(),
        },
    };
    let start = start_of(scene.start, scene.wall);
    scene
        .shards
        .iter()
        .filter(wanted)
        .map(|shard| (shard, row(scene, shard, start.clone())))
        .collect()
}

fn later<'a>(scene: &Scene<'a>) -> Vec<(&'a Shard, Lease)> {
    let mut court = Court::new(scene);
    let mut made: Vec<(&Shard, Lease)> = Vec::new();
    for shard in scene.shards.iter() {
        if let Verdict::Create(start) = court.judge(shard) {
            made.push((shard, row(scene, shard, start)));
        }
    }
    made
}

#[derive(Clone)]
enum Verdict {
    HasRow,
    Create((Position, Option<i64>)),
    /// The row comes when a parent ends or gets its own row.
    Wait,
    /// It lies before the application's start.
    Past,
}

/// Judges the shards of a stream, each once.
struct Court<'s, 'a> {
    scene: &'s Scene<'a>,
    /// Parents of rows that are past their beginning: done, also if the list of shards is too old to know those children.
    followed: BTreeSet<&'a ShardId>,
    verdicts: BTreeMap<&'a ShardId, Verdict>,
}

impl<'s, 'a> Court<'s, 'a> {
    fn new(scene: &'s Scene<'a>) -> Self {
        let begun = scene.leases.values().filter(|row| begun(row));
        Court {
            scene,
            followed: begun.flat_map(|row| &row.parents).collect(),
            verdicts: BTreeMap::new(),
        }
    }

    fn judge(&mut self, shard: &'a Shard) -> Verdict {
        if let Some(verdict) = self.verdicts.get(&shard.id) {
            return verdict.clone();
        }
        let verdict = self.judge_new(shard);
        self.verdicts.insert(&shard.id, verdict.clone());
        verdict
    }

    fn judge_new(&mut self, shard: &'a Shard) -> Verdict {
        let scene = self.scene;
        if scene.leases.contains_key(&shard.id) {
            return Verdict::HasRow;
        }
        let mut parent_rows = shard
            .parents
            .iter()
            .filter_map(|parent| scene.leases.get(parent))
            .peekable();
        let has_parent_rows = parent_rows.peek().is_some();
        if parent_rows.any(|row| !row.ended()) {
            return Verdict::Wait;
        }
        let row_of = |id: &ShardId| scene.leases.get(id).copied();
        if self.followed.contains(&shard.id) || past(&shard.id, row_of, scene.shards) {
            return Verdict::Past;
        }
        for parent in scene.shards.parents(shard) {
            if matches!(self.judge(parent), Verdict::Create(_) | Verdict::Wait) {
                return Verdict::Wait;
            }
        }
        if has_parent_rows {
            return Verdict::Create((Position::TrimHorizon, None));
        }
        Verdict::Create(hole_start(scene))
    }
}

/// Whether a shard without a row is done, or before the application's start: a descendant tells.
fn past<'a>(id: &ShardId, row_of: impl Fn(&ShardId) -> Option<&'a Lease>, shards: &Shards) -> bool {
    shards.any_descendant(id, |child| row_of(&child.id).is_some_and(begun))
}

/// Past its beginning, or with a start of its own.
fn begun(row: &Lease) -> bool {
    row.checkpoint != Position::TrimHorizon
}

/// Where a hole is read from: nothing may be skipped that the application has asked for.
fn hole_start(scene: &Scene<'_>) -> (Position, Option<i64>) {
    match scene.start {
        Start::TrimHorizon => (Position::TrimHorizon, None),
        Start::AtTimestamp(_) => start_of(scene.start, scene.wall),
        Start::Latest => match scene.leases.values().filter_map(|lease| lease.pinned).min() {
            Some(pin) => (Position::Latest, Some(pin)),
            None => (Position::TrimHorizon, None),
        },
    }
}

fn start_of(start: Start, wall: i64) -> (Position, Option<i64>) {
    match start {
        Start::TrimHorizon => (Position::TrimHorizon, None),
        Start::Latest => (Position::Latest, Some(wall)),
        Start::AtTimestamp(at) => (Position::AtTimestamp, Some(at)),
    }
}

fn row(scene: &Scene<'_>, shard: &Shard, (position, pinned): (Position, Option<i64>)) -> Lease {
    let mut lease = Lease::new(scene.stream.cloned(), shard.id.clone(), position);
    lease.counter = first_counter(scene.wall);
    lease.pinned = pinned;
    lease.made_for = scene.made_for.map(str::to_owned);
    lease.parents = shard.parents.clone();
    lease.range = Some(shard.range);
    lease
}

/// Counters rise by far less than one a millisecond, so this is beyond every counter of a former life.
fn first_counter(wall: i64) -> u64 {
    u64::try_from(wall).unwrap_or(0)
}

/// The row of a child whose parent has just been read to its end: always at its beginning. `wall`: epoch milliseconds.
pub fn child(parent: &Lease, child: &Shard, wall: i64) -> Lease {
    let mut lease = Lease::new(
        parent.stream.clone(),
        child.id.clone(),
        Position::TrimHorizon,
    );
    lease.counter = first_counter(wall);
    lease.made_for = parent.made_for.clone();
    lease.parents = child.parents.clone();
    lease.range = Some(child.range);
    lease
}

/// The finished rows that can go. `shards` must be a complete list, asked for after `leases` were read.
pub fn retired(leases: &BTreeMap<ShardId, &Lease>, shards: &Shards) -> Vec<LeaseKey> {
    let gone = |lease: &Lease| {
        let children: BTreeSet<&ShardId> = if lease.children.is_empty() {
            shards
                .children(&lease.shard)
                .map(|child| &child.id)
                .collect()
        } else {
            lease.children.iter().collect()
        };
        let followed = !children.is_empty()
            && children
                .iter()
                .all(|child| leases.get(*child).is_some_and(|row| row.started()))
            && !lease
                .parents
                .iter()
                .any(|parent| leases.contains_key(parent));
        // A list that is older than the shard says nothing about it.
        followed || shards.get(&lease.shard).is_none() && shards.knows(&lease.shard)
    };
    leases
        .values()
        .filter(|lease| lease.ended() && gone(lease))
        .map(|lease| lease.key.clone())
        .collect()
}

/// Whether reading may begin: every parent is read to its end, or there is nothing of it that this application wants.
///
/// `shards` is a list that was asked for after the row was seen. An absent parent row blocks a child at its beginning
/// as long as Kinesis lists the parent (hazard H31), since it may not have been made yet; unless another descendant
/// shows that the parent is past. It does not block a child that is past its beginning or has its own start.
pub fn startable<'a>(
    lease: &Lease,
    row_of: impl Fn(&ShardId) -> Option<&'a Lease>,
    shards: Option<&Shards>,
) -> bool {
    lease.parents.iter().all(|parent| match row_of(parent) {
        Some(row) => row.ended() || lease.started(),
        None if begun(lease) => true,
        // A list that is older than the parent says nothing about it.
        None => shards.is_some_and(|shards| {
            shards.get(parent).is_none() && shards.knows(parent) || past(parent, &row_of, shards)
        }),
    })
}

#[cfg(test)]
mod tests;
