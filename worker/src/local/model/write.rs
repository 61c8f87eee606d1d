//! PutRecord and PutRecords. Rule: a record goes to the open shard whose range holds its hash key (the explicit one, else MD5 of
//! the partition key). A call that breaks a limit of the API is refused whole; a shard over its rate refuses single records.

use bytes::Bytes;
use md5::{Digest as _, Md5};

use super::error::{Code, Error, Result};
use super::record::Encoder;
use super::sequence::Sequence;
use super::shard::{MAX_HASH_KEY, Shard, shard_id};
use super::stream::Stream;
use super::{Kinesis, ModelOptions};

/// Records one PutRecords call may hold.
const MAX_RECORDS: usize = 500;
/// Payload and key bytes one PutRecords call may hold.
const MAX_CALL_BYTES: u64 = 10 << 20;
/// Characters of a partition key.
const MAX_KEY: usize = 256;

/// A record to put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutEntry {
    /// 1 to 256 characters.
    pub partition_key: String,
    /// Decimal, in place of the MD5 of the partition key.
    pub explicit_hash_key: Option<String>,
    /// The payload.
    pub data: Bytes,
}

impl PutEntry {
    /// A record placed by its partition key.
    pub fn new(partition_key: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self {
            partition_key: partition_key.into(),
            explicit_hash_key: None,
            data: data.into(),
        }
    }

    /// The same record placed by this hash key.
    #[must_use]
    pub fn at(mut self, hash_key: u128) -> Self {
        self.explicit_hash_key = Some(hash_key.to_string());
        self
    }

    fn size(&self) -> u64 {
        (self.partition_key.len() + self.data.len()) as u64
    }
}

/// Where a record was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The shard's id.
    pub shard_id: String,
    /// The record's sequence number in it.
    pub sequence_number: Sequence,
    /// Whether it was stored encrypted.
    pub encrypted: bool,
}

impl Kinesis {
    /// PutRecord.
    ///
    /// # Errors
    /// `ResourceNotFound`, `Validation` (key or size), `InvalidArgument` (hash key), `ProvisionedThroughputExceeded` (if enforced).
    pub fn put_record(&mut self, stream: &str, entry: &PutEntry, now: i64) -> Result<Placed> {
        let (stream, options) = self.live_stream(stream, now)?;
        let hash_key = checked_hash_key(entry, stream.max_record_bytes, None)?;
        let mut placed = place(stream, options, &[(entry, hash_key)], now);
        placed.pop().unwrap_or_else(|| {
            Err(Error::new(
                Code::InternalFailure,
                "no result for the record",
            ))
        })
    }

    /// PutRecords; one result per record, in order.
    ///
    /// # Errors
    /// As a whole: `ResourceNotFound`, `Validation` (number, key or size), `InvalidArgument` (hash key, size of the call).
    /// Per record: `ProvisionedThroughputExceeded` (if enforced).
    pub fn put_records(
        &mut self,
        stream: &str,
        entries: &[PutEntry],
        now: i64,
    ) -> Result<Vec<Result<Placed>>> {
        let (stream, options) = self.live_stream(stream, now)?;
        if entries.is_empty() {
            return Err(Error::constraint(
                "[]",
                "records",
                "Member must have length greater than or equal to 1",
            ));
        }
        if entries.len() > MAX_RECORDS {
            let value = format!("[{} records]", entries.len());
            return Err(Error::constraint(
                value,
                "records",
                &format!("Member must have length less than or equal to {MAX_RECORDS}"),
            ));
        }
        let mut checked = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            checked.push((
                entry,
                checked_hash_key(entry, stream.max_record_bytes, Some(index))?,
            ));
        }
        if entries.iter().map(PutEntry::size).sum::<u64>() > MAX_CALL_BYTES {
            return Err(Error::invalid(format!(
                "Records size exceeds {} MB limit",
                MAX_CALL_BYTES >> 20
            )));
        }
        Ok(place(stream, options, &checked, now))
    }
}

