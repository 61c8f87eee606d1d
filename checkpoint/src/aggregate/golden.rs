//! Payloads and what the AggregatorUtil of KCL 3.5.1 made of them when it was run: how we know that a fleet which mixes
//! both sees the same user records.

use bytes::Bytes;

use super::{Deaggregator, HashRangePolicy, Unpacked};
use crate::hash_key::{HashKey, HashRange};
use crate::record::{EncryptionType, KinesisRecord, Millis, UserRecord};

/// The MD5 of `"a"`.
const MD5_A: HashKey = HashKey(16955237001963240173058271559858726497);

struct Vector {
    name: &'static str,
    /// In hexadecimal.
    payload: &'static str,
    range: HashRange,
    /// What the KCL emits.
    kcl: Seen,
    /// What is emitted when only the stray record is dropped.
    per_record: Seen,
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    /// The record itself, as a plain one.
    Raw,
    /// `sub-sequence:partition key:explicit hash key:data`, with `-` for no explicit hash key.
    Items(&'static [&'static str]),
}

const fn range(start: HashKey, end: HashKey) -> HashRange {
    HashRange { start, end }
}

#[rustfmt::skip]
const VECTORS: &[Vector] = &[
    Vector {
        name: "ok",
        payload: "f3899ac20a01610a01621201351a0608001a0272301a08080110001a0272311a0608001a02723274e10c7f576abdfe2729475e5b683272",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:r0", "1:b:5:r1", "2:a:-:r2"]),
        per_record: Seen::Items(&["0:a:-:r0", "1:b:5:r1", "2:a:-:r2"]),
    },
    Vector {
        name: "range-inclusive",
        payload: "f3899ac20a01610a01621201351a0608001a0272301a08080110001a0272311a0608001a02723274e10c7f576abdfe2729475e5b683272",
        range: range(HashKey(5), MD5_A),
        kcl: Seen::Items(&["0:a:-:r0", "1:b:5:r1", "2:a:-:r2"]),
        per_record: Seen::Items(&["0:a:-:r0", "1:b:5:r1", "2:a:-:r2"]),
    },
    Vector {
        name: "range-hi-1",
        payload: "f3899ac20a01610a01621201351a0608001a0272301a08080110001a0272311a0608001a02723274e10c7f576abdfe2729475e5b683272",
        range: range(HashKey(5), HashKey(MD5_A.0 - 1)),
        kcl: Seen::Items(&[]),
        per_record: Seen::Items(&["1:b:5:r1"]),
    },
    Vector {
        name: "range-excludes-r1",
        payload: "f3899ac20a01610a01621201351a0608001a0272301a08080110001a0272311a0608001a02723274e10c7f576abdfe2729475e5b683272",
        range: range(HashKey(6), HashKey::MAX),
        kcl: Seen::Items(&[]),
        per_record: Seen::Items(&["0:a:-:r0", "2:a:-:r2"]),
    },
    Vector {
        name: "md5-bad",
        payload: "f3899ac20a01610a01621201351a0608001a0272301a08080110001a0272311a0608001a02723274e10c7f576abdfe2729475e5b683273",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "pk-oob",
        payload: "f3899ac20a01611a0608001a0272301a0608071a0272311a0608001a0272324175b7e9ea25c240f4a2c7761dc97feb",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:r0"]),
        per_record: Seen::Items(&["0:a:-:r0"]),
    },
    Vector {
        name: "ehk-oob",
        payload: "f3899ac20a01611a0608001a0272301a08080010001a0272310390e3d20dfc287b6a73fd9885e939b5",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:r0"]),
        per_record: Seen::Items(&["0:a:-:r0"]),
    },
    Vector {
        name: "pkidx-2^32",
        payload: "f3899ac20a01611a0a0880808080101a027230546c92aba565b35275c7f6aa4ad2d2f1",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:r0"]),
        per_record: Seen::Items(&["0:a:-:r0"]),
    },
    Vector {
        name: "ehk-nonnumeric",
        payload: "f3899ac20a016112027a7a1a0608001a0272301a08080010001a0272311a0608001a0272329323b9a4c99a724cf4e4bd3331752d31",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:r0"]),
        per_record: Seen::Items(&["0:a:-:r0"]),
    },
    Vector {
        name: "ehk-negative",
        payload: "f3899ac20a016112022d311a08080010001a0272314e6bb61e90e4572b8e331510c948fdbe",
        range: HashRange::FULL,
        kcl: Seen::Items(&[]),
        per_record: Seen::Items(&[]),
    },
    Vector {
        name: "ehk \"+007\"",
        payload: "f3899ac20a016112042b3030371a08080010001a027231eaa97c399299797e4b96956dbc2ebda5",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:+007:r1"]),
        per_record: Seen::Items(&["0:a:+007:r1"]),
    },
    Vector {
        name: "ehk 2^128",
        payload: "f3899ac20a016112273334303238323336363932303933383436333436333337343630373433313736383231313435361a08080010001a027231e03bfce495ba5f0de06cfd9aaa7b2903",
        range: HashRange::FULL,
        kcl: Seen::Items(&[]),
        per_record: Seen::Items(&[]),
    },
    Vector {
        name: "no-records",
        payload: "f3899ac20a01610da6f998a7e312b8f5235eeeb285497b",
        range: HashRange::FULL,
        kcl: Seen::Items(&[]),
        per_record: Seen::Items(&[]),
    },
    Vector {
        name: "empty-proto (20 B)",
        payload: "f3899ac2d41d8cd98f00b204e9800998ecf8427e",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "magic only",
        payload: "f3899ac2",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "three bytes",
        payload: "f3899a",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "proto-garbage",
        payload: "f3899ac2ffffff8597d4e7e65352a302b63e07bc01a7da",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "missing data",
        payload: "f3899ac20a01611a0208006f9c5d02d95fbde86ecdd45367d7f6b4",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "missing pk idx",
        payload: "f3899ac20a01611a031a014100629640cb02aef99ddbb75c982c91e8",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "unknown field 4",
        payload: "f3899ac20a016120011a0508001a01415ca9da438420d1361f4ed70b91716af3",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:A"]),
        per_record: Seen::Items(&["0:a:-:A"]),
    },
    Vector {
        name: "pk bytes FF41",
        payload: "f3899ac20a02ff411a0508001a01412459d4b6580f7217177e5a1e0d2eee80",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:\u{fffd}A:-:A"]),
        per_record: Seen::Items(&["0:\u{fffd}A:-:A"]),
    },
    Vector {
        name: "record with tag",
        payload: "f3899ac20a01611a0c08001a014122050a016b1200cfec991bbdb2f9eb9300cd136af7cd0d",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:A"]),
        per_record: Seen::Items(&["0:a:-:A"]),
    },
    Vector {
        name: "tag missing key",
        payload: "f3899ac20a01611a0708001a01412200791485123f153ea6031965daf966b69a",
        range: HashRange::FULL,
        kcl: Seen::Raw,
        per_record: Seen::Raw,
    },
    Vector {
        name: "records before table",
        payload: "f3899ac21a0508001a01410a0161460c78a5bb1f2eee8ec5300552a4ee03",
        range: HashRange::FULL,
        kcl: Seen::Items(&["0:a:-:A"]),
        per_record: Seen::Items(&["0:a:-:A"]),
    },
];

