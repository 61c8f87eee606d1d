//! What must hold whatever comes in: the bodies of the targets in `tests/fuzz`, and of their bounded runs in `tests/tests/fuzz.rs`.
//!
//! Each takes bytes and panics if a property is broken. Bytes are read as instructions, front to back, and as zeros when
//! they run out, so that a small change of them is a small change of what is tried.

use std::collections::HashMap;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use bytes::Bytes;
use checkpoint::{
    Aggregator, Deaggregator, HashKey, HashRange, HashRangePolicy, KinesisRecord, PutRecord,
    UserRecord, deaggregate, deaggregate_range,
};
use md5::{Digest, Md5};
use shardkeeper::config::Config;

/// Bytes as instructions.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % end.max(1)
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = usize::from(self.byte()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }
}

fn record(payload: Bytes) -> KinesisRecord {
    KinesisRecord::new(
        "49590338271490256608559692538361571095921575989136588898"
            .parse()
            .expect("digits"),
        "a",
        payload,
    )
}

/// A payload: the bytes as they are, or as the body of an aggregate whose frame is right, or an aggregate that the encoder
/// made, damaged and perhaps framed anew.
pub fn payload(data: &[u8]) -> Bytes {
    let mut script = Script(data);
    let body = match script.byte() % 4 {
        0 => return Bytes::copy_from_slice(script.0),
        1 => script.0.to_vec(),
        kind => {
            let mut made = made(&mut script);
            damage(&mut made, &mut script);
            if kind == 2 || made.len() < 20 {
                return made.into();
            }
            made[4..made.len() - 16].to_vec()
        }
    };
    let mut framed = vec![0xF3, 0x89, 0x9A, 0xC2];
    framed.extend(&body);
    framed.extend(Md5::digest(&body));
    framed.into()
}

fn made(script: &mut Script<'_>) -> Vec<u8> {
    let mut aggregator = Aggregator::new(1 << 20);
    for _ in 0..=script.byte() % 12 {
        let explicit = script.byte();
        let put = PutRecord {
            partition_key: script.text(8),
            explicit_hash_key: explicit
                .is_multiple_of(3)
                .then_some(HashKey(u128::from(explicit) << 120)),
            data: script.bytes(40).to_vec().into(),
        };
        // A record without a key is refused; then there is one less.
        let _ = aggregator.add(put);
    }
    aggregator
        .finish()
        .map_or_else(Vec::new, |made| made.data.to_vec())
}

fn damage(bytes: &mut Vec<u8>, script: &mut Script<'_>) {
    for _ in 0..script.byte() % 6 {
        let at = script.below(bytes.len() + 1);
        let end = (at + usize::from(script.byte() % 8)).min(bytes.len());
        bytes.splice(at..end, script.bytes(8).iter().copied());
    }
}

/// The decoder never panics, gives out nothing that is not in its input, and no more items than can be in it.
pub fn aggregate(data: &[u8]) {
    let payload = payload(data);
    let mut script = Script(data.get(data.len() / 2..).unwrap_or_default());
    let (a, b) = (script.byte(), script.byte());
    let range = HashRange {
        start: HashKey(u128::from(a.min(b)) << 120),
        end: HashKey(u128::from(a.max(b)) << 120 | u128::MAX >> 8),
    };
    let run = |policy| {
        let mut seen = Vec::new();
        let counts = Deaggregator::new(range, policy)
            .push(record(payload.clone()), &mut |one| seen.push(one));
        assert_eq!(counts.user_records, seen.len() as u64, "{counts:?}");
        let somehow =
            counts.user_records + counts.out_of_range + counts.poisoned + counts.empty_aggregates;
        assert!(somehow > 0, "a record is not accounted for: {counts:?}");
        seen
    };
    // Without a policy no hash key is looked at, so none can be wrong: whatever else comes out is among this.
    let all = run(HashRangePolicy::Off);
    let others = [
        deaggregate([record(payload.clone())]),
        deaggregate_range([record(payload.clone())], range.start, range.end),
        run(HashRangePolicy::DropRecord),
        run(HashRangePolicy::StrictKcl),
    ];
    is_within(&all, &payload);
    for some in others {
        let mut all = all.iter();
        let in_order = some.iter().all(|one| all.any(|other| other == one));
        assert!(in_order, "a policy adds or changes a record: {some:?}");
        is_within(&some, &payload);
    }
}

fn is_within(records: &[UserRecord], payload: &Bytes) {
    let whole = payload.as_ptr_range();
    for (number, one) in records.iter().enumerate() {
        let part = one.data.as_ptr_range();
        let inside = whole.start <= part.start && part.end <= whole.end;
        assert!(one.data.is_empty() || inside, "item {number} is a copy");
        assert!(
            number == 0 || records[number - 1].sub_sequence < one.sub_sequence,
            "items are in order"
        );
    }
    // An item is a tag, a length, and a partition key index of two bytes at least.
    let most = (payload.len() / 4).max(1);
    assert!(
        records.len() <= most,
        "{} items in {} bytes",
        records.len(),
        payload.len()
    );
}

