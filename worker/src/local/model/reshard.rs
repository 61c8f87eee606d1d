//! Splitting and merging. Rules: a split has one parent and two children that share its range; a merge has two adjacent
//! parents and one child with their whole range. Any change of the shard count is made of these two, as on AWS:
//! shards are cut at each boundary of the wanted layout, then pieces that lie in one wanted range are merged.
//! So every shard but the first ones has parents, and open shards always cover the hash space exactly once.

use super::Kinesis;
use super::error::{Error, Result};
use super::shard::{MAX_HASH_KEY, Shard, shard_id};
use super::stream::{Change, Stream, StreamMode};

/// A change of the shards, checked when it was asked for and carried out when the stream leaves UPDATING.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reshard {
    /// Cut the shard so that the second child starts at this hash key.
    Split { shard: u32, at: u128 },
    /// Join two adjacent shards; the first is named as parent, the second as adjacent parent.
    Merge { shard: u32, adjacent: u32 },
    /// Have this many shards of equal width.
    Scale { target: u32 },
}

/// The hash ranges of this many shards of equal width.
pub(crate) fn even_ranges(count: u32) -> Vec<(u128, u128)> {
    let start = |i: u32| boundary(i, count);
    let end = |i: u32| {
        if i + 1 == count {
            MAX_HASH_KEY
        } else {
            boundary(i + 1, count) - 1
        }
    };
    (0..count).map(|i| (start(i), end(i))).collect()
}

/// `i * floor(2^128 / count)`.
fn boundary(i: u32, count: u32) -> u128 {
    let (count, i) = (u128::from(count), u128::from(i));
    if i == 0 {
        return 0;
    }
    (MAX_HASH_KEY / count + u128::from(MAX_HASH_KEY % count == count - 1)) * i
}

/// Closes the parents and opens the children at `at`.
pub(crate) fn carry_out(shards: &mut Vec<Shard>, reshard: &Reshard, at: i64) {
    match *reshard {
        Reshard::Split { shard, at: key } => split(shards, shard, key, at),
        Reshard::Merge { shard, adjacent } => merge(shards, shard, adjacent, at),
        Reshard::Scale { target } => scale(shards, target, at),
    }
}

fn split(shards: &mut Vec<Shard>, index: u32, key: u128, at: i64) {
    let (start, end) = shards[index as usize].hash;
    for hash in [(start, key - 1), (key, end)] {
        open(shards, hash, &[index], at);
    }
    shards[index as usize].close(at);
}

fn merge(shards: &mut Vec<Shard>, first: u32, second: u32, at: i64) {
    let (a, b) = (shards[first as usize].hash, shards[second as usize].hash);
    open(shards, (a.0.min(b.0), a.1.max(b.1)), &[first, second], at);
    shards[first as usize].close(at);
    shards[second as usize].close(at);
}

fn open(shards: &mut Vec<Shard>, hash: (u128, u128), parents: &[u32], at: i64) {
    let index = u32::try_from(shards.len()).expect("shards are limited to far fewer");
    let parents: Vec<&Shard> = parents.iter().map(|p| &shards[*p as usize]).collect();
    let child = Shard::new(index, hash, at, &parents);
    shards.push(child);
}

fn scale(shards: &mut Vec<Shard>, target: u32, at: i64) {
    let wanted = even_ranges(target);
    for (start, _) in &wanted {
        let cut = shards
            .iter()
            .find(|s| s.is_open() && s.hash.0 < *start && *start <= s.hash.1)
            .map(|s| s.origin.shard);
        if let Some(index) = cut {
            split(shards, index, *start, at);
        }
    }
    for (start, end) in wanted {
        while let Some((first, second)) = first_pair_within(shards, start, end) {
            merge(shards, first, second, at);
        }
    }
}

/// The two lowest open shards inside the range, if there are two.
fn first_pair_within(shards: &[Shard], start: u128, end: u128) -> Option<(u32, u32)> {
    let mut inside: Vec<&Shard> = shards
        .iter()
        .filter(|s| s.is_open() && s.hash.0 >= start && s.hash.1 <= end)
        .collect();
    inside.sort_by_key(|s| s.hash.0);
    Some((inside.first()?.origin.shard, inside.get(1)?.origin.shard))
}

