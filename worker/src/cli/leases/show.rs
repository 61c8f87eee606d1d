//! The lease table as a table for people, or as JSON lines for programs.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use lease::{Lease, LeaseKey, View, WorkerId};
use serde_json::{Map, Value, json};

use super::rows::{Lag, Life, Sightings, State, short, stream_name};
use crate::cli::look::{Look, columns, count};

/// Everything that is shown.
pub(super) struct Shown<'a> {
    pub(super) view: &'a View,
    pub(super) sightings: &'a Sightings,
    /// If it was asked for.
    pub(super) lags: Option<&'a BTreeMap<LeaseKey, Lag>>,
    pub(super) table: &'a str,
    pub(super) failover: Duration,
    pub(super) full: bool,
}

impl Shown<'_> {
    fn states(&self) -> Vec<(&Lease, State)> {
        let all = self
            .view
            .leases
            .iter()
            .map(|lease| (&lease.key, lease))
            .collect();
        let states = self
            .view
            .leases
            .iter()
            .map(|lease| (lease, State::of(lease, &all)));
        states.collect()
    }

    pub(super) fn text(&self, look: Look) -> String {
        let states = self.states();
        let mut text = String::new();
        if states.is_empty() {
            let _ = writeln!(text, "table {} has no leases", self.table);
        } else {
            text += &self.table_of(&states, look);
            let _ = writeln!(text, "\n{}", tally(&states));
        }
        self.fleet(&mut text, look);
        self.unreadable(&mut text, look);
        self.failed_lags(&mut text, look);
        text
    }

    fn table_of(&self, states: &[(&Lease, State)], look: Look) -> String {
        let several = states.iter().any(|(lease, _)| lease.stream.is_some());
        let lives: Vec<Life> = states
            .iter()
            .map(|(lease, _)| self.sightings.life(lease))
            .collect();
        let looked_twice = lives.iter().any(|life| *life != Life::Untold);
        let mut columns_shown: Vec<&str> = Vec::new();
        columns_shown.extend(several.then_some("STREAM"));
        columns_shown.extend(["SHARD", "STATE", "OWNER", "POSITION"]);
        columns_shown.extend(looked_twice.then_some("OWNER IS"));
        columns_shown.extend(self.lags.map(|_| "BEHIND"));
        columns_shown.extend(self.full.then_some("HASH RANGE"));
        let mut rows = vec![
            columns_shown
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        ];
        for ((lease, state), life) in states.iter().zip(&lives) {
            let cell = |name: &&str| match *name {
                "STREAM" => lease
                    .stream
                    .as_ref()
                    .and_then(stream_name)
                    .unwrap_or("-")
                    .to_owned(),
                "SHARD" => lease.shard.to_string(),
                "STATE" => state.word().to_owned(),
                "OWNER" => owner(lease),
                "POSITION" if self.full => lease.checkpoint.to_string(),
                "POSITION" => short(&lease.checkpoint),
                "OWNER IS" => self.life(*life),
                "BEHIND" => self.behind(&lease.key),
                _ => lease.range.map_or("-".to_owned(), |range| {
                    format!("{}-{}", range.start, range.end)
                }),
            };
            rows.push(columns_shown.iter().map(cell).collect());
        }
        let state_column = columns_shown.iter().position(|name| *name == "STATE");
        let life_column = columns_shown.iter().position(|name| *name == "OWNER IS");
        columns(&rows, |row, column, cell| match row.checked_sub(1) {
            None => look.faint(cell),
            Some(row) if Some(column) == state_column => state_colour(look, states[row].1, cell),
            Some(row) if Some(column) == life_column => self.life_colour(look, lives[row], cell),
            Some(_) => cell.to_owned(),
        })
    }

    fn life(&self, life: Life) -> String {
        match life {
            Life::Untold => "-".to_owned(),
            Life::Renewed => "alive".to_owned(),
            Life::Silent(for_) => format!("silent for {}", seconds(for_)),
        }
    }

    fn life_colour(&self, look: Look, life: Life, cell: &str) -> String {
        match life {
            Life::Renewed => look.good(cell),
            Life::Silent(for_) if for_ >= self.failover => look.bad(cell),
            Life::Silent(_) => look.doubtful(cell),
            Life::Untold => cell.to_owned(),
        }
    }

    fn behind(&self, key: &LeaseKey) -> String {
        match self.lags.and_then(|lags| lags.get(key)) {
            Some(Lag::Behind(behind)) => seconds(*behind),
            Some(Lag::Failed(_)) => "?".to_owned(),
            Some(Lag::Untold) | None => "-".to_owned(),
        }
    }

    /// The leader, and every worker with a row or a lease.
    fn fleet(&self, text: &mut String, look: Look) {
        let leader = self
            .view
            .lock
            .as_ref()
            .filter(|lock| !lock.released)
            .map(|lock| &lock.owner);
        let _ = writeln!(text, "leader: {}", leader.map_or("none", WorkerId::as_str));
        for (id, worker) in self.workers() {
            let mut line = format!("worker: {id}, {}", leases(worker.leases));
            if worker.leaving {
                line += &look.doubtful(", leaving");
            }
            if !worker.row {
                line += ", without a row of its own";
            }
            let _ = writeln!(text, "{line}");
        }
    }

    fn workers(&self) -> BTreeMap<&WorkerId, Worker> {
        let mut workers: BTreeMap<&WorkerId, Worker> = BTreeMap::new();
        for row in &self.view.workers {
            let worker = workers.entry(&row.id).or_default();
            worker.row = true;
            worker.leaving = row.leaving;
        }
        let held = self.view.leases.iter().filter(|lease| !lease.ended());
        for reader in held.filter_map(Lease::reader) {
            workers.entry(reader).or_default().leases += 1;
        }
        workers
    }

    fn unreadable(&self, text: &mut String, look: Look) {
        for row in &self.view.unreadable {
            let line = format!("unreadable row {}: {}", row.key, row.reason);
            let _ = writeln!(
                text,
                "{}",
                look.bad(&line.replace(char::is_control, "\u{fffd}"))
            );
        }
    }

    fn failed_lags(&self, text: &mut String, look: Look) {
        for (key, lag) in self.lags.into_iter().flatten() {
            if let Lag::Failed(reason) = lag {
                let _ = writeln!(
                    text,
                    "{}",
                    look.bad(&format!("how far {key} is behind: {reason}"))
                );
            }
        }
    }

    pub(super) fn json(&self) -> String {
        let mut lines: Vec<Value> = self
            .states()
            .iter()
            .map(|(lease, state)| self.lease(lease, *state))
            .collect();
        if let Some(lock) = &self.view.lock {
            lines.push(json!({ "kind": "leader", "worker": lock.owner.as_str(), "released": lock.released }));
        }
        for (id, worker) in self.workers() {
            lines.push(json!({
                "kind": "worker", "worker": id.as_str(), "leases": worker.leases, "row": worker.row, "leaving": worker.leaving,
            }));
        }
        for row in &self.view.unreadable {
            lines.push(json!({ "kind": "unreadable", "key": row.key, "reason": row.reason }));
        }
        lines
            .into_iter()
            .fold(String::new(), |text, line| text + &line.to_string() + "\n")
    }

    /// Absent and unknown are both `null`, so that every object has the same keys.
    fn lease(&self, lease: &Lease, state: State) -> Value {
        let shards = |ids: &std::collections::BTreeSet<lease::ShardId>| -> Vec<String> {
            ids.iter().map(ToString::to_string).collect()
        };
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| {
            object.insert(name.to_owned(), value);
        };
        put("kind", json!("lease"));
        put("key", json!(lease.key.as_str()));
        put("stream", json!(lease.stream.as_ref().and_then(stream_name)));
        put("shard", json!(lease.shard.as_str()));
        put("state", json!(state.word()));
        put("reader", json!(lease.reader().map(WorkerId::as_str)));
        put("owner", json!(lease.owner.as_ref().map(WorkerId::as_str)));
        put("checkpoint", json!(lease.checkpoint.checkpoint()));
        put("sub_sequence", json!(lease.checkpoint.sub_sequence()));
        put("counter", json!(lease.counter));
        put("owner_switches", json!(lease.owner_switches));
        put("parents", json!(shards(&lease.parents)));
        put("children", json!(shards(&lease.children)));
        put(
            "starting_hash_key",
            json!(lease.range.map(|range| range.start.to_string())),
        );
        put(
            "ending_hash_key",
            json!(lease.range.map(|range| range.end.to_string())),
        );
        let (renewed, silent) = match self.sightings.life(lease) {
            Life::Untold => (None, None),
            Life::Renewed => (Some(true), None),
            Life::Silent(for_) => (Some(false), Some(millis(for_))),
        };
        put("renewed", json!(renewed));
        put("silent_ms", json!(silent));
        let behind = match self.lags.and_then(|lags| lags.get(&lease.key)) {
            Some(Lag::Behind(behind)) => Some(millis(*behind)),
            _ => None,
        };
        put("behind_ms", json!(behind));
        Value::Object(object)
    }
}

