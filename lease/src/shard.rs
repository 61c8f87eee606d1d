//! Word: shards as ListShards tells them, and who descends from whom.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint::{HashRange, SequenceNumber};

use crate::id::ShardId;

/// One shard of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: ShardId,
    /// Its parents: none, one (split) or two (merge). Parents whose data expired are still named.
    pub parents: BTreeSet<ShardId>,
    /// The hash keys it serves.
    pub range: HashRange,
    /// The smallest sequence number it can hold. Absent where a child is only known from its parent's end.
    pub starting_sequence: Option<SequenceNumber>,
    /// Present once the shard is closed. Never compared with: stand-ins answer nonsense here.
    pub closed: bool,
}

/// All shards of one stream that Kinesis still lists, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    by_id: BTreeMap<ShardId, Shard>,
    children: BTreeMap<ShardId, BTreeSet<ShardId>>,
}

impl Shards {
    /// Indexes a complete list.
    pub fn new(shards: impl IntoIterator<Item = Shard>) -> Self {
        let by_id: BTreeMap<_, _> = shards
            .into_iter()
            .map(|shard| (shard.id.clone(), shard))
            .collect();
        let mut children: BTreeMap<ShardId, BTreeSet<ShardId>> = BTreeMap::new();
        for shard in by_id.values() {
            for parent in &shard.parents {
                children
                    .entry(parent.clone())
                    .or_default()
                    .insert(shard.id.clone());
            }
        }
        Shards { by_id, children }
    }

    /// The shard called `id`, if it is listed.
    pub fn get(&self, id: &ShardId) -> Option<&Shard> {
        self.by_id.get(id)
    }

    /// Whether the list was made after `id` came to be: it lists that shard, or a later one (Kinesis numbers the shards of
    /// a stream upwards). Of a shard that it knows and does not list, the data has expired; about any other it says
    /// nothing.
    pub fn knows(&self, id: &ShardId) -> bool {
        self.by_id
            .last_key_value()
            .is_some_and(|(last, _)| id <= last)
    }

    /// Every listed shard, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.by_id.values()
    }

    /// How many are listed.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The listed children of `id`.
    pub fn children(&self, id: &ShardId) -> impl Iterator<Item = &Shard> {
        self.children
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|child| self.by_id.get(child))
    }

    /// The listed parents of `shard`.
    pub fn parents<'a>(&'a self, shard: &'a Shard) -> impl Iterator<Item = &'a Shard> {
        shard
            .parents
            .iter()
            .filter_map(|parent| self.by_id.get(parent))
    }

    /// Whether `found` holds for some descendant of `id`.
    pub fn any_descendant(&self, id: &ShardId, mut found: impl FnMut(&Shard) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&Shard> = self.children(id).collect();
        while let Some(shard) = todo.pop() {
            if !seen.insert(&shard.id) {
                continue;
            }
            if found(shard) {
                return true;
            }
            todo.extend(self.children(&shard.id));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: &str) -> Shard {
        Shard {
            id: id.into(),
            parents: BTreeSet::new(),
            range: HashRange::FULL,
            starting_sequence: None,
            closed: false,
        }
    }

    #[test]
    fn a_list_knows_the_shards_that_were_there_when_it_was_made() {
        let listed = Shards::new([shard("shardId-000000000004"), shard("shardId-000000000006")]);
        for (id, known) in [
            ("shardId-000000000003", true),
            ("shardId-000000000005", true),
            ("shardId-000000000006", true),
            ("shardId-000000000007", false),
        ] {
            assert_eq!(listed.knows(&id.into()), known, "{id}");
        }
        assert!(!Shards::default().knows(&"shardId-000000000000".into()));
    }
}
