//! One reader at a time, each from where the row stood.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use checkpoint::Position;
use lease::WorkerId;

use super::{Property, Scope, Verdicts, broken};
use crate::world::history::{Blow, Event, History, Holder, Process, Row};

#[derive(Default)]
struct Watch<'a> {
    /// Who reads each row; `None`: whoever did has given it away.
    reader: BTreeMap<&'a str, Option<Reader<'a>>>,
    /// Calls that run.
    running: BTreeSet<&'a Holder>,
    /// Processes that stand still.
    frozen: BTreeSet<Process>,
    /// When processes went on.
    thawed: BTreeMap<Process, Duration>,
    given: BTreeMap<&'a Holder, BTreeSet<&'a Position>>,
    /// Which process last acquired each row under each id, and when.
    acquired: BTreeMap<(&'a str, &'a WorkerId), (Process, Duration)>,
    /// The worker id of each process.
    ids: BTreeMap<Process, &'a WorkerId>,
    failover: Duration,
}

struct Reader<'a> {
    process: Process,
    taken: &'a Row,
}

pub(super) fn check(scope: &Scope<'_>, history: &History, verdicts: &mut Verdicts) {
    let mut watch = Watch {
        failover: history.failover,
        ..Watch::default()
    };
    for (at, (time, event)) in history.events.iter().enumerate() {
        match event {
            Event::Applied {
                process,
                operation,
                key,
                after,
                ..
            } => {
                watch.applied((*process, *time), operation, key.as_str(), after.as_ref());
            }
            Event::Started { process, id } => {
                watch.ids.insert(*process, id);
            }
            Event::Blow { process, what } => watch.blow(*process, what, *time),
            Event::Handed {
                by,
                attempt,
                records,
            } => {
                watch.one_reader(by, at, *time, verdicts);
                let first = !watch.given.contains_key(by);
                let given = watch.given.entry(by).or_default();
                let fresh: Vec<bool> = records
                    .iter()
                    .map(|(position, _)| given.insert(position))
                    .collect();
                if *attempt == 1 && fresh.contains(&false) {
                    let what = format!("{by} was handed a record again without a failure");
                    broken(verdicts, Property::ResumesWhereStored, at, what);
                }
                if first && let Some((position, text)) = records.first() {
                    watch.resumes(scope, by, position, text, at, verdicts);
                }
                watch.running.insert(by);
            }
            Event::Returned { by, .. } => {
                watch.running.remove(by);
            }
            _ => {}
        }
    }
}

impl<'a> Watch<'a> {
    fn applied(
        &mut self,
        (process, time): (Process, Duration),
        operation: &str,
        key: &'a str,
        after: Option<&'a Row>,
    ) {
        match (operation, after) {
            ("acquire" | "take", Some(taken)) => {
                self.reader.insert(key, Some(Reader { process, taken }));
                if let Some(id) = self.ids.get(&process) {
                    self.acquired.insert((key, id), (process, time));
                }
            }
            ("release" | "complete" | "delete", _) => {
                self.reader.insert(key, None);
            }
            _ => {}
        }
    }

    fn blow(&mut self, process: Process, what: &Blow, time: Duration) {
        match what {
            Blow::Freeze => {
                self.frozen.insert(process);
            }
            Blow::Thaw => {
                self.frozen.remove(&process);
                self.thawed.insert(process, time);
            }
            Blow::Crash => self.running.retain(|by| by.process != process),
            _ => {}
        }
    }

    fn one_reader(&self, by: &Holder, at: usize, time: Duration, verdicts: &mut Verdicts) {
        let reader = self.reader.get(by.shard.as_str()).and_then(Option::as_ref);
        let rightful = reader.is_some_and(|reader| {
            reader.process == by.process && reader.taken.counter == by.tenure
        });
        if self.unaware(by, time) {
            return;
        }
        if !rightful {
            let what = format!(
                "{by} was handed a batch, but the reader is {}",
                spell(reader)
            );
            broken(verdicts, Property::OneReader, at, what);
        }
        for other in &self.running {
            let still = self.frozen.contains(&other.process)
                || self.thawed.get(&other.process) == Some(&time);
            if other.shard == by.shard && *other != by && !still && !self.unaware(other, time) {
                let what = format!("{by} was handed a batch while a call of {other} runs");
                broken(verdicts, Property::OneReader, at, what);
            }
        }
    }

    /// A process whose row another one acquired under the same id, and which may not have noticed yet, whatever became of
    /// the row since. Ids must be unique; where they are not, two processes may read one shard until the next renewal.
    fn unaware(&self, by: &Holder, time: Duration) -> bool {
        let id = self.ids.get(&by.process);
        let acquired = id.and_then(|id| self.acquired.get(&(by.shard.as_str(), id)));
        acquired
            .is_some_and(|(process, since)| *process != by.process && time < *since + self.failover)
    }

    /// The first record of a tenure is the one after the position its row had.
    fn resumes(
        &self,
        scope: &Scope<'_>,
        by: &Holder,
        position: &Position,
        text: &str,
        at: usize,
        verdicts: &mut Verdicts,
    ) {
        // Without a reader another promise is broken already.
        let Some(Some(reader)) = self.reader.get(by.shard.as_str()) else {
            return;
        };
        if reader.process != by.process {
            return;
        }
        let stored = &reader.taken.checkpoint;
        let next = scope.next_after(&by.shard, stored, reader.taken.pinned);
        if next.is_some_and(|next| next != position) {
            let what = format!("{by} begins with {text}, which does not follow {stored}");
            broken(verdicts, Property::ResumesWhereStored, at, what);
        }
    }
}

fn spell(reader: Option<&Reader<'_>>) -> String {
    reader.map_or_else(
        || "nobody".to_owned(),
        |reader| {
            format!(
                "process {} in tenure {}",
                reader.process, reader.taken.counter
            )
        },
    )
}