#[derive(Default)]
struct Worker {
    leases: u64,
    row: bool,
    leaving: bool,
}

/// The owner; during a hand-over who reads and who is to.
fn owner(lease: &Lease) -> String {
    match (&lease.checkpoint_owner, &lease.owner) {
        (Some(reader), Some(heir)) => format!("{reader} -> {heir}"),
        (Some(reader), None) => format!("{reader} -> nobody"),
        (None, Some(owner)) => owner.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn state_colour(look: Look, state: State, cell: &str) -> String {
    match state {
        State::Reading => look.good(cell),
        State::HandingOver | State::WaitingForParent => look.doubtful(cell),
        State::Free => look.bad(cell),
        State::Finished => look.faint(cell),
    }
}

/// `6 leases: 4 reading, 2 finished`.
fn tally(states: &[(&Lease, State)]) -> String {
    let kinds = [
        State::Reading,
        State::HandingOver,
        State::Free,
        State::WaitingForParent,
        State::Finished,
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .filter_map(|kind| {
            let number = states.iter().filter(|(_, state)| *state == kind).count();
            (number > 0).then(|| format!("{number} {}", kind.word()))
        })
        .collect();
    format!("{}: {}", leases(states.len() as u64), parts.join(", "))
}

fn leases(number: u64) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} lease{s}", count(number))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration as a person says it.
fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 if duration.is_zero() => "0s".to_owned(),
        0..60 => format!("{:.1}s", duration.as_secs_f64()),
        secs @ 60..3_600 => format!("{}m {:02}s", secs / 60, secs % 60),
        secs => format!("{}h {:02}m", secs / 3_600, secs % 3_600 / 60),
    }
}
