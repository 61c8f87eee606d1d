//! Properties of packing and unpacking together.

use bytes::Bytes;
use proptest::prelude::*;

use super::golden::{outers, run, vector};
use super::{
    AddError, Aggregated, Aggregator, DIGEST, Deaggregator, HashRangePolicy, MAGIC, PutRecord,
    Unpacked, body_of,
};
use super::{deaggregate, deaggregate_range};
use crate::hash_key::{HashKey, HashRange};
use crate::record::{KinesisRecord, UserRecord};

/// A batch gives what its records give alone: digests computed side by side land where they belong.
#[test]
fn a_batch_is_the_sum_of_its_records() {
    let numbered = |(sequence, record): (u128, KinesisRecord)| KinesisRecord {
        sequence: sequence.into(),
        ..record
    };
    // Five times over, so that it takes more than one window.
    let many = std::iter::repeat_with(outers).take(5).flatten();
    let batch: Vec<KinesisRecord> = (1..).zip(many).map(numbered).collect();
    for policy in [
        HashRangePolicy::StrictKcl,
        HashRangePolicy::DropRecord,
        HashRangePolicy::Off,
    ] {
        let (mut alone, mut alone_counts) = (Vec::new(), Unpacked::default());
        for record in &batch {
            let (seen, counts) = run(record.clone(), HashRange::FULL, policy);
            alone.extend(seen);
            alone_counts += counts;
        }
        let mut together = Vec::new();
        let deaggregator = Deaggregator::new(HashRange::FULL, policy);
        let counts =
            deaggregator.push_all(batch.iter().cloned(), &mut |record| together.push(record));
        assert_eq!(together, alone);
        assert_eq!(counts, alone_counts);
        assert!(counts.aggregates > 64, "more than two windows");
    }
}

/// One Kinesis record, and nothing else yet.
fn one_record() -> Unpacked {
    Unpacked {
        kinesis_records: 1,
        ..Unpacked::default()
    }
}

/// One Kinesis record that is an aggregate.
fn one_aggregate() -> Unpacked {
    Unpacked {
        aggregates: 1,
        ..one_record()
    }
}

