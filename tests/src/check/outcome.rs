//! Rest after the storm, and processes that end as they should.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;
use lease::{ShardId, WorkerId};

use super::{Property, Verdicts, broken, numbered};
use crate::world::history::{Blow, Event, History, Process, Row};

pub(super) fn check(history: &History, verdicts: &mut Verdicts) {
    let mut shards: BTreeSet<&ShardId> = BTreeSet::new();
    let mut closed: BTreeSet<&ShardId> = BTreeSet::new();
    let mut processes = Processes::default();
    for (at, event) in numbered(history) {
        match event {
            Event::Shard { shard, parents } => {
                shards.insert(shard);
                closed.extend(parents);
            }
            Event::Started { process, id } => processes.started(*process, id),
            Event::Blow { process, what } => processes.blow(*process, what, at, verdicts),
            Event::Rest { rows, living } => {
                processes.rested = true;
                held(&shards, &closed, rows, living, at, verdicts);
            }
            _ => {}
        }
    }
}

/// Every open shard has a row in the hands of a living worker, and shares are even.
fn held(
    shards: &BTreeSet<&ShardId>,
    closed: &BTreeSet<&ShardId>,
    rows: &BTreeMap<ShardId, Row>,
    living: &[WorkerId],
    at: usize,
    verdicts: &mut Verdicts,
) {
    let mut fault = |what: String| broken(verdicts, Property::Rest, at, what);
    let mut shares: BTreeMap<&WorkerId, usize> = living.iter().map(|id| (id, 0)).collect();
    for shard in shards.difference(closed) {
        let Some(row) = rows.get(*shard) else {
            fault(format!("{shard} has no row"));
            continue;
        };
        match row.owner.as_ref().and_then(|owner| shares.get_mut(owner)) {
            Some(share) if row.checkpoint_owner.is_none() => *share += 1,
            _ => fault(format!("{shard} is not held by a living worker: {row:?}")),
        }
    }
    for shard in closed {
        let open = rows
            .get(*shard)
            .filter(|row| row.checkpoint != Position::ShardEnd);
        if let Some(row) = open {
            fault(format!(
                "{shard} is closed but not read to its end: {row:?}"
            ));
        }
    }
    let (least, most) = (shares.values().min(), shares.values().max());
    if least.zip(most).is_none_or(|(least, most)| most - least > 1) {
        fault(format!("shares are uneven: {shares:?}"));
    }
}

#[derive(Default)]
struct Processes<'a> {
    ids: BTreeMap<Process, &'a WorkerId>,
    /// Gone, by whatever way.
    gone: BTreeSet<Process>,
    /// Those that ever ran beside another of their id.
    twins: BTreeSet<Process>,
    told: BTreeSet<Process>,
    told_in_quiet: BTreeSet<Process>,
    rested: bool,
}

impl<'a> Processes<'a> {
    fn started(&mut self, process: Process, id: &'a WorkerId) {
        let twins: Vec<Process> = self
            .ids
            .iter()
            .filter(|(other, name)| **name == id && !self.gone.contains(other))
            .map(|(other, _)| *other)
            .collect();
        if !twins.is_empty() {
            self.twins.extend(twins);
            self.twins.insert(process);
        }
        self.ids.insert(process, id);
    }

    fn blow(&mut self, process: Process, what: &Blow, at: usize, verdicts: &mut Verdicts) {
        let mut fault = |what: String| broken(verdicts, Property::EndsWell, at, what);
        match what {
            Blow::Crash => {
                self.gone.insert(process);
            }
            Blow::Drain => {
                self.told.insert(process);
                if self.rested {
                    self.told_in_quiet.insert(process);
                }
            }
            Blow::Ended(how) => {
                self.gone.insert(process);
                let good: &[&str] = if self.told_in_quiet.contains(&process) {
                    &["Drained"]
                } else {
                    &["Drained", "DeadlinePassed"]
                };
                if !self.told.contains(&process) || !good.contains(&how.as_str()) {
                    fault(format!("process {process} ended: {how}"));
                }
            }
            Blow::Duplicate => {
                self.gone.insert(process);
                if !self.twins.contains(&process) {
                    fault(format!("process {process} ended for a twin it never had"));
                }
            }
            Blow::Panic(text) => fault(format!("a task of process {process} panicked: {text}")),
            Blow::Freeze | Blow::Thaw => {}
        }
    }
}
