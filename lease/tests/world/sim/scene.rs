//! What befalls a world: workers that come, go, crash, freeze and hang; shards that split and merge; a table that is away.

use lease::leases::Event;

use super::{Ev, Pid, SECOND, World};
use crate::table::{Undo, Weather};

/// Faults and changes, by worker number where one is meant.
#[derive(Clone, Debug)]
pub(crate) enum Scene {
    Join(String),
    Crash(usize),
    Freeze(usize, u64),
    Thaw(Pid),
    Leave(usize),
    Split(usize),
    Merge(usize),
    Stuck(usize),
    OperatorDeletes(usize),
    TableAway(u64),
    Weather(Weather),
}

impl World {
    /// One fault or change.
    pub(crate) fn change(&mut self, scene: Scene) {
        self.say(|| format!("--- {scene:?}"));
        match scene {
            Scene::Join(name) => {
                self.join(&name);
            }
            Scene::Crash(number) => {
                if let Some(pid) = self.worker(number) {
                    self.kill(pid);
                }
            }
            Scene::Freeze(number, time) => {
                if let Some(pid) = self
                    .worker(number)
                    .filter(|pid| !self.processes[pid].frozen)
                {
                    self.process(pid).frozen = true;
                    self.order(time, Ev::Scene(Scene::Thaw(pid)));
                }
            }
            Scene::Thaw(pid) => self.thaw(pid),
            Scene::Leave(number) => {
                if let Some(pid) = self.worker(number) {
                    self.order(0, Ev::Hear(pid, Box::new(Event::Leave)));
                }
            }
            Scene::Split(pick) => self.stream.split(pick, self.now),
            Scene::Merge(pick) => self.stream.merge(pick, self.now),
            Scene::Stuck(number) => self.hang(number),
            Scene::OperatorDeletes(pick) => {
                let rows = self.table.rows.view().leases;
                if !rows.is_empty() {
                    let row = &rows[pick % rows.len()];
                    self.table.rows.remove(&row.key);
                    let undo = Undo::Lease(row.key.clone(), Some(Box::new(row.clone())));
                    self.table.changed(self.now, undo);
                    self.check.operator_deleted(self.now, row);
                    let key = row.key.clone();
                    self.say(|| format!("operator deletes {key}"));
                }
            }
            Scene::TableAway(time) => self.away_until = self.now + time,
            Scene::Weather(weather) => self.weather = weather,
        }
    }

    fn thaw(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.frozen = false;
        let mut missed = self.backlog.remove(&pid).unwrap_or_default();
        self.rng.shuffle(&mut missed);
        for event in missed {
            self.order(0, event);
        }
    }

    fn hang(&mut self, number: usize) {
        let Some(pid) = self.worker(number) else {
            return;
        };
        let pick = self.rng.usize(..);
        let process = self.process(pid);
        let count = process.consumers.len();
        if count == 0 {
            return;
        }
        let (key, consumer) = process
            .consumers
            .iter_mut()
            .nth(pick % count)
            .expect("in range");
        consumer.stuck = true;
        let event = Event::Stuck {
            key: key.clone(),
            tenure: consumer.tenure,
        };
        self.order(2 * SECOND, Ev::Hear(pid, Box::new(event)));
    }

    fn worker(&self, number: usize) -> Option<Pid> {
        let living: Vec<Pid> = self.processes.keys().copied().collect();
        (!living.is_empty()).then(|| living[number % living.len()])
    }
}