/// The hash key of a valid record; `index` is its place in the call.
fn checked_hash_key(entry: &PutEntry, max_record_bytes: u64, index: Option<usize>) -> Result<u128> {
    let member = |name: &str| {
        index.map_or_else(
            || name.to_owned(),
            |i| format!("records.{}.member.{name}", i + 1),
        )
    };
    let characters = entry.partition_key.chars().count();
    if characters == 0 || characters > MAX_KEY {
        let constraint = format!("Member must have length between 1 and {MAX_KEY}");
        return Err(Error::constraint(
            &entry.partition_key,
            &member("partitionKey"),
            &constraint,
        ));
    }
    if entry.size() > max_record_bytes {
        let value = format!(
            "[{} bytes, {} of them the partition key]",
            entry.size(),
            entry.partition_key.len()
        );
        let constraint =
            format!("Member must have length less than or equal to {max_record_bytes}");
        return Err(Error::constraint(value, &member("data"), &constraint));
    }
    match &entry.explicit_hash_key {
        None => Ok(hash_key(&entry.partition_key)),
        Some(text) => explicit_hash_key("ExplicitHashKey", text),
    }
}

/// Reads a hash key: decimal digits without leading zeros, below 2^128.
pub(crate) fn explicit_hash_key(member: &str, text: &str) -> Result<u128> {
    let decimal = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    let key = text.parse().ok().filter(|_| decimal);
    key.ok_or_else(|| Error::invalid(format!("Invalid {member}. {member} must be in the range: [0, 2^128-1]. Specified value was {text}")))
}

/// MD5 as a big-endian number.
fn hash_key(partition_key: &str) -> u128 {
    u128::from_be_bytes(Md5::digest(partition_key.as_bytes()).into())
}

/// Stores the records in order, each in the shard its hash key leads to.
fn place(
    stream: &mut Stream,
    options: &ModelOptions,
    entries: &[(&PutEntry, u128)],
    now: i64,
) -> Vec<Result<Placed>> {
    let bytes: u64 = entries.iter().map(|(entry, _)| entry.size()).sum();
    let mut encoder = Encoder::with_capacity(entries.len(), usize::try_from(bytes).unwrap_or(0));
    let mut results = Vec::with_capacity(entries.len());
    let encrypted = stream.encryption_key.is_some();
    let trim_before = stream.trim_before(now);
    for (entry, hash_key) in entries {
        let Some(shard) = stream
            .shards
            .iter_mut()
            .find(|s| s.is_open() && s.hash.0 <= *hash_key && *hash_key <= s.hash.1)
        else {
            results.push(Err(Error::new(
                Code::InternalFailure,
                format!("no open shard for hash key {hash_key} of {MAX_HASH_KEY}"),
            )));
            continue;
        };
        if options.enforce_throughput && !within_rate(shard, entry.size(), now) {
            let message = format!(
                "Rate exceeded for shard {} in stream {} under account {}.",
                shard.id(),
                stream.name,
                options.account
            );
            results.push(Err(Error::new(
                Code::ProvisionedThroughputExceeded,
                message,
            )));
            continue;
        }
        shard.trim(trim_before);
        let (sequence_number, arrival) = shard.next_number(now);
        encoder.push(
            sequence_number,
            arrival,
            &entry.partition_key,
            &entry.data,
            encrypted,
        );
        results.push(Ok(Placed {
            shard_id: shard.id(),
            sequence_number,
            encrypted,
        }));
    }
    for record in encoder.finish() {
        let index = record.sequence_number().shard_index() as usize;
        debug_assert!(
            index < stream.shards.len(),
            "{}",
            shard_id(record.sequence_number().shard_index())
        );
        stream.shards[index].append(record);
    }
    results
}

fn within_rate(shard: &mut Shard, size: u64, now: i64) -> bool {
    let quotas = &mut shard.quotas;
    let fits = quotas.write_records.room(now) >= 1 && quotas.write_bytes.room(now) >= size;
    if fits {
        quotas.write_records.charge(1, now);
        quotas.write_bytes.charge(size, now);
    }
    fits
}

#[cfg(test)]
mod tests;
