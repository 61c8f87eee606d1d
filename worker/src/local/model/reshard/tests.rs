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

/// A call on a stream of three shards that makes no sense, by what it does.
type Call = (&'static str, fn(&mut Kinesis) -> Result<()>);

fn refused(code: Code, calls: &[Call]) {
    for (what, call) in calls {
        assert_eq!(
            call(&mut with_stream(3, ModelOptions::default())).map_err(|e| e.code),
            Err(code),
            "{what}"
        );
    }
}

#[test]
fn splits_without_sense_are_refused() {
    let arguments: [Call; 3] = [
        ("at the first key", |k| k.split_shard("s", SHARD_0, 0, T0)),
        ("above the range", |k| {
            k.split_shard("s", SHARD_0, MAX_HASH_KEY, T0)
        }),
        ("of a closed shard", |k| {
            k.split_shard("s", SHARD_0, 5, T0)?;
            k.split_shard("s", SHARD_0, 7, T0)
        }),
    ];
    refused(Code::InvalidArgument, &arguments);
    let absent: [Call; 2] = [
        ("of no shard", |k| {
            k.split_shard("s", "shardId-000000000009", 5, T0)
        }),
        ("in no stream", |k| k.split_shard("x", SHARD_0, 5, T0)),
    ];
    refused(Code::ResourceNotFound, &absent);
    let mode: [Call; 1] = [("on demand", |k| {
        let request = CreateStream {
            name: "o".into(),
            mode: StreamMode::OnDemand,
            shards: None,
        };
        k.create_stream(request, T0)?;
        k.split_shard("o", SHARD_0, 5, T0)
    })];
    refused(Code::Validation, &mode);
}

#[test]
fn merges_and_counts_without_sense_are_refused() {
    let arguments: [Call; 4] = [
        ("merge of strangers", |k| {
            k.merge_shards("s", SHARD_0, &shard_id(2), T0)
        }),
        ("merge with itself", |k| {
            k.merge_shards("s", SHARD_0, SHARD_0, T0)
        }),
        ("more than double", |k| {
            k.update_shard_count("s", 7, T0).map(drop)
        }),
        ("less than half", |k| {
            k.update_shard_count("s", 1, T0).map(drop)
        }),
    ];
    refused(Code::InvalidArgument, &arguments);
}

#[test]
fn more_shards_need_room_and_fewer_do_not() {
    let full = ModelOptions {
        shard_limit: 3,
        ..ModelOptions::default()
    };
    let mut full = with_stream(3, full);
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