pub(super) fn unhex(text: &str) -> Bytes {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn outer(payload: &str) -> KinesisRecord {
    KinesisRecord {
        arrival: Some(Millis(1_700_000_000_123)),
        encryption: Some(EncryptionType::Kms),
        ..KinesisRecord::new("100".parse().expect("digits"), "outer", unhex(payload))
    }
}

pub(super) fn run(
    record: KinesisRecord,
    range: HashRange,
    policy: HashRangePolicy,
) -> (Vec<UserRecord>, Unpacked) {
    let mut records = Vec::new();
    let counts = Deaggregator::new(range, policy).push(record, &mut |record| records.push(record));
    (records, counts)
}

fn spell(record: &UserRecord) -> String {
    let explicit = record.explicit_hash_key.as_deref().unwrap_or("-");
    let data = String::from_utf8_lossy(&record.data);
    format!(
        "{}:{}:{explicit}:{data}",
        record.sub_sequence, record.partition_key
    )
}

fn check(name: &str, outer: &KinesisRecord, seen: &[UserRecord], expected: Seen) {
    match expected {
        Seen::Raw => assert_eq!(seen, [UserRecord::from(outer.clone())], "{name}"),
        Seen::Items(expected) => {
            assert_eq!(
                seen.iter().map(spell).collect::<Vec<_>>(),
                expected,
                "{name}"
            );
            for record in seen {
                assert!(record.aggregated, "{name}");
                assert_eq!(record.sequence.as_str(), "100", "{name}");
                assert_eq!(
                    (record.arrival, record.encryption),
                    (outer.arrival, outer.encryption),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn emits_what_the_kcl_emitted() {
    for vector in VECTORS {
        let outer = outer(vector.payload);
        let (seen, _) = run(outer.clone(), vector.range, HashRangePolicy::StrictKcl);
        check(vector.name, &outer, &seen, vector.kcl);
    }
}

#[test]
fn drops_no_more_than_the_stray_record() {
    for vector in VECTORS {
        let outer = outer(vector.payload);
        let (seen, _) = run(outer.clone(), vector.range, HashRangePolicy::DropRecord);
        check(vector.name, &outer, &seen, vector.per_record);
    }
}

/// The payload and the range of the vector of this name.
pub(super) fn vector(name: &str) -> (KinesisRecord, HashRange) {
    let vector = VECTORS
        .iter()
        .find(|vector| vector.name == name)
        .expect("a vector of this name");
    (outer(vector.payload), vector.range)
}

pub(super) fn outers() -> Vec<KinesisRecord> {
    VECTORS.iter().map(|vector| outer(vector.payload)).collect()
}
