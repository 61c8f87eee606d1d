//! The lease row.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use checkpoint::{HashKey, HashRange, Position, PositionError};

use super::{
    CHECKPOINT, CHECKPOINT_OWNER, CHECKPOINT_SUB_SEQUENCE, CHILD_SHARD_IDS, ENDING_HASH_KEY,
    ENTITY_TYPE, HEIR_READY, Item, LEASE, LEASE_COUNTER, LEASE_KEY, LEASE_OWNER, MADE_FOR,
    OWNER_SWITCHES, PARENT_SHARD_ID, PENDING_CHECKPOINT, PENDING_STATE, PENDING_SUB_SEQUENCE,
    PINNED_AT, SESSION, SHARD_ID, STARTING_HASH_KEY, STREAM_NAME, THROUGHPUT, number,
    reader::{Reader, Wrong},
    text, text_set,
};
use crate::{
    id::{LeaseKey, Session, ShardId, StreamId, WorkerId},
    lease::{Lease, Pending},
};

/// Decimals of `throughputKBps`, as the KCL rounds it.
const THROUGHPUT_DECIMALS: usize = 6;
/// KiB/s that no shard reaches; keeps a nonsense measurement within the 38 digits of a DynamoDB number.
const THROUGHPUT_LIMIT: f64 = 1e15;

pub(super) fn read_lease(row: &Reader<'_>) -> Result<Lease, Wrong> {
    let key = LeaseKey::from(Reader::must(LEASE_KEY, row.text(LEASE_KEY))?);
    let (stream, shard) = read_shard(row, &key)?;
    let owner = row.text(LEASE_OWNER)?.map(WorkerId::from);
    let checkpoint_owner = row.text(CHECKPOINT_OWNER)?.map(WorkerId::from);
    // A Java worker that ends a hand-over leaves our mark in the row: it counts only while it fits.
    let heir = row.text(HEIR_READY)?.map(WorkerId::from);
    let heir_ready = heir.is_some() && heir == owner && checkpoint_owner.is_some();
    Ok(Lease {
        stream,
        shard,
        owner,
        checkpoint_owner,
        heir_ready,
        counter: Reader::must(LEASE_COUNTER, row.count(LEASE_COUNTER))?,
        owner_switches: row.count(OWNER_SWITCHES)?.unwrap_or(0),
        checkpoint: Reader::must(
            CHECKPOINT,
            read_position(row, CHECKPOINT, CHECKPOINT_SUB_SEQUENCE),
        )?,
        pending: read_pending(row)?,
        parents: row.text_set(PARENT_SHARD_ID)?,
        children: row.text_set(CHILD_SHARD_IDS)?,
        range: read_range(row)?,
        throughput_kbps: row.number(THROUGHPUT)?,
        pinned: row.number(PINNED_AT)?,
        session: row.text(SESSION)?.map(Session::from),
        made_for: row.text(MADE_FOR)?.map(str::to_owned),
        key,
    })
}

/// Stream and shard: by their attributes, else by the key. Both must tell the same.
fn read_shard(row: &Reader<'_>, key: &LeaseKey) -> Result<(Option<StreamId>, ShardId), Wrong> {
    let (stream, shard) = split_key(key.as_str());
    let stream = row.text(STREAM_NAME)?.or(stream).map(StreamId::from);
    let shard = ShardId::from(row.text(SHARD_ID)?.unwrap_or(shard));
    if LeaseKey::of(stream.as_ref(), &shard) != *key {
        let stream = stream.as_ref().map_or("none", |stream| stream.as_str());
        return Err(Wrong::value(
            LEASE_KEY,
            format!("does not fit stream {stream} and shard {shard}"),
        ));
    }
    Ok((stream, shard))
}

/// `account:stream:epoch:shard id`, or a shard id alone.
fn split_key(key: &str) -> (Option<&str>, &str) {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fields: Vec<&str> = key.splitn(4, ':').collect();
    match fields[..] {
        [account, name, epoch, shard]
            if is_number(account) && !name.is_empty() && is_number(epoch) =>
        {
            (Some(&key[..key.len() - shard.len() - 1]), shard)
        }
        _ => (None, key),
    }
}

fn read_position(
    row: &Reader<'_>,
    name: &'static str,
    sub_sequence_name: &'static str,
) -> Result<Option<Position>, Wrong> {
    let Some(word) = row.text(name)? else {
        return Ok(None);
    };
    match Position::from_kcl(word, row.number(sub_sequence_name)?) {
        Ok(position) => Ok(Some(position)),
        Err(error @ PositionError::SubSequence(_)) => Err(Wrong::value(sub_sequence_name, error)),
        Err(error @ PositionError::Checkpoint { .. }) => Err(Wrong::value(name, error)),
    }
}

