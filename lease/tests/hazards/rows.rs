//! Rows that are made, kept back, started and removed.

use std::collections::BTreeMap;

use checkpoint::{HashRange, Position};
use lease::{
    Lease, Shard, ShardId, Shards, StreamId, Write,
    sync::{self, Scene, Start},
};

pub(crate) fn shard(id: &str, parents: &[&str], closed: bool) -> Shard {
    Shard {
        id: id.into(),
        parents: parents.iter().map(|id| ShardId::from(*id)).collect(),
        range: HashRange::FULL,
        starting_sequence: None,
        closed,
    }
}

/// A parent that was split in two.
fn family() -> Shards {
    Shards::new([
        shard("parent", &[], true),
        shard("shard-7", &["parent"], false),
        shard("shard-8", &["parent"], false),
    ])
}

fn row(id: &str, checkpoint: Position) -> Lease {
    let mut lease = Lease::new(None, id.into(), checkpoint);
    if id != "parent" {
        lease.parents = [ShardId::from("parent")].into();
    }
    lease
}

fn at(sequence: u128) -> Position {
    Position::at(sequence.into(), 0)
}

/// What is made beside these rows: shard, position, pin.
fn made(start: Start, rows: &[Lease], wall: i64) -> Vec<(String, Position, Option<i64>)> {
    let shards = family();
    let leases: BTreeMap<ShardId, &Lease> = rows
        .iter()
        .map(|lease| (lease.shard.clone(), lease))
        .collect();
    let scene = Scene {
        stream: None,
        made_for: None,
        start,
        shards: &shards,
        open_at_start: None,
        leases: &leases,
        wall,
    };
    sync::missing(&scene)
        .into_iter()
        .map(|lease| (lease.shard.to_string(), lease.checkpoint, lease.pinned))
        .collect()
}

fn child(id: &str, position: Position, pin: Option<i64>) -> (String, Position, Option<i64>) {
    (id.to_owned(), position, pin)
}

#[test]
fn latest_and_timestamps_are_pinned_when_a_row_is_made() {
    assert_eq!(
        made(Start::Latest, &[], 1_000),
        [
            child("shard-7", Position::Latest, Some(1_000)),
            child("shard-8", Position::Latest, Some(1_000)),
        ]
    );
    assert_eq!(
        made(Start::AtTimestamp(500), &[], 1_000),
        [child("parent", Position::AtTimestamp, Some(500))]
    );
    assert_eq!(
        made(Start::TrimHorizon, &[], 1_000),
        [child("parent", Position::TrimHorizon, None)]
    );
}

#[test]
fn a_missing_child_of_a_finished_parent_is_made_at_its_beginning() {
    for start in [Start::TrimHorizon, Start::Latest, Start::AtTimestamp(500)] {
        let rows = [row("parent", Position::ShardEnd), row("shard-7", at(7))];
        assert_eq!(
            made(start, &rows, 1_000),
            [child("shard-8", Position::TrimHorizon, None)],
            "{start:?}"
        );
    }
    // The parent's reader makes it when it comes to the end.
    assert_eq!(made(Start::TrimHorizon, &[row("parent", at(3))], 0), []);
}

#[test]
fn a_hole_is_filled_where_the_application_began_and_never_at_a_new_latest() {
    let mut left = row("shard-7", Position::Latest);
    left.pinned = Some(100);
    assert_eq!(
        made(Start::Latest, &[left], 9_000),
        [child("shard-8", Position::Latest, Some(100))]
    );
    // No row tells when it began: everything that is stored.
    assert_eq!(
        made(Start::Latest, &[row("shard-7", at(7))], 9_000),
        [child("shard-8", Position::TrimHorizon, None)]
    );
}

#[test]
fn each_stream_is_judged_by_its_own_rows() {
    // A table that has rows of another stream only: this one is new, and gets its first rows as if it were alone.
    let shards = family();
    let stream = StreamId::from("1:orders:2");
    let scene = Scene {
        stream: Some(&stream),
        made_for: Some("orders"),
        start: Start::Latest,
        shards: &shards,
        open_at_start: None,
        leases: &BTreeMap::new(),
        wall: 77,
    };
    let keys: Vec<String> = sync::missing(&scene)
        .iter()
        .map(|lease| lease.key.to_string())
        .collect();
    assert_eq!(keys, ["1:orders:2:shard-7", "1:orders:2:shard-8"]);
}

