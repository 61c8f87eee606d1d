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
mod tests {
    use super::super::testing::{SHARD_0, T0, with_stream};
    use super::super::{Code, CreateStream, ModelOptions, ShardFilter, ShardInfo, StreamStatus};
    use super::*;

    const HALF: u128 = 1 << 127;

    fn all(kinesis: &mut Kinesis, now: i64) -> Vec<ShardInfo> {
        kinesis
            .list_shards("s", &ShardFilter::FromTrimHorizon, None, 1000, now)
            .expect("listed")
            .shards
    }

    /// Open shards cover the hash space once; every later shard has parents that closed with a number below its own first.
    fn assert_sound(shards: &[ShardInfo], first: usize) {
        let mut open: Vec<_> = shards
            .iter()
            .filter(|s| s.ending_sequence.is_none())
            .collect();
        open.sort_by_key(|s| s.starting_hash_key);
        assert_eq!(open[0].starting_hash_key, 0);
        assert_eq!(open[open.len() - 1].ending_hash_key, MAX_HASH_KEY);
        for pair in open.windows(2) {
            assert_eq!(pair[0].ending_hash_key + 1, pair[1].starting_hash_key);
        }
        for shard in &shards[first..] {
            assert!(shard.parent.is_some(), "{} is an orphan", shard.shard_id);
            for parent in shard.parent.iter().chain(&shard.adjacent_parent) {
                let parent = shards
                    .iter()
                    .find(|s| s.shard_id == *parent)
                    .expect("parent");
                assert!(parent.ending_sequence.expect("closed") < shard.starting_sequence);
                assert!(
                    parent.starting_hash_key <= shard.ending_hash_key
                        && shard.starting_hash_key <= parent.ending_hash_key
                );
            }
        }
    }

    #[test]
    fn even_ranges_cover_the_hash_space() {
        for count in [1, 2, 3, 4, 7, 1000] {
            let ranges = even_ranges(count);
            assert_eq!(
                (ranges.len(), ranges[0].0, ranges[ranges.len() - 1].1),
                (count as usize, 0, MAX_HASH_KEY)
            );
            assert!(ranges.windows(2).all(|p| p[0].1 + 1 == p[1].0), "{count}");
        }
        assert_eq!(even_ranges(2)[1].0, HALF);
        assert_eq!(even_ranges(3)[1].0, MAX_HASH_KEY / 3);
    }

