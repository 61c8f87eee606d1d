use checkpoint::{HashKey, HashRange};

use super::*;

fn id(name: &str) -> ShardId {
    ShardId::from(name)
}

/// `"c<a+b"`: shard `c` with the parents `a` and `b`; a trailing `!` closes it.
fn shards(texts: &[&str]) -> Shards {
    Shards::new(texts.iter().enumerate().map(|(number, text)| {
        let closed = text.ends_with('!');
        let text = text.trim_end_matches('!');
        let (name, parents) = text.split_once('<').unwrap_or((text, ""));
        Shard {
            id: id(name),
            parents: parents
                .split('+')
                .filter(|name| !name.is_empty())
                .map(id)
                .collect(),
            range: HashRange {
                start: HashKey(0),
                end: HashKey(9),
            },
            starting_sequence: Some(number.to_string().parse().expect("digits")),
            closed,
        }
    }))
}

/// `"a=end"`: a row of shard `a`, at `end`, `trim`, `latest@7` (pinned) or a sequence number.
fn rows_of(texts: &[&str], shards: &Shards) -> Vec<Lease> {
    let row = |text: &&str| {
        let (name, place) = text.split_once('=').expect("name=place");
        let (place, pin) = place.split_once('@').unwrap_or((place, ""));
        let position = match place {
            "end" => Position::ShardEnd,
            "trim" => Position::TrimHorizon,
            "latest" => Position::Latest,
            number => Position::at(number.parse().expect("digits"), 0),
        };
        let mut lease = Lease::new(None, id(name), position);
        lease.pinned = pin.parse().ok();
        if let Some(shard) = shards.get(&id(name)) {
            lease.parents = shard.parents.clone();
        }
        lease
    };
    texts.iter().map(row).collect()
}

fn by_shard(rows: &[Lease]) -> BTreeMap<ShardId, &Lease> {
    rows.iter().map(|row| (row.shard.clone(), row)).collect()
}

/// What is made, as `name=place` and the pin where there is one.
fn made(
    start: Start,
    list: &[&str],
    table: &[&str],
    open_at_start: Option<&[&str]>,
) -> Vec<String> {
    let shards = shards(list);
    let rows = rows_of(table, &shards);
    let open = open_at_start.map(|names| names.iter().map(|name| id(name)).collect());
    let scene = Scene {
        stream: None,
        made_for: Some("stream"),
        start,
        shards: &shards,
        open_at_start: open.as_ref(),
        leases: &by_shard(&rows),
        wall: 1_000,
    };
    missing(&scene)
        .into_iter()
        .map(|lease| {
            assert_eq!(lease.counter, 1_000, "counters start at the wall clock");
            assert_eq!(lease.made_for.as_deref(), Some("stream"));
            let pin = lease.pinned.map_or(String::new(), |pin| format!("@{pin}"));
            format!("{}={}{pin}", lease.shard, lease.checkpoint)
        })
        .collect()
}

const FAMILY: &[&str] = &["a!", "b<a!", "c<a", "d<b"];

#[test]
fn first_rows_are_those_of_the_generation_that_is_needed_first() {
    let at = Start::AtTimestamp(7);
    for (start, open, want) in [
        (Start::TrimHorizon, None, &["a=TRIM_HORIZON"][..]),
        (Start::Latest, None, &["c=LATEST@1000", "d=LATEST@1000"][..]),
        (
            at,
            Some(&["b", "c"][..]),
            &["b=AT_TIMESTAMP@7", "c=AT_TIMESTAMP@7"][..],
        ),
        // A stand-in that ignores the filter names whole families.
        (at, Some(FAMILY_NAMES), &["a=AT_TIMESTAMP@7"][..]),
        (at, None, &["a=AT_TIMESTAMP@7"][..]),
    ] {
        assert_eq!(made(start, FAMILY, &[], open), want, "{start:?} {open:?}");
    }
}

const FAMILY_NAMES: &[&str] = &["a", "b", "c", "d"];

#[test]
fn a_root_is_a_shard_whose_parents_are_listed_no_more() {
    assert_eq!(
        made(Start::TrimHorizon, &["c<gone", "d<c"], &[], None),
        ["c=TRIM_HORIZON"]
    );
}

/// Each case: why, the rows that are there, and those that are made; both with spaces between them.
fn later(start: Start, list: &[&str], cases: &[(&str, &str, &str)]) {
    for (why, table, want) in cases {
        let table: Vec<&str> = table.split(' ').collect();
        assert_eq!(made(start, list, &table, None).join(" "), *want, "{why}");
    }
}