impl Kinesis {
    /// SplitShard: the second child starts at `new_starting_hash_key`.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse` (stream not ACTIVE), `InvalidArgument` (shard closed, or the key not strictly inside
    /// its range), `LimitExceeded`, `Validation` (on-demand stream).
    pub fn split_shard(
        &mut self,
        stream: &str,
        shard: &str,
        new_starting_hash_key: u128,
        now: i64,
    ) -> Result<()> {
        self.settle_all(now);
        let open = self.open_shards();
        let (stream, options) = self.active_stream(stream, now)?;
        provisioned(stream, "SplitShard")?;
        let index = open_shard(stream, shard, &options.account, now)?;
        let (start, end) = stream.shards[index as usize].hash;
        if new_starting_hash_key <= start || new_starting_hash_key > end {
            return Err(Error::invalid(format!(
                "NewStartingHashKey {new_starting_hash_key} used in SplitShard() on shard {shard} in stream {} under account {} is not both greater \
                 than one plus the shard's StartingHashKey {start} and less than the shard's EndingHashKey {end}.",
                stream.name, options.account
            )));
        }
        if open + 1 > options.shard_limit {
            return Err(over_limit(open, 1, options.shard_limit));
        }
        stream.begin(
            Change::Reshard(Reshard::Split {
                shard: index,
                at: new_starting_hash_key,
            }),
            now + options.update_ms,
        );
        stream.settle(now);
        Ok(())
    }

    /// MergeShards: the two become the parents of one new shard.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse` (stream not ACTIVE), `InvalidArgument` (a shard is closed, or they are not adjacent),
    /// `Validation` (on-demand stream).
    pub fn merge_shards(
        &mut self,
        stream: &str,
        shard: &str,
        adjacent: &str,
        now: i64,
    ) -> Result<()> {
        let (stream, options) = self.active_stream(stream, now)?;
        provisioned(stream, "MergeShards")?;
        let first = open_shard(stream, shard, &options.account, now)?;
        let second = open_shard(stream, adjacent, &options.account, now)?;
        let (a, b) = (
            stream.shards[first as usize].hash,
            stream.shards[second as usize].hash,
        );
        let meets = |low: (u128, u128), high: (u128, u128)| low.1.checked_add(1) == Some(high.0);
        if !meets(a, b) && !meets(b, a) {
            return Err(Error::invalid(format!(
                "Shards {shard} and {adjacent} in stream {} under account {} are not an adjacent pair of shards eligible for merging",
                stream.name, options.account
            )));
        }
        stream.begin(
            Change::Reshard(Reshard::Merge {
                shard: first,
                adjacent: second,
            }),
            now + options.update_ms,
        );
        stream.settle(now);
        Ok(())
    }

    /// UpdateShardCount with uniform scaling; answers the number of open shards before.
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse` (stream not ACTIVE), `InvalidArgument` (more than double or less than half), `LimitExceeded`,
    /// `Validation` (on-demand stream, or a count below 1).
    pub fn update_shard_count(&mut self, stream: &str, target: u32, now: i64) -> Result<usize> {
        self.settle_all(now);
        let open = self.open_shards();
        let (stream, options) = self.active_stream(stream, now)?;
        provisioned(stream, "UpdateShardCount")?;
        let current = stream.open_count();
        let wanted = target as usize;
        if wanted == 0 {
            return Err(Error::constraint(
                target,
                "targetShardCount",
                "Member must have value greater than or equal to 1",
            ));
        }
        if wanted > current * 2 || wanted * 2 < current {
            let how = if wanted > current {
                "up over double"
            } else {
                "down below half"
            };
            return Err(Error::invalid(format!(
                "UpdateShardCount cannot scale {how} your current open shard count. Current open shard count: {current} Target open shard count: {target}"
            )));
        }
        if open - current + wanted > options.shard_limit {
            return Err(over_limit(open, wanted - current, options.shard_limit));
        }
        stream.begin(
            Change::Reshard(Reshard::Scale { target }),
            now + options.update_ms,
        );
        stream.settle(now);
        Ok(current)
    }
}

pub(crate) fn over_limit(open: usize, more: usize, limit: usize) -> Error {
    Error::limit(format!(
        "This request would exceed the shard limit for the account: {open} shards open, {more} more asked for, limit {limit}."
    ))
}

fn provisioned(stream: &Stream, operation: &str) -> Result<()> {
    if stream.mode == StreamMode::OnDemand {
        return Err(Error::new(
            super::Code::Validation,
            format!(
                "Stream {} is in ON_DEMAND mode; {operation} is for streams in PROVISIONED mode only.",
                stream.name
            ),
        ));
    }
    Ok(())
}

fn open_shard(stream: &mut Stream, id: &str, account: &str, now: i64) -> Result<u32> {
    let name = stream.name.clone();
    let shard = stream.shard(id, account, now)?;
    if !shard.is_open() {
        return Err(Error::invalid(format!(
            "Shard {} in stream {name} under account {account} is already closed",
            shard_id(shard.origin.shard)
        )));
    }
    Ok(shard.origin.shard)
}

#[cfg(test)]
mod tests;