fn retired(rows: &[Lease], shards: &Shards) -> Vec<String> {
    let leases: BTreeMap<ShardId, &Lease> = rows
        .iter()
        .map(|lease| (lease.shard.clone(), lease))
        .collect();
    sync::retired(&leases, shards)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_finished_row_goes_only_when_all_its_children_have_begun() {
    let done = || row("parent", Position::ShardEnd);
    let cases = [
        (
            "both have",
            vec![done(), row("shard-7", at(1)), row("shard-8", at(1))],
            true,
        ),
        (
            "one has",
            vec![
                done(),
                row("shard-7", at(1)),
                row("shard-8", Position::TrimHorizon),
            ],
            false,
        ),
        (
            "LATEST is no beginning",
            vec![
                done(),
                row("shard-7", at(1)),
                row("shard-8", Position::Latest),
            ],
            false,
        ),
        ("one has no row", vec![done(), row("shard-7", at(1))], false),
        (
            "it is not finished",
            vec![
                row("parent", at(9)),
                row("shard-7", at(1)),
                row("shard-8", at(1)),
            ],
            false,
        ),
    ];
    for (case, rows, goes) in cases {
        assert_eq!(!retired(&rows, &family()).is_empty(), goes, "{case}");
    }
}

#[test]
fn a_finished_row_of_a_shard_without_known_children_stays() {
    // An application that checkpointed SHARD_END on an open shard, or a list that was short of the children.
    let alone = Shards::new([shard("parent", &[], false)]);
    assert!(retired(&[row("parent", Position::ShardEnd)], &alone).is_empty());
    // Kinesis lists the shard no more: nothing can be read of it any longer.
    let others = Shards::new([shard("shard-9", &[], false)]);
    assert_eq!(
        retired(&[row("parent", Position::ShardEnd)], &others),
        ["parent"]
    );
}

#[test]
fn only_a_finished_row_can_be_removed() {
    let delete = |lease: &Lease| Write::Delete {
        key: lease.key.clone(),
    };
    for (position, may) in [
        (Position::ShardEnd, true),
        (at(1), false),
        (Position::TrimHorizon, false),
    ] {
        let lease = row("parent", position);
        assert_eq!(delete(&lease).permitted(Some(&lease)), may, "{lease:?}");
    }
    assert!(!delete(&row("parent", Position::ShardEnd)).permitted(None));
}

#[test]
fn a_child_waits_for_a_parent_that_has_no_row_as_long_as_kinesis_lists_it() {
    let shards = family();
    let gone = Shards::new([shard("shard-7", &["parent"], false)]);
    let parent = |position| Some(row("parent", position));
    let cases = [
        (
            "parent unfinished",
            parent(at(3)),
            Some(&shards),
            Position::TrimHorizon,
            false,
        ),
        (
            "parent finished",
            parent(Position::ShardEnd),
            Some(&shards),
            Position::TrimHorizon,
            true,
        ),
        (
            "no row, parent listed",
            None,
            Some(&shards),
            Position::TrimHorizon,
            false,
        ),
        (
            "no row, nothing listed yet",
            None,
            None,
            Position::TrimHorizon,
            false,
        ),
        (
            "no row, parent not listed",
            None,
            Some(&gone),
            Position::TrimHorizon,
            true,
        ),
        ("no row, child has begun", None, Some(&shards), at(1), true),
        (
            "no row, child has a start of its own",
            None,
            Some(&shards),
            Position::Latest,
            true,
        ),
    ];
    for (case, parent, shards, position, may) in cases {
        let row_of = |id: &ShardId| parent.as_ref().filter(|row| row.shard == *id);
        assert_eq!(
            sync::startable(&row("shard-7", position), row_of, shards),
            may,
            "{case}"
        );
    }
}