    #[test]
    fn a_split_takes_effect_at_the_end_of_updating() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                update_ms: 100,
                ..ModelOptions::default()
            },
        );
        kinesis.split_shard("s", SHARD_0, HALF, T0).expect("begun");
        assert_eq!(
            kinesis
                .split_shard("s", SHARD_0, HALF, T0 + 1)
                .map_err(|e| e.code),
            Err(Code::ResourceInUse)
        );
        assert_eq!(
            kinesis
                .describe_stream_summary("s", T0 + 99)
                .map(|s| s.status),
            Ok(StreamStatus::Updating)
        );
        assert_eq!(all(&mut kinesis, T0 + 99).len(), 1);
        let shards = all(&mut kinesis, T0 + 100);
        assert_eq!(
            kinesis
                .describe_stream_summary("s", T0 + 100)
                .map(|s| (s.status, s.open_shards)),
            Ok((StreamStatus::Active, 2))
        );
        assert_sound(&shards, 1);
        assert_eq!(
            shards
                .iter()
                .map(|s| s.parent.as_deref())
                .collect::<Vec<_>>(),
            [None, Some(SHARD_0), Some(SHARD_0)]
        );
        assert_eq!(
            (shards[1].ending_hash_key, shards[2].starting_hash_key),
            (HALF - 1, HALF)
        );
    }

    #[test]
    fn a_merge_names_both_parents() {
        let mut kinesis = with_stream(3, ModelOptions::default());
        let id = shard_id;
        kinesis
            .merge_shards("s", &id(2), &id(1), T0)
            .expect("merged");
        let shards = all(&mut kinesis, T0);
        assert_sound(&shards, 3);
        assert_eq!(
            (
                shards[3].parent.as_deref(),
                shards[3].adjacent_parent.as_deref()
            ),
            (Some(&*id(2)), Some(&*id(1)))
        );
    }

    #[test]
    fn requests_without_sense_are_refused() {
        type Call = fn(&mut Kinesis) -> Result<()>;
        let cases: [(&str, Call, Code); 10] = [
            (
                "split at the first key",
                |k| k.split_shard("s", SHARD_0, 0, T0),
                Code::InvalidArgument,
            ),
            (
                "split above the range",
                |k| k.split_shard("s", SHARD_0, MAX_HASH_KEY, T0),
                Code::InvalidArgument,
            ),
            (
                "split of no shard",
                |k| k.split_shard("s", "shardId-000000000009", 5, T0),
                Code::ResourceNotFound,
            ),
            (
                "split in no stream",
                |k| k.split_shard("x", SHARD_0, 5, T0),
                Code::ResourceNotFound,
            ),
            (
                "split of a closed shard",
                |k| {
                    k.split_shard("s", SHARD_0, 5, T0)?;
                    k.split_shard("s", SHARD_0, 7, T0)
                },
                Code::InvalidArgument,
            ),
            (
                "merge of strangers",
                |k| k.merge_shards("s", SHARD_0, &shard_id(2), T0),
                Code::InvalidArgument,
            ),
            (
                "merge with itself",
                |k| k.merge_shards("s", SHARD_0, SHARD_0, T0),
                Code::InvalidArgument,
            ),
            (
                "more than double",
                |k| k.update_shard_count("s", 7, T0).map(drop),
                Code::InvalidArgument,
            ),
            (
                "less than half",
                |k| k.update_shard_count("s", 1, T0).map(drop),
                Code::InvalidArgument,
            ),
            (
                "on demand",
                |k| {
                    let mode = StreamMode::OnDemand;
                    k.create_stream(
                        CreateStream {
                            name: "o".into(),
                            mode,
                            shards: None,
                        },
                        T0,
                    )?;
                    k.split_shard("o", SHARD_0, 5, T0)
                },
                Code::Validation,
            ),
        ];
        for (what, call, code) in cases {
            assert_eq!(
                call(&mut with_stream(3, ModelOptions::default())).map_err(|e| e.code),
                Err(code),
                "{what}"
            );
        }
        let mut full = with_stream(
            3,
            ModelOptions {
                shard_limit: 3,
                ..ModelOptions::default()
            },
        );
        assert_eq!(
            full.split_shard("s", SHARD_0, 5, T0).map_err(|e| e.code),
            Err(Code::LimitExceeded)
        );
        assert_eq!(
            full.update_shard_count("s", 4, T0).map_err(|e| e.code),
            Err(Code::LimitExceeded)
        );
        assert_eq!(
            full.update_shard_count("s", 2, T0),
            Ok(3),
            "fewer shards need no room"
        );
    }

    #[test]
    fn every_change_of_the_count_has_lineage() {
        for (from, to) in [
            (1, 1),
            (1, 2),
            (2, 4),
            (4, 2),
            (2, 3),
            (3, 2),
            (4, 6),
            (6, 4),
            (5, 3),
            (7, 14),
            (8, 5),
        ] {
            let mut kinesis = with_stream(from, ModelOptions::default());
            assert_eq!(kinesis.update_shard_count("s", to, T0), Ok(from as usize));
            let shards = all(&mut kinesis, T0);
            assert_sound(&shards, from as usize);
            let mut open: Vec<_> = shards
                .iter()
                .filter(|s| s.ending_sequence.is_none())
                .map(|s| (s.starting_hash_key, s.ending_hash_key))
                .collect();
            open.sort_unstable();
            assert_eq!(open, even_ranges(to), "{from} to {to}");
        }
    }
}
