//! What was put, and what of it the application has asked for.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::Position;
use lease::ShardId;

use crate::world::history::{Event, Fate, History};

/// Everything a history says about its input.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    /// The user records of each shard.
    pub(super) puts: BTreeMap<&'a ShardId, BTreeMap<&'a Position, Put<'a>>>,
    /// The parents of each shard.
    pub(super) parents: BTreeMap<&'a ShardId, &'a [ShardId]>,
}

/// A user record.
#[derive(Debug)]
pub(super) struct Put<'a> {
    /// Its payload.
    pub(super) text: &'a str,
    /// When it arrived, epoch milliseconds.
    pub(super) arrival: i64,
    /// What is to become of it.
    pub(super) fate: Fate,
    /// It lies behind the application's start and no policy drops it.
    pub(super) wanted: bool,
    /// The event that put it.
    pub(super) at: usize,
}

/// Where rows say that reading begins.
#[derive(Default)]
struct Starts<'a> {
    /// The event that made the first row, and its pin.
    first: Option<(usize, Option<i64>)>,
    /// The pin of each row that was made; `None`: at the beginning.
    of: BTreeMap<&'a str, Option<i64>>,
}

impl<'a> Scope<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let starts = Starts::of(history);
        let mut scope = Scope::default();
        for (at, (_, event)) in history.events.iter().enumerate() {
            match event {
                Event::Shard { shard, parents } => {
                    scope.parents.insert(shard, parents);
                }
                Event::Put {
                    shard,
                    position,
                    text,
                    arrival,
                    fate,
                } => {
                    let put = Put {
                        text,
                        arrival: *arrival,
                        fate: *fate,
                        wanted: *fate == Fate::Deliver && starts.want(shard, *arrival, at),
                        at,
                    };
                    scope.puts.entry(shard).or_default().insert(position, put);
                }
                _ => {}
            }
        }
        scope
    }

    /// The record after a position, of those that are to be delivered and arrived at `pinned` or later.
    pub(super) fn next_after(
        &self,
        shard: &ShardId,
        position: &Position,
        pinned: Option<i64>,
    ) -> Option<&'a Position> {
        let puts = self.puts.get(shard)?.iter();
        let mut later = puts.filter(|(at, put)| {
            put.fate == Fate::Deliver
                && match pinned {
                    Some(pin) if position.is_sentinel() => put.arrival >= pin,
                    _ => **at > position,
                }
        });
        later.next().map(|(at, _)| *at)
    }

    /// Everybody a shard descends from.
    pub(super) fn ancestors(&self, shard: &ShardId) -> BTreeSet<&'a ShardId> {
        let mut found = BTreeSet::new();
        let mut todo: Vec<&'a ShardId> = self.parents_of(shard).collect();
        while let Some(parent) = todo.pop() {
            if found.insert(parent) {
                todo.extend(self.parents_of(parent));
            }
        }
        found
    }

    fn parents_of(&self, shard: &ShardId) -> impl Iterator<Item = &'a ShardId> + use<'a> {
        self.parents.get(shard).copied().unwrap_or_default().iter()
    }
}

impl<'a> Starts<'a> {
    fn of(history: &'a History) -> Self {
        let mut starts = Starts::default();
        for (at, (_, event)) in history.events.iter().enumerate() {
            let Event::Applied {
                key,
                before: None,
                after: Some(row),
                ..
            } = event
            else {
                continue;
            };
            starts.first.get_or_insert((at, row.pinned));
            starts.of.entry(key.as_str()).or_insert(row.pinned);
        }
        starts
    }

    /// Whether the application has asked for a record. A shard without a row – there should be one, unless all of it
    /// lies before the start – is wanted from the moment the application began.
    fn want(&self, shard: &ShardId, arrival: i64, put_at: usize) -> bool {
        match (self.of.get(shard.as_str()), self.first) {
            (Some(None), _) | (None, None | Some((_, None))) => true,
            (Some(Some(pin)), _) => arrival >= *pin,
            (None, Some((began, Some(pin)))) => put_at > began && arrival >= pin,
        }
    }
}
