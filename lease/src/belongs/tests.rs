use checkpoint::{HashKey, HashRange};

use super::*;
use crate::shard::Shard;

fn shards() -> Shards {
    Shards::new([Shard {
        id: "s1".into(),
        parents: Default::default(),
        range: HashRange::FULL,
        starting_sequence: Some("100".parse().expect("digits")),
        closed: false,
    }])
}

fn row(change: impl FnOnce(&mut Lease)) -> Lease {
    let mut lease = Lease::new(None, "s1".into(), Position::TrimHorizon);
    change(&mut lease);
    lease
}

fn verdict(lease: &Lease, id: Option<&StreamId>) -> Result<(), Foreign> {
    let shards = shards();
    let known = Known {
        id,
        made_for: "arn:orders",
        shards: &shards,
    };
    check([lease], &[known])
}

#[test]
fn rows_of_this_stream_are_taken() {
    let at = |text: &str| Position::at(text.parse().expect("digits"), 0);
    for lease in [
        row(|_| {}),
        row(|lease| lease.made_for = Some("arn:orders".into())),
        row(|lease| lease.range = Some(HashRange::FULL)),
        row(|lease| lease.checkpoint = at("100")),
        row(|lease| lease.checkpoint = Position::ShardEnd),
        // A shard that is listed no more says nothing.
        Lease::new(None, "s0".into(), at("1")),
    ] {
        assert_eq!(verdict(&lease, None), Ok(()));
    }
}

#[test]
fn rows_of_another_stream_are_refused_and_named() {
    let narrow = HashRange {
        start: HashKey(1),
        end: HashKey(2),
    };
    let stream = StreamId::from("1:orders:1");
    for (lease, id, names) in [
        (
            row(|lease| lease.made_for = Some("arn:other".into())),
            None,
            "arn:other",
        ),
        (
            row(|lease| lease.range = Some(narrow)),
            None,
            "hash key range",
        ),
        (
            row(|lease| lease.checkpoint = Position::at("99".parse().expect("digits"), 0)),
            None,
            "99",
        ),
        (row(|_| {}), Some(&stream), "one stream"),
        (
            Lease::new(Some(stream.clone()), "s1".into(), Position::Latest),
            None,
            "several streams",
        ),
    ] {
        let message = verdict(&lease, id).expect_err("foreign").to_string();
        assert!(
            message.contains(names) && message.contains("s1"),
            "{message}"
        );
    }
}

#[test]
fn rows_of_streams_that_are_not_configured_are_left_alone() {
    let (mine, other) = (StreamId::from("1:orders:1"), StreamId::from("1:gone:1"));
    assert_eq!(
        verdict(
            &Lease::new(Some(other), "s1".into(), Position::Latest),
            Some(&mine)
        ),
        Ok(())
    );
}