fn read_pending(row: &Reader<'_>) -> Result<Option<Pending>, Wrong> {
    let Some(position) = read_position(row, PENDING_CHECKPOINT, PENDING_SUB_SEQUENCE)? else {
        return Ok(None);
    };
    Ok(Some(Pending {
        position,
        state: row.bytes(PENDING_STATE)?.map(<[u8]>::to_vec),
    }))
}

/// Both ends or none: rows of old KCL versions have none, and one alone tells nothing.
fn read_range(row: &Reader<'_>) -> Result<Option<HashRange>, Wrong> {
    let end_of = |name| -> Result<Option<HashKey>, Wrong> {
        row.text(name)?
            .map(|digits| digits.parse().map_err(|error| Wrong::value(name, error)))
            .transpose()
    };
    let (Some(start), Some(end)) = (end_of(STARTING_HASH_KEY)?, end_of(ENDING_HASH_KEY)?) else {
        return Ok(None);
    };
    if start > end {
        return Err(Wrong::value(
            STARTING_HASH_KEY,
            format!("{start} is above {ENDING_HASH_KEY} {end}"),
        ));
    }
    Ok(Some(HashRange { start, end }))
}

/// The whole row of a new lease.
pub(in crate::dynamodb) fn lease_item(lease: &Lease) -> Item {
    let mut item = Item::new();
    let mut put = |name: &str, value| {
        item.insert(name.to_owned(), value);
    };
    put(LEASE_KEY, text(lease.key.as_str()));
    put(ENTITY_TYPE, text(LEASE));
    put(LEASE_COUNTER, number(lease.counter));
    put(OWNER_SWITCHES, number(lease.owner_switches));
    for (name, value) in checkpoint_values(&lease.checkpoint) {
        put(name, value);
    }
    if let Some(stream) = &lease.stream {
        put(STREAM_NAME, text(stream.as_str()));
        put(SHARD_ID, text(lease.shard.as_str()));
    }
    if let Some(pending) = &lease.pending {
        put(PENDING_CHECKPOINT, text(pending.position.checkpoint()));
        put(
            PENDING_SUB_SEQUENCE,
            number(pending.position.sub_sequence()),
        );
        if let Some(state) = &pending.state {
            put(PENDING_STATE, AttributeValue::B(Blob::new(state.clone())));
        }
    }
    for (name, shards) in [
        (PARENT_SHARD_ID, &lease.parents),
        (CHILD_SHARD_IDS, &lease.children),
    ] {
        if !shards.is_empty() {
            put(name, text_set(shards));
        }
    }
    if let Some(range) = &lease.range {
        put(STARTING_HASH_KEY, text(range.start.to_string()));
        put(ENDING_HASH_KEY, text(range.end.to_string()));
    }
    if let Some(throughput) = lease.throughput_kbps.and_then(throughput_value) {
        put(THROUGHPUT, throughput);
    }
    if let Some(pinned) = lease.pinned {
        put(PINNED_AT, number(pinned));
    }
    let heir = lease.owner.as_ref().filter(|_| lease.heir_ready);
    for (name, value) in [
        (LEASE_OWNER, lease.owner.as_ref().map(WorkerId::as_str)),
        (
            CHECKPOINT_OWNER,
            lease.checkpoint_owner.as_ref().map(WorkerId::as_str),
        ),
        (SESSION, lease.session.as_ref().map(Session::as_str)),
        (HEIR_READY, heir.map(WorkerId::as_str)),
        (MADE_FOR, lease.made_for.as_deref()),
    ] {
        if let Some(value) = value {
            put(name, text(value));
        }
    }
    item
}

/// The two attributes of a checkpoint.
pub(in crate::dynamodb) fn checkpoint_values(
    position: &Position,
) -> [(&'static str, AttributeValue); 2] {
    [
        (CHECKPOINT, text(position.checkpoint())),
        (CHECKPOINT_SUB_SEQUENCE, number(position.sub_sequence())),
    ]
}

/// A throughput in KiB/s, plain decimal. `None`: it is no number, and a renewal must not fail for it.
pub(in crate::dynamodb) fn throughput_value(kbps: f64) -> Option<AttributeValue> {
    if !kbps.is_finite() {
        return None;
    }
    let kbps = kbps.clamp(0.0, THROUGHPUT_LIMIT);
    Some(number(format!("{kbps:.THROUGHPUT_DECIMALS$}")))
}
