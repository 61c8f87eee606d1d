//! How much the KPL decoder allocates, measured by an allocator that counts: a small multiple of its input, whatever the
//! input. A length or an index inside the bytes must never be believed.
#![allow(unsafe_code)] // A global allocator is unsafe by its signature; this one only counts and passes on.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use bytes::Bytes;
use checkpoint::{Aggregator, KinesisRecord, PutRecord, deaggregate};
use proptest::prelude::*;
use shardkeeper_tests::fuzz;

struct Counting;

thread_local! {
    /// What this thread holds, and the most it held since the last look.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(by: isize) {
    // Not there any more while a thread ends.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + by, most.max(now + by)));
    });
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once while a payload is decoded, beyond what was held before.
fn most_held(payload: Bytes) -> usize {
    let record = KinesisRecord::new("1".parse().expect("digits"), "a", payload);
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let records = deaggregate([record]);
    let most = HELD.with(|held| held.get().1);
    drop(records);
    usize::try_from(most - before).expect("what was held is freed later")
}

/// A user record takes some 200 bytes besides its payload, and six bytes of an aggregate can be one; a vector that
/// grows holds half as much again while it moves.
const A_BYTE: usize = 64;
/// Tables and windows of a size of their own.
const AT_LEAST: usize = 16 * 1024;

fn is_bounded(payload: Bytes) -> Result<(), String> {
    let (length, most) = (payload.len(), most_held(payload));
    let bound = A_BYTE * length + AT_LEAST;
    if most > bound {
        return Err(format!("{most} bytes for a payload of {length}"));
    }
    Ok(())
}

#[test]
fn the_allocator_counts() {
    let put = |data: Vec<u8>| PutRecord {
        partition_key: "k".to_owned(),
        explicit_hash_key: None,
        data: data.into(),
    };
    let mut aggregator = Aggregator::new(1 << 20);
    for _ in 0..1_000 {
        aggregator.add(put(vec![])).expect("there is room");
    }
    let made = aggregator.finish().expect("a thousand records").data;
    let most = most_held(made.clone());
    assert!(
        most > 1_000 * 100,
        "a thousand records are not counted: {most}"
    );
    println!(
        "{} bytes of a thousand empty records: {most} held",
        made.len()
    );
    is_bounded(made).expect("the worst there is");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

    #[test]
    fn the_decoder_allocates_a_small_multiple_of_its_input(data in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert_eq!(is_bounded(fuzz::payload(&data)), Ok(()));
    }
}

/// Lengths that promise gigabytes, tables that promise to be long: each in a frame whose digest is right.
#[test]
fn promises_of_length_are_not_believed() {
    for field in [0x0A_u8, 0x12, 0x1A] {
        for length in [
            &[0xFF, 0xFF, 0xFF, 0xFF, 0x07][..],
            &[0x80, 0x80, 0x80, 0x40],
            &[0xFF; 10],
        ] {
            let body = [&[field][..], length, &[0; 40]].concat();
            // The first byte asks for the rest to be framed as it is.
            let framed = fuzz::payload(&[&[1][..], &body].concat());
            assert_eq!(framed.len(), body.len() + 20);
            is_bounded(framed).expect("nothing is made room for");
        }
    }
}
