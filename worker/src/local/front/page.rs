//! Answers that hold records: the parts around them are written here, the records come encoded.

use super::cbor;
use super::ops::hash_key_range;
use super::value::Value;
use crate::local::model::{ChildShard, GetRecords, Record, SubscribeEvent};

/// JSON around one record: member names, digits, quotes, and the four thirds of base64.
fn json_size(record: &Record) -> usize {
    record.cbor().len() / 3 * 4 + 128
}

/// GetRecords in JSON.
pub(crate) fn json_page(page: &GetRecords) -> Vec<u8> {
    let next = page
        .next
        .as_ref()
        .map(|iterator| ("NextShardIterator", iterator.to_string()));
    json(
        &page.records,
        next,
        page.millis_behind_latest,
        &page.child_shards,
    )
}

/// An event of SubscribeToShard, in JSON.
pub(crate) fn json_event(event: &SubscribeEvent) -> Vec<u8> {
    let continuation = event
        .continuation
        .map(|sequence| ("ContinuationSequenceNumber", sequence.to_string()));
    json(
        &event.records,
        continuation,
        event.millis_behind_latest,
        &event.child_shards,
    )
}

fn json(
    records: &[Record],
    place: Option<(&'static str, String)>,
    behind: i64,
    children: &[ChildShard],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512 + records.iter().map(json_size).sum::<usize>());
    around(place, behind, children).write_json(&mut out);
    out.pop(); // the closing brace: one more member follows
    out.extend_from_slice(b",\"Records\":[");
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        record.write_json(&mut out);
    }
    out.extend_from_slice(b"]}");
    out
}

/// GetRecords in CBOR.
pub(crate) fn cbor_page(page: &GetRecords) -> Vec<u8> {
    let next = page
        .next
        .as_ref()
        .map(|iterator| ("NextShardIterator", iterator.to_string()));
    let around = around(next, page.millis_behind_latest, &page.child_shards);
    let Value::Map(members) = &around else {
        return Vec::new();
    };
    let mut out =
        Vec::with_capacity(512 + page.records.iter().map(|r| r.cbor().len()).sum::<usize>());
    cbor::write_head(&mut out, 5, members.len() as u64 + 1);
    for (name, value) in members {
        cbor::write_text(&mut out, name);
        cbor::write(value, &mut out);
    }
    cbor::write_text(&mut out, "Records");
    cbor::write_head(&mut out, 4, page.records.len() as u64);
    for record in &page.records {
        out.extend_from_slice(record.cbor());
    }
    out
}

/// The members beside the records; never none of them.
fn around(
    place: Option<(&'static str, String)>,
    behind: i64,
    children: &[ChildShard],
) -> Value<'static> {
    let around = Value::map([("MillisBehindLatest", behind.into())]);
    let around = match place {
        Some((name, place)) => around.with(name, Some(place)),
        None => around,
    };
    around.with(
        "ChildShards",
        (!children.is_empty()).then(|| Value::list(children.iter().map(child))),
    )
}

fn child(shard: &ChildShard) -> Value<'static> {
    Value::map([
        ("ShardId", shard.shard_id.clone().into()),
        ("ParentShards", Value::list(shard.parents.iter().cloned())),
        (
            "HashKeyRange",
            hash_key_range(shard.starting_hash_key, shard.ending_hash_key),
        ),
    ])
}
