//! What the table says is done, is.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;
use lease::{LeaseKey, ShardId};

use super::{Property, Scope, Verdicts, broken, numbered};
use crate::world::history::{Event, History, Holder, Row};

#[derive(Default)]
struct Books<'a> {
    /// Wanted records that are put and not settled.
    open: BTreeMap<&'a str, BTreeSet<&'a Position>>,
    given: BTreeMap<&'a Holder, BTreeSet<&'a Position>>,
    /// The last record that each tenure settled.
    settled: BTreeMap<&'a Holder, &'a Position>,
    /// The highest position that was ever stored.
    highest: BTreeMap<&'a str, &'a Position>,
    made: BTreeSet<&'a str>,
    /// The tenure of each row.
    tenures: BTreeMap<&'a str, u64>,
    children: BTreeMap<&'a str, BTreeSet<&'a ShardId>>,
    /// Rows that have stood at their end.
    ended: BTreeSet<&'a str>,
}

/// A write, as its event tells it.
struct Applied<'a> {
    at: usize,
    process: usize,
    operation: &'static str,
    key: &'a LeaseKey,
    before: Option<&'a Row>,
    after: &'a Row,
}

pub(super) fn check(scope: &Scope<'_>, history: &History, verdicts: &mut Verdicts) {
    let mut books = Books::default();
    for (at, event) in numbered(history) {
        match event {
            Event::Shard { shard, parents } => {
                for parent in parents {
                    books
                        .children
                        .entry(parent.as_str())
                        .or_default()
                        .insert(shard);
                }
            }
            Event::Put {
                shard, position, ..
            } if scope.puts[shard][position].wanted => {
                books
                    .open
                    .entry(shard.as_str())
                    .or_default()
                    .insert(position);
            }
            Event::Handed { by, records, .. } => {
                let given = books.given.entry(by).or_default();
                given.extend(records.iter().map(|(position, _)| position));
            }
            Event::Settled { by, through } => books.settle(by, through),
            Event::Confirmed { by, through } => {
                let stored = books.highest.get(by.shard.as_str());
                if stored.is_none_or(|stored| *stored < through) {
                    let what = format!("{by} was told that its checkpoint is stored; it is not");
                    broken(verdicts, Property::ConfirmedIsStored, at, what);
                }
            }
            Event::Applied {
                process,
                operation,
                key,
                before,
                after: Some(after),
            } => {
                let write = Applied {
                    at,
                    process: *process,
                    operation,
                    key,
                    before: before.as_ref(),
                    after,
                };
                books.apply(&write, verdicts);
            }
            _ => {}
        }
    }
}

impl<'a> Books<'a> {
    fn settle(&mut self, by: &'a Holder, through: &Position) {
        let given = self.given.get(by).into_iter().flatten();
        let done: Vec<&Position> = given.filter(|given| **given <= through).copied().collect();
        let open = self.open.entry(by.shard.as_str()).or_default();
        for position in &done {
            open.remove(*position);
        }
        if let Some(last) = done.into_iter().max() {
            let settled = self.settled.entry(by).or_insert(last);
            *settled = last.max(*settled);
        }
    }

    fn apply(&mut self, write: &Applied<'a>, verdicts: &mut Verdicts) {
        let &Applied {
            at,
            key,
            before,
            after,
            ..
        } = write;
        self.made.insert(key.as_str());
        if before.is_none() && self.ended.contains(key.as_str()) {
            let what = format!("{key} was at its end and is made again");
            broken(verdicts, Property::EndsOnce, at, what);
        }
        if let Some(before) = before.filter(|before| after.checkpoint < before.checkpoint) {
            let what = format!(
                "{key} went back from {} to {}",
                before.checkpoint, after.checkpoint
            );
            broken(verdicts, Property::NeverBack, at, what);
        }
        if matches!(write.operation, "acquire" | "take") {
            self.tenures.insert(key.as_str(), after.counter);
        }
        self.given_away_whole(write, verdicts);
        if before.is_some_and(|before| before.checkpoint == after.checkpoint) {
            return;
        }
        let highest = self
            .highest
            .entry(key.as_str())
            .or_insert(&after.checkpoint);
        *highest = (&after.checkpoint).max(*highest);
        let open = self.open.get(key.as_str()).and_then(BTreeSet::first);
        if let Some(passed) = open.filter(|open| **open <= &after.checkpoint) {
            let what = format!(
                "{key} stores {}, but {passed} is not settled",
                after.checkpoint
            );
            broken(verdicts, Property::StoredIsSettled, at, what);
        }
        if after.checkpoint == Position::ShardEnd {
            self.ended.insert(key.as_str());
            self.children_first(key, at, verdicts);
        }
    }

    fn given_away_whole(&self, write: &Applied<'_>, verdicts: &mut Verdicts) {
        if !matches!(write.operation, "release" | "complete") {
            return;
        }
        let tenure = self.tenures.get(write.key.as_str());
        let mine = |by: &Holder| {
            by.process == write.process
                && by.shard.as_str() == write.key.as_str()
                && Some(&by.tenure) == tenure
        };
        let settled = self
            .settled
            .iter()
            .filter(|(by, _)| mine(by))
            .map(|(_, last)| *last)
            .max();
        if let Some(last) = settled.filter(|last| **last > write.after.checkpoint) {
            let what = format!(
                "process {} gives {} away at {}, though it has settled {last}",
                write.process, write.key, write.after.checkpoint
            );
            broken(verdicts, Property::GivenAwayWhole, write.at, what);
        }
    }

    fn children_first(&self, key: &LeaseKey, at: usize, verdicts: &mut Verdicts) {
        let children = self.children.get(key.as_str()).into_iter().flatten();
        let missing: Vec<_> = children
            .clone()
            .filter(|child| !self.made.contains(child.as_str()))
            .collect();
        if children.count() == 0 || !missing.is_empty() {
            let what =
                format!("{key} is at its end, but rows of its children are missing: {missing:?}");
            broken(verdicts, Property::ChildrenBeforeEnd, at, what);
        }
    }
}
