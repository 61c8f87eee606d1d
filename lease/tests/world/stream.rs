//! A stream whose records are moments: shard `s` holds one record each `step` micros from its opening to its close,
//! and the sequence number of a record is the moment it was put.

use std::collections::BTreeSet;

use checkpoint::{HashKey, HashRange, Position, SequenceNumber};
use lease::{Shard, ShardId};

/// One shard.
#[derive(Clone, Debug)]
pub(crate) struct FakeShard {
    id: ShardId,
    parents: BTreeSet<ShardId>,
    range: HashRange,
    opened: u64,
    closed: Option<u64>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct FakeStream {
    shards: Vec<FakeShard>,
    step: u64,
}

impl FakeStream {
    /// `count` open shards that were opened at 1.
    pub(crate) fn new(count: usize, step: u64) -> Self {
        let mut stream = FakeStream {
            shards: Vec::new(),
            step,
        };
        let width = u128::MAX / count as u128;
        for n in 0..count as u128 {
            let end = if n + 1 == count as u128 {
                u128::MAX
            } else {
                (n + 1) * width - 1
            };
            stream.open(BTreeSet::new(), n * width, end, 1);
        }
        stream
    }

    fn open(&mut self, parents: BTreeSet<ShardId>, start: u128, end: u128, at: u64) {
        let id = ShardId::from(format!("shardId-{:012}", self.shards.len()));
        self.shards.push(FakeShard {
            id,
            parents,
            range: HashRange {
                start: HashKey(start),
                end: HashKey(end),
            },
            opened: at,
            closed: None,
        });
    }

    /// Splits the open shard number `pick` (modulo their count) at `at`.
    pub(crate) fn split(&mut self, pick: usize, at: u64) {
        let open = self.open_numbers();
        let number = open[pick % open.len()];
        let shard = &mut self.shards[number];
        shard.closed = Some(at);
        let parents = BTreeSet::from([shard.id.clone()]);
        let (start, end) = (shard.range.start.0, shard.range.end.0);
        let middle = start + (end - start) / 2;
        self.open(parents.clone(), start, middle, at);
        self.open(parents, middle + 1, end, at);
    }

    /// Merges the open shard number `pick` with its right neighbour, if it has one.
    pub(crate) fn merge(&mut self, pick: usize, at: u64) {
        let open = self.open_numbers();
        let left = open[pick % open.len()];
        let edge = self.shards[left].range.end.0;
        let Some(right) = open
            .into_iter()
            .find(|n| edge != u128::MAX && self.shards[*n].range.start.0 == edge + 1)
        else {
            return;
        };
        let (start, end) = (
            self.shards[left].range.start.0,
            self.shards[right].range.end.0,
        );
        self.shards[left].closed = Some(at);
        self.shards[right].closed = Some(at);
        let parents = BTreeSet::from([self.shards[left].id.clone(), self.shards[right].id.clone()]);
        self.open(parents, start, end, at);
    }

    fn open_numbers(&self) -> Vec<usize> {
        (0..self.shards.len())
            .filter(|n| self.shards[*n].closed.is_none())
            .collect()
    }

    /// The shard called `id`.
    pub(crate) fn get(&self, id: &ShardId) -> &FakeShard {
        self.shards
            .iter()
            .find(|shard| shard.id == *id)
            .expect("shards never go")
    }

    /// Every open shard.
    pub(crate) fn open_shards(&self) -> impl Iterator<Item = &FakeShard> {
        self.shards.iter().filter(|shard| shard.closed.is_none())
    }

    /// No record comes any more.
    pub(crate) fn fall_silent(&mut self) {
        self.step = u64::MAX;
    }

    /// What ListShards says.
    pub(crate) fn list(&self) -> Vec<Shard> {
        self.shards.iter().map(FakeShard::listed).collect()
    }

    /// The ids that were open at `at`, as the AT_TIMESTAMP filter names them.
    pub(crate) fn open_at(&self, at: u64) -> BTreeSet<ShardId> {
        self.shards
            .iter()
            .filter(|shard| shard.closed.is_none_or(|closed| closed >= at))
            .map(|shard| shard.id.clone())
            .collect()
    }

    /// The children of `id`.
    pub(crate) fn children(&self, id: &ShardId) -> Vec<Shard> {
        self.shards
            .iter()
            .filter(|shard| shard.parents.contains(id))
            .map(FakeShard::listed)
            .collect()
    }

    /// The newest record of `id` at `now`; 0 if there is none yet.
    pub(crate) fn newest(&self, id: &ShardId, now: u64) -> u64 {
        let shard = self.get(id);
        let until = shard.closed.unwrap_or(u64::MAX).min(now);
        let records = until.saturating_sub(shard.opened) / self.step;
        if records == 0 {
            0
        } else {
            shard.opened + records * self.step
        }
    }
}

impl FakeShard {
    /// It was split or merged.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Its id.
    pub(crate) fn id(&self) -> &ShardId {
        &self.id
    }

    /// Its parents.
    pub(crate) fn parents(&self) -> &BTreeSet<ShardId> {
        &self.parents
    }

    fn listed(&self) -> Shard {
        Shard {
            id: self.id.clone(),
            parents: self.parents.clone(),
            range: self.range,
            starting_sequence: Some(sequence(self.opened)),
            closed: self.closed.is_some(),
        }
    }
}

fn sequence(at: u64) -> SequenceNumber {
    at.to_string().parse().expect("digits")
}

/// The position of the record put at `at`.
pub(crate) fn position(at: u64) -> Position {
    Position::at(sequence(at), 0)
}

/// The moment of a position: everything up to it is done.
pub(crate) fn moment(position: &Position, pinned: Option<i64>) -> u64 {
    match position {
        Position::TrimHorizon => 0,
        Position::Latest | Position::AtTimestamp => {
            u64::try_from(pinned.expect("rows of ours are pinned")).expect("not negative") * 1000
        }
        Position::At { sequence, .. } => sequence.as_str().parse().expect("ours"),
        Position::ShardEnd => u64::MAX,
    }
}
