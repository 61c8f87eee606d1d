//! Word: which shard takes which hash key, as of the last ListShards.

use std::collections::BTreeMap;

use checkpoint::{HashKey, HashRange};
use lease::{Shard, ShardId};

/// The shards of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardMap {
    /// The open ones, by their first hash key; never empty.
    open: Vec<(HashRange, ShardId)>,
    /// The hash keys of every one, closed ones included: a record can land in a shard that closed since.
    ranges: BTreeMap<ShardId, HashRange>,
}

impl ShardMap {
    /// `None`: no shard is open.
    pub(super) fn new(shards: Vec<Shard>) -> Option<Self> {
        let mut open: Vec<_> = shards
            .iter()
            .filter(|shard| !shard.closed)
            .map(|shard| (shard.range, shard.id.clone()))
            .collect();
        open.sort_by_key(|(range, _)| range.start);
        let ranges = shards.into_iter().map(|shard| (shard.id, shard.range));
        (!open.is_empty()).then(|| ShardMap {
            open,
            ranges: ranges.collect(),
        })
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Which of the open shards takes a hash key. In a list with a gap, as while a shard is split, the one before it:
    /// where the record really landed is looked at later anyway.
    pub(super) fn index_of(&self, key: HashKey) -> usize {
        self.open
            .partition_point(|(range, _)| range.start <= key)
            .saturating_sub(1)
    }

    /// The id of the open shard at `index`.
    pub(super) fn id(&self, index: usize) -> &ShardId {
        &self.open[index].1
    }

    /// The hash keys of a shard; `None` if it is not listed.
    pub(super) fn range(&self, shard: &ShardId) -> Option<HashRange> {
        self.ranges.get(shard).copied()
    }
}