fn counts_are(cases: impl IntoIterator<Item = (&'static str, HashRangePolicy, Unpacked)>) {
    for (name, policy, expected) in cases {
        let (record, range) = vector(name);
        let (_, counts) = run(record, range, policy);
        assert_eq!(counts, expected, "{name} under {policy:?}");
    }
}

#[test]
fn every_drop_is_counted_by_its_reason() {
    use HashRangePolicy::{DropRecord, Off, StrictKcl};
    let stray = |out_of_range, user_records| Unpacked {
        out_of_range,
        user_records,
        ..one_aggregate()
    };
    let poison = |poisoned, user_records| Unpacked {
        poisoned_aggregates: 1,
        poisoned,
        user_records,
        ..one_aggregate()
    };
    let empty = Unpacked {
        empty_aggregates: 1,
        ..one_aggregate()
    };
    counts_are([
        ("ok", DropRecord, stray(0, 3)),
        ("range-excludes-r1", DropRecord, stray(1, 2)),
        ("range-excludes-r1", StrictKcl, stray(3, 0)),
        ("range-excludes-r1", Off, stray(0, 3)),
        ("range-hi-1", DropRecord, stray(2, 1)),
        ("ehk-negative", DropRecord, stray(1, 0)),
        ("ehk-negative", Off, stray(0, 1)),
        ("pk-oob", DropRecord, poison(2, 1)),
        ("pk-oob", Off, poison(2, 1)),
        ("ehk-nonnumeric", DropRecord, poison(2, 1)),
        ("ehk-nonnumeric", StrictKcl, poison(2, 1)),
        ("ehk-nonnumeric", Off, stray(0, 3)),
        ("no-records", DropRecord, empty),
    ]);
}

#[test]
fn what_is_no_aggregate_is_counted_by_why_not() {
    let plain = Unpacked {
        user_records: 1,
        ..one_record()
    };
    let wrong_digest = Unpacked {
        digest_mismatches: 1,
        ..plain
    };
    let not_protobuf = Unpacked {
        not_protobuf: 1,
        ..plain
    };
    counts_are([
        ("md5-bad", HashRangePolicy::DropRecord, wrong_digest),
        ("missing data", HashRangePolicy::DropRecord, not_protobuf),
        ("magic only", HashRangePolicy::DropRecord, plain),
    ]);
}

#[test]
fn payloads_are_slices_of_the_kinesis_record() {
    let (outer, _) = vector("ok");
    let whole = outer.data.as_ptr_range();
    let (seen, _) = run(outer, HashRange::FULL, HashRangePolicy::DropRecord);
    for record in &seen {
        assert!(whole.contains(&record.data.as_ptr()));
        assert!(whole.contains(&record.partition_key.as_bytes().as_ptr()));
    }
}

fn put(partition_key: &str, explicit_hash_key: Option<u128>, data: &[u8]) -> PutRecord {
    PutRecord {
        partition_key: partition_key.to_owned(),
        explicit_hash_key: explicit_hash_key.map(HashKey),
        data: Bytes::copy_from_slice(data),
    }
}

fn stored(aggregated: Aggregated) -> KinesisRecord {
    KinesisRecord::new(7.into(), aggregated.partition_key.as_str(), aggregated.data)
}

/// The golden payload `ok`, byte for byte.
#[test]
fn packs_as_the_kpl_does() {
    let mut aggregator = Aggregator::new(1024);
    for record in [
        put("a", None, b"r0"),
        put("b", Some(5), b"r1"),
        put("a", None, b"r2"),
    ] {
        aggregator.add(record).expect("room");
    }
    let aggregated = aggregator.finish().expect("three records");
    assert_eq!(aggregated.data, vector("ok").0.data);
    assert_eq!(aggregated.partition_key, "a");
    assert_eq!(aggregated.explicit_hash_key, HashKey::of_partition_key("a"));
    assert_eq!(aggregated.user_records, 3);
    assert!(aggregator.is_empty() && aggregator.finish().is_none());
}

#[test]
fn a_single_record_is_not_framed() {
    let mut aggregator = Aggregator::new(2);
    aggregator
        .add(put("key", Some(9), b"xy"))
        .expect("its data fits");
    assert_eq!(aggregator.size(), 2);
    let aggregated = aggregator.finish().expect("one record");
    assert_eq!(
        (aggregated.partition_key.as_str(), &aggregated.data[..]),
        ("key", &b"xy"[..])
    );
    assert_eq!(aggregated.explicit_hash_key, HashKey(9));
}

#[test]
fn a_record_without_room_comes_back() {
    let mut aggregator = Aggregator::new(40);
    aggregator.add(put("a", None, &[0; 10])).expect("room");
    let second = put("a", None, &[0; 11]);
    let full = AddError::Full {
        record: second.clone(),
        size: 10,
        limit: 40,
    };
    assert_eq!(aggregator.add(second), Err(full));
    assert_eq!(aggregator.len(), 1);
    let huge = put("a", None, &[0; 41]);
    let refused = aggregator.add(huge.clone());
    assert_eq!(
        refused,
        Err(AddError::TooLarge {
            record: huge,
            limit: 40
        })
    );
}

#[test]
fn without_a_client_records_unpack_by_range() {
    let (record, _) = vector("ok");
    assert_eq!(deaggregate([record.clone()]).len(), 3);
    let only_b = deaggregate_range([record], HashKey(5), HashKey(5));
    assert_eq!(
        only_b
            .iter()
            .map(|record| record.sub_sequence)
            .collect::<Vec<_>>(),
        [1]
    );
}

fn any_put() -> impl Strategy<Value = PutRecord> {
    let key = prop_oneof!["[a-c]", "\\PC{1,9}", "k{120,140}"];
    let hash_key = prop::option::of(prop_oneof![any::<u128>(), 0u128..3]);
    let data = prop::collection::vec(any::<u8>(), 0..200);
    (key, hash_key, data).prop_map(|(key, hash_key, data)| put(&key, hash_key, &data))
}

/// What must come out of the aggregate of `puts`.
fn expected(puts: &[PutRecord]) -> Vec<UserRecord> {
    let item = |(index, put): (usize, &PutRecord)| UserRecord {
        data: put.data.clone(),
        partition_key: put.partition_key.as_str().into(),
        explicit_hash_key: put.explicit_hash_key.map(|key| key.to_string().into()),
        sequence: 7.into(),
        sub_sequence: index as u64,
        aggregated: true,
        arrival: None,
        encryption: None,
    };
    puts.iter().enumerate().map(item).collect()
}

fn hash_key(put: &PutRecord) -> HashKey {
    put.explicit_hash_key
        .unwrap_or_else(|| HashKey::of_partition_key(&put.partition_key))
}

fn aggregate(puts: &[PutRecord]) -> Aggregated {
    let mut aggregator = Aggregator::new(usize::MAX);
    for put in puts {
        aggregator.add(put.clone()).expect("no limit");
    }
    aggregator.finish().expect("some records")
}

/// One change to a payload; the digest is made right again after it, so that the change is looked at.
fn mutate(payload: &Bytes, at: prop::sample::Index, byte: u8, kind: u8) -> Bytes {
    let mut body = payload[body_of(payload.len())].to_vec();
    let at = at.index(body.len());
    match kind {
        0 => body[at] = byte,
        1 => body.insert(at, byte),
        2 => drop(body.remove(at)),
        _ => body.truncate(at),
    }
    let digest: [u8; DIGEST] =
        md5::Digest::finalize(<md5::Md5 as md5::Digest>::new_with_prefix(&body)).into();
    [&MAGIC[..], &body, &digest].concat().into()
}

proptest! {
    #[test]
    fn what_was_packed_comes_out(puts in prop::collection::vec(any_put(), 2..40)) {
        let seen = deaggregate([stored(aggregate(&puts))]);
        prop_assert_eq!(seen, expected(&puts));
    }

    #[test]
    fn sizes_are_foretold_and_kept(puts in prop::collection::vec(any_put(), 1..40), limit in 100usize..2000) {
        let mut aggregator = Aggregator::new(limit);
        let mut payloads = Vec::new();
        for put in &puts {
            if let Err(error) = aggregator.add(put.clone()) {
                let AddError::Full { record, size, .. } = error else { continue };
                prop_assert_eq!(size, aggregator.size());
                payloads.extend(aggregator.finish().map(|aggregated| (aggregated, size)));
                aggregator.add(record).expect("fits alone");
            }
        }
        let size = aggregator.size();
        payloads.extend(aggregator.finish().map(|aggregated| (aggregated, size)));
        for (aggregated, size) in &payloads {
            prop_assert_eq!(aggregated.data.len(), *size);
            prop_assert!(*size <= limit);
        }
        let fitting = puts.iter().filter(|put| put.data.len() <= limit).count();
        prop_assert_eq!(payloads.iter().map(|(aggregated, _)| aggregated.user_records).sum::<usize>(), fitting);
    }

    #[test]
    fn filters_are_what_they_say(puts in prop::collection::vec(any_put(), 2..20), a: u128, b: u128) {
        let range = HashRange { start: HashKey(a.min(b)), end: HashKey(a.max(b)) };
        let record = stored(aggregate(&puts));
        let all = expected(&puts);
        let belongs: Vec<bool> = puts.iter().map(|put| range.contains(hash_key(put))).collect();
        let kept: Vec<_> = all.iter().zip(&belongs).filter(|(_, belongs)| **belongs).map(|(record, _)| record.clone()).collect();

        let (seen, counts) = run(record.clone(), range, HashRangePolicy::DropRecord);
        prop_assert_eq!(counts.out_of_range as usize, puts.len() - kept.len());
        prop_assert_eq!(&seen, &kept);
        let (seen, _) = run(record.clone(), range, HashRangePolicy::StrictKcl);
        prop_assert_eq!(seen, if kept.len() == all.len() { kept } else { vec![] });
        let (seen, _) = run(record, range, HashRangePolicy::Off);
        prop_assert_eq!(seen, all);
    }

    /// Nothing panics, nothing disappears uncounted, and nothing longer than the payload comes out of it.
    #[test]
    fn a_damaged_aggregate_is_accounted_for(
        puts in prop::collection::vec(any_put(), 2..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4),
        low: u128,
    ) {
        let mut payload = aggregate(&puts).data;
        for (at, byte, kind) in changes {
            if body_of(payload.len()).is_empty() {
                break;
            }
            payload = mutate(&payload, at, byte, kind);
        }
        let range = HashRange { start: HashKey(low), end: HashKey::MAX };
        for policy in [HashRangePolicy::DropRecord, HashRangePolicy::StrictKcl, HashRangePolicy::Off] {
            let record = KinesisRecord::new(7.into(), "outer", payload.clone());
            let (seen, counts) = run(record, range, policy);
            prop_assert_eq!(counts.user_records as usize, seen.len());
            prop_assert_eq!(counts.digest_mismatches, 0);
            let plain = seen.iter().filter(|record| !record.aggregated).count() as u64;
            prop_assert_eq!(plain + counts.aggregates, 1);
            prop_assert!(counts.not_protobuf <= plain);
            prop_assert!(seen.iter().map(|record| record.data.len()).sum::<usize>() <= payload.len());
            prop_assert!(seen.windows(2).all(|pair| pair[0].position() < pair[1].position()));
        }
    }

    #[test]
    fn bytes_that_are_no_aggregate_come_out_whole(mut payload: Vec<u8>, with_magic: bool) {
        if with_magic {
            payload.splice(0..0, MAGIC);
        }
        let record = KinesisRecord::new(7.into(), "outer", payload);
        let seen = deaggregate([record.clone()]);
        prop_assert_eq!(seen, [UserRecord::from(record)]);
    }
}