#[test]
fn later_rows_close_holes_and_nothing_else() {
    let of_a_family = [
        ("all is there", "a=5", ""),
        ("left to the parent's end", "a=end b=3 c=trim", ""),
        (
            "H26: a child of a finished parent",
            "a=end c=4",
            "b=TRIM_HORIZON",
        ),
        ("past: finished and cleaned up", "c=4 d=4", ""),
        ("H27: a sibling of a started shard", "d=4", "c=TRIM_HORIZON"),
        ("the elder generation first", "x=1", "a=TRIM_HORIZON"),
        (
            "a child at its beginning proves nothing",
            "b=trim c=trim",
            "a=TRIM_HORIZON",
        ),
        (
            "a row of a retired child is not made again",
            "a=end c=3 d=3",
            "",
        ),
    ];
    later(Start::TrimHorizon, FAMILY, &of_a_family);
}

#[test]
fn a_merged_shard_waits_for_both_parents() {
    let merged = [
        ("one parent is not done", "a=end b=2", ""),
        ("both are", "a=end b=end", "m=TRIM_HORIZON"),
        ("one is missing: it goes first", "a=end", "b=TRIM_HORIZON"),
    ];
    later(Start::TrimHorizon, &["a!", "b!", "m<a+b"], &merged);
}

#[test]
fn a_hole_is_never_filled_at_a_new_latest() {
    let pinned = [
        ("past: before the start", "c=latest@3 d=latest@3", ""),
        ("H27: at the pin of another", "d=latest@3", "c=LATEST@3"),
        ("without any pin", "d=4", "c=TRIM_HORIZON"),
    ];
    later(Start::Latest, FAMILY, &pinned);
    let cut_off = [("a first creation", "a=latest@3", "b=LATEST@3")];
    later(Start::Latest, &["a", "b"], &cut_off);
}

/// The row of `a` was removed since; the list is of a time when it had no children.
#[test]
fn a_list_that_is_too_old_makes_no_hole_of_a_removed_row() {
    let old = shards(&["a"]);
    for (table, made) in [("b=3", 0), ("b=trim", 1)] {
        let rows = rows_of(&[table], &shards(FAMILY));
        let scene = Scene {
            stream: None,
            made_for: None,
            start: Start::TrimHorizon,
            shards: &old,
            open_at_start: None,
            leases: &by_shard(&rows),
            wall: 0,
        };
        assert_eq!(missing(&scene).len(), made, "{table}");
    }
}

#[test]
fn rows_are_retired_when_they_are_followed_or_unlisted() {
    for (why, list, table, want) in [
        (
            "children started",
            FAMILY,
            &["a=end", "b=1", "c=end"][..],
            &["a"][..],
        ),
        ("a child has not", FAMILY, &["a=end", "b=1", "c=trim"], &[]),
        (
            "H30: LATEST is not started",
            FAMILY,
            &["a=end", "b=1", "c=latest@1"],
            &[],
        ),
        ("H28: no children known", &["a!"], &["a=end"], &[]),
        (
            "a parent's row is left",
            FAMILY,
            &["a=end", "b=end", "c=trim", "d=1"],
            &[],
        ),
        ("not at its end", FAMILY, &["a=3", "b=1", "c=1"], &[]),
        ("unlisted and done", &["c"], &["a=end", "c=trim"], &["a"]),
        ("unlisted, not done", &["c"], &["a=3", "c=1"], &[]),
        ("unlisted, by a list that is older", &["a"], &["c=end"], &[]),
    ] {
        let shards = shards(list);
        let rows = rows_of(table, &shards);
        let keys: Vec<String> = retired(&by_shard(&rows), &shards)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(keys, want, "{why}");
    }
}

#[test]
fn a_child_waits_for_its_parents() {
    for (why, child, table, list, want) in [
        ("parent done", "b=trim", &["a=end"][..], Some(FAMILY), true),
        ("parent not done", "b=trim", &["a=3"], Some(FAMILY), false),
        ("H31: absent, listed", "b=trim", &[], Some(FAMILY), false),
        ("absent, no list yet", "b=trim", &[], None, false),
        ("absent, unlisted", "b=trim", &[], Some(&["b<a"][..]), true),
        (
            "absent, by a list that is older",
            "d=trim",
            &[],
            Some(&["a"][..]),
            false,
        ),
        (
            "absent, but a sibling has started",
            "b=trim",
            &["c=3"],
            Some(FAMILY),
            true,
        ),
        (
            "a sibling at its beginning proves nothing",
            "b=trim",
            &["c=trim"],
            Some(FAMILY),
            false,
        ),
        ("started itself", "b=3", &["a=3"], None, true),
        ("a start of its own", "c=latest@1", &[], None, true),
        (
            "a start of its own, parent not done",
            "c=latest@1",
            &["a=3"],
            None,
            false,
        ),
    ] {
        let all = shards(FAMILY);
        let rows = rows_of(table, &all);
        let lease = &rows_of(&[child], &all)[0];
        let listed = list.map(shards);
        let row_of = |shard: &ShardId| rows.iter().find(|row| row.shard == *shard);
        assert_eq!(startable(lease, row_of, listed.as_ref()), want, "{why}");
    }
}