/// An attribute map: a row of the KCL's with some attributes gone, changed or added.
pub fn item(data: &[u8]) -> HashMap<String, AttributeValue> {
    const NAMES: [&str; 20] = [
        "leaseKey",
        "entityType",
        "leaseCounter",
        "leaseOwner",
        "checkpointOwner",
        "ownerSwitchesSinceCheckpoint",
        "checkpoint",
        "checkpointSubSequenceNumber",
        "pendingCheckpoint",
        "pendingCheckpointSubSequenceNumber",
        "pendingCheckpointState",
        "childShardIds",
        "parentShardId",
        "throughputKBps",
        "startingHashKey",
        "endingHashKey",
        "streamName",
        "skPinnedAt",
        "skSession",
        "skHeirReady",
    ];
    let mut script = Script(data);
    let mut item: HashMap<String, AttributeValue> = HashMap::new();
    if script.byte() % 8 != 0 {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |text: &str| AttributeValue::N(text.to_owned());
        item.extend([
            ("leaseKey".to_owned(), text("shardId-000000000001")),
            ("entityType".to_owned(), text("LEASE")),
            ("leaseCounter".to_owned(), number("12")),
            ("leaseOwner".to_owned(), text("a")),
            ("checkpoint".to_owned(), text("4959033827149")),
            ("checkpointSubSequenceNumber".to_owned(), number("3")),
            ("ownerSwitchesSinceCheckpoint".to_owned(), number("0")),
            ("startingHashKey".to_owned(), text("0")),
            (
                "endingHashKey".to_owned(),
                text("340282366920938463463374607431768211455"),
            ),
        ]);
    }
    for _ in 0..script.byte() % 8 {
        let name = match script.byte() {
            other @ 250.. => format!("other{other}"),
            known => NAMES[usize::from(known) % NAMES.len()].to_owned(),
        };
        match value(&mut script) {
            Some(value) => item.insert(name, value),
            None => item.remove(&name),
        };
    }
    item
}

fn value(script: &mut Script<'_>) -> Option<AttributeValue> {
    const WORDS: [&str; 12] = [
        "",
        "LEASE",
        "LEADER",
        "WORKER_METRIC_STATS",
        "TRIM_HORIZON",
        "LATEST",
        "SHARD_END",
        "AT_TIMESTAMP",
        "a",
        "123456789012:orders:1:shardId-000000000001",
        "00420",
        "Leader",
    ];
    const NUMBERS: [&str; 10] = [
        "0",
        "-1",
        "1.5",
        "1E+3",
        "9223372036854775808",
        "18446744073709551616",
        "1e-130",
        "NaN",
        "",
        "42",
    ];
    let word = |script: &mut Script<'_>| WORDS[script.below(WORDS.len())].to_owned();
    Some(match script.byte() % 10 {
        0 => return None,
        1 | 2 => AttributeValue::S(word(script)),
        3 => AttributeValue::S(script.text(24)),
        4 => AttributeValue::N(NUMBERS[script.below(NUMBERS.len())].to_owned()),
        5 => AttributeValue::N(script.text(12)),
        6 => AttributeValue::Ss(vec![word(script), script.text(8)]),
        7 => AttributeValue::B(Blob::new(script.bytes(8))),
        8 => AttributeValue::Null(true),
        _ => AttributeValue::Bool(script.byte().is_multiple_of(2)),
    })
}

/// A row is read, or refused with a reason and by its key; what was read is written as it was read, and what is not known
/// changes nothing.
pub fn lease_row(data: &[u8]) {
    let item = item(data);
    let read = lease::dynamodb::read_item(&item);
    match &read {
        Ok(None) => {}
        Ok(Some(lease)) => {
            let written = lease::dynamodb::write_item(lease);
            let mut again = lease::dynamodb::read_item(&written)
                .expect("what is written can be read")
                .expect("and is a lease");
            // The KCL rounds it to six decimals.
            again.throughput_kbps = lease.throughput_kbps;
            let (again, lease) = (format!("{again:?}"), format!("{lease:?}"));
            assert_eq!(again, lease, "written as {written:?}");
        }
        Err(unreadable) => {
            assert!(!unreadable.reason.is_empty());
            if let Some(AttributeValue::S(key)) = item.get("leaseKey") {
                assert_eq!(unreadable.key, *key);
            }
        }
    }
    let mut more = item.clone();
    more.insert("other".to_owned(), AttributeValue::Null(true));
    let more = lease::dynamodb::read_item(&more);
    // As texts: a number that is none is equal to nothing.
    let (more, read) = (format!("{more:?}"), format!("{read:?}"));
    assert_eq!(more, read, "an unknown attribute is read");
}

/// A file is read, or refused with a line for each reason.
pub fn config(data: &[u8]) {
    let mut script = Script(data);
    let sets: Vec<String> = (0..script.byte() % 3).map(|_| script.text(24)).collect();
    let text = String::from_utf8_lossy(script.0);
    match Config::parse(&text, "worker.toml", std::iter::empty(), &sets) {
        Ok(config) => assert!(!config.streams.is_empty(), "a worker without a stream"),
        Err(errors) => {
            assert!(errors.iter().count() > 0, "refused without a reason");
            assert_eq!(
                errors.to_string().lines().count(),
                errors.iter().count(),
                "{errors}"
            );
        }
    }
}
