//! What becomes of the pages of a shard: which batches, which positions, which bytes are given back when.

use bytes::Bytes;
use checkpoint::{Aggregator, HashRange, HashRangePolicy, PutRecord};
use futures::FutureExt as _;

use super::*;
use crate::budget::Budget;

const NOW: Time = Time::ZERO;

fn limits(records: usize, bytes: usize, wait: u64) -> BatchLimits {
    BatchLimits {
        records,
        bytes,
        wait: Duration::from_millis(wait),
    }
}

fn inbox(limits: BatchLimits, resumed_at: Position) -> Inbox {
    Inbox::new(
        Deaggregator::new(HashRange::FULL, HashRangePolicy::DropRecord),
        limits,
        resumed_at,
    )
}

fn plain(sequence: u128) -> KinesisRecord {
    KinesisRecord::new(SequenceNumber::from(sequence), "key", "0123456789")
}

fn aggregate(sequence: u128, items: usize) -> KinesisRecord {
    let mut aggregator = Aggregator::new(1 << 20);
    for _ in 0..items {
        aggregator
            .add(PutRecord {
                partition_key: "key".into(),
                explicit_hash_key: None,
                data: Bytes::from_static(b"0123456789"),
            })
            .expect("there is room");
    }
    let data = aggregator.finish().expect("not empty").data;
    KinesisRecord::new(SequenceNumber::from(sequence), "a", data)
}

fn at(sequence: u128, sub: u64) -> Position {
    Position::at(sequence.into(), sub)
}

fn push(inbox: &mut Inbox, budget: &Budget, records: Vec<KinesisRecord>) {
    let reserved = budget.reserve(100).now_or_never().expect("there is room");
    inbox.push(records, Duration::ZERO, reserved, NOW);
}

fn positions(parcel: &Parcel) -> Vec<Position> {
    parcel
        .batch
        .records
        .iter()
        .map(UserRecord::position)
        .collect()
}

#[test]
fn batches_are_cut_by_records_and_by_bytes_also_inside_aggregates() {
    let budget = Budget::new(1_000);
    let mut inbox = inbox(limits(3, 1_000, 0), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![plain(1), aggregate(2, 4)]);
    let first = inbox.next(false, NOW).expect("full");
    assert_eq!(positions(&first), [at(1, 0), at(2, 0), at(2, 1)]);
    let second = inbox.next(false, NOW).expect("no wait");
    assert_eq!(positions(&second), [at(2, 2), at(2, 3)]);
    assert_eq!(second.position, at(2, 3));
    assert!(inbox.next(true, NOW).is_none() && inbox.is_empty());

    let mut inbox = super::tests::inbox(limits(100, 25, 0), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![plain(1), plain(2), plain(3)]);
    assert_eq!(inbox.next(false, NOW).expect("full").batch.records.len(), 2);
    assert_eq!(
        inbox
            .next(false, NOW)
            .expect("the rest")
            .batch
            .records
            .len(),
        1
    );
}

#[test]
fn a_batch_waits_for_more_but_not_for_ever() {
    let budget = Budget::new(1_000);
    let mut inbox = inbox(limits(3, 1_000, 50), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![plain(1)]);
    assert!(inbox.next(false, NOW).is_none());
    assert_eq!(inbox.due(), Some(NOW + Duration::from_millis(50)));
    assert!(inbox.next(false, NOW + Duration::from_millis(50)).is_some());
    push(&mut inbox, &budget, vec![plain(2)]);
    assert!(
        inbox.next(true, NOW).is_some(),
        "at the end of the shard nothing waits"
    );
}

#[test]
fn what_was_done_before_is_skipped_once_and_nothing_else() {
    for (resumed_at, expected) in [
        (at(2, 1), vec![at(2, 2), at(3, 0)]),
        (at(2, 2), vec![at(3, 0)]),
        // A checkpoint by sequence number alone: the rest of the aggregate comes again.
        (at(2, 0), vec![at(2, 1), at(2, 2), at(3, 0)]),
        (
            Position::TrimHorizon,
            vec![at(2, 0), at(2, 1), at(2, 2), at(3, 0)],
        ),
    ] {
        let budget = Budget::new(1_000);
        let mut inbox = inbox(limits(100, 1_000, 0), resumed_at.clone());
        push(&mut inbox, &budget, vec![aggregate(2, 3), plain(3)]);
        let parcel = inbox.next(false, NOW).expect("something is new");
        assert_eq!(positions(&parcel), expected, "resumed at {resumed_at}");
        let skipped = 4 - expected.len() as u64;
        assert_eq!(inbox.take_counts().resumed, skipped);
    }
}

#[test]
fn kinesis_records_that_come_twice_are_taken_once() {
    let budget = Budget::new(1_000);
    let mut inbox = inbox(limits(100, 1_000, 0), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![plain(1), plain(2)]);
    push(&mut inbox, &budget, vec![plain(2), plain(3)]);
    let parcel = inbox.next(false, NOW).expect("three records");
    assert_eq!(positions(&parcel), [at(1, 0), at(2, 0), at(3, 0)]);
    assert_eq!(inbox.take_counts().repeated, 1);
}

#[test]
fn records_of_which_nothing_is_handed_on_still_move_the_position() {
    // An aggregate without items (golden vector `no-records`).
    let empty: Vec<u8> = vec![
        0xf3, 0x89, 0x9a, 0xc2, 0x0a, 0x01, 0x61, 0x0d, 0xa6, 0xf9, 0x98, 0xa7, 0xe3, 0x12, 0xb8,
        0xf5, 0x23, 0x5e, 0xee, 0xb2, 0x85, 0x49, 0x7b,
    ];
    let barren =
        |sequence: u128| KinesisRecord::new(SequenceNumber::from(sequence), "a", empty.clone());
    let budget = Budget::new(1_000);
    let mut inbox = inbox(limits(100, 1_000, 0), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![barren(1), barren(2)]);
    assert!(inbox.next(false, NOW).is_none());
    assert_eq!(inbox.take_barren(), Some(at(2, 0)));
    assert_eq!(inbox.take_barren(), None);
    push(&mut inbox, &budget, vec![plain(3), barren(4)]);
    let parcel = inbox.next(false, NOW).expect("one record");
    assert_eq!(parcel.position, at(3, 0));
    assert_eq!(
        parcel.barren,
        Some(at(4, 0)),
        "the barren record goes with the batch before it"
    );
    assert_eq!(inbox.take_counts().unpacked.empty_aggregates, 3);
}

#[test]
fn a_page_counts_against_the_budget_until_its_last_batch_is_gone() {
    let budget = Budget::new(1_000);
    let mut inbox = inbox(limits(2, 1_000, 0), Position::TrimHorizon);
    push(&mut inbox, &budget, vec![plain(1), aggregate(2, 3)]);
    push(&mut inbox, &budget, vec![plain(3)]);
    assert_eq!(budget.used(), 200);
    let first = inbox.next(false, NOW).expect("full");
    let second = inbox.next(false, NOW).expect("full");
    drop(first);
    assert_eq!(
        budget.used(),
        200,
        "the second batch still holds a part of the page"
    );
    drop(second);
    assert_eq!(budget.used(), 100);
    drop(inbox.next(false, NOW).expect("the last record"));
    assert_eq!(budget.used(), 0);
}
