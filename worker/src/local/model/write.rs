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
mod tests {
    use super::super::testing::{SHARD_0, T0, put, with_stream};
    use super::*;

    fn code(kinesis: &mut Kinesis, entry: &PutEntry) -> std::result::Result<String, Code> {
        kinesis
            .put_record("s", entry, T0)
            .map(|p| p.shard_id)
            .map_err(|e| e.code)
    }

    #[test]
    fn records_go_where_their_hash_key_leads() {
        let mut kinesis = with_stream(2, ModelOptions::default());
        let by_key = |key: &str| PutEntry::new(key, "x");
        let at = |text: &str| PutEntry {
            explicit_hash_key: Some(text.to_owned()),
            ..by_key("k")
        };
        // MD5("a") begins with 0c, MD5("b") with 92.
        let cases = [
            (by_key("a"), Ok(0)),
            (by_key("b"), Ok(1)),
            (at("0"), Ok(0)),
            (at("170141183460469231731687303715884105727"), Ok(0)),
            (at("170141183460469231731687303715884105728"), Ok(1)),
            (at("340282366920938463463374607431768211455"), Ok(1)),
            (
                at("340282366920938463463374607431768211456"),
                Err(Code::InvalidArgument),
            ),
            (at("00"), Err(Code::InvalidArgument)),
            (at("-1"), Err(Code::InvalidArgument)),
            (at("+1"), Err(Code::InvalidArgument)),
            (at(""), Err(Code::InvalidArgument)),
        ];
        for (entry, expect) in cases {
            assert_eq!(
                code(&mut kinesis, &entry),
                expect.map(shard_id),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn sizes_are_limited() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let sized = |key: usize, data: usize| PutEntry::new("ы".repeat(key), vec![0; data]);
        let mib = 1 << 20;
        let cases = [
            (sized(0, 1), Err(Code::Validation)),
            (sized(256, 1), Ok(SHARD_0.to_owned())),
            (sized(257, 1), Err(Code::Validation)),
            (sized(1, mib - 2), Ok(SHARD_0.to_owned())),
            (sized(1, mib - 1), Err(Code::Validation)),
        ];
        for (entry, expect) in cases {
            assert_eq!(
                code(&mut kinesis, &entry),
                expect,
                "{} characters, {} bytes",
                entry.partition_key.len(),
                entry.data.len()
            );
        }
        kinesis
            .update_max_record_size("s", 2048, T0)
            .expect("updated");
        assert_eq!(
            code(&mut kinesis, &sized(1, mib - 1)),
            Ok(SHARD_0.to_owned())
        );

        let call = |k: &mut Kinesis, n: usize, size: usize| {
            k.put_records("s", &vec![sized(1, size); n], T0)
                .map(|r| r.len())
                .map_err(|e| e.code)
        };
        assert_eq!(call(&mut kinesis, 0, 1), Err(Code::Validation));
        assert_eq!(call(&mut kinesis, 500, 1), Ok(500));
        assert_eq!(call(&mut kinesis, 501, 1), Err(Code::Validation));
        assert_eq!(call(&mut kinesis, 10, mib - 2), Ok(10));
        assert_eq!(call(&mut kinesis, 11, mib - 2), Err(Code::InvalidArgument));
    }

    #[test]
    fn numbers_rise_in_the_order_of_the_call() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let first = put(&mut kinesis, "x", T0 + 5_000);
        // The clock of the host may step back; numbers and arrival times do not.
        let results = kinesis
            .put_records("s", &vec![PutEntry::new("k", "x"); 3], T0)
            .expect("put");
        let mut numbers = vec![first];
        numbers.extend(
            results
                .into_iter()
                .map(|r| r.expect("placed").sequence_number.to_string()),
        );
        assert!(
            numbers.is_sorted() && numbers.iter().all(|n| n.len() == 56),
            "{numbers:?}"
        );
    }

    #[test]
    fn streams_not_there_take_nothing() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                create_ms: 5,
                ..ModelOptions::default()
            },
        );
        assert_eq!(
            code(&mut kinesis, &PutEntry::new("k", "x")),
            Err(Code::ResourceNotFound),
            "still CREATING"
        );
        assert_eq!(
            kinesis
                .put_record("x", &PutEntry::new("k", "x"), T0 + 5)
                .map_err(|e| e.code),
            Err(Code::ResourceNotFound)
        );
    }

    #[test]
    fn a_shard_over_its_rate_refuses_single_records() {
        let mut kinesis = with_stream(
            2,
            ModelOptions {
                enforce_throughput: true,
                ..ModelOptions::default()
            },
        );
        let half = PutEntry::new("k", vec![0; 600_000]).at(0);
        let other = PutEntry::new("k", "x").at(u128::MAX);
        let results = kinesis
            .put_records("s", &[half.clone(), half.clone(), other, half.clone()], T0)
            .expect("accepted");
        let refused: Vec<bool> = results
            .iter()
            .map(|r| {
                r.as_ref()
                    .is_err_and(|e| e.code == Code::ProvisionedThroughputExceeded)
            })
            .collect();
        assert_eq!(refused, [false, true, false, true]);
        assert_eq!(
            kinesis.put_record("s", &half, T0 + 999).map_err(|e| e.code),
            Err(Code::ProvisionedThroughputExceeded)
        );
        assert!(kinesis.put_record("s", &half, T0 + 1000).is_ok());
        for call in 0..2 {
            let small = vec![PutEntry::new("k", "x").at(u128::MAX); 500];
            let results = kinesis
                .put_records("s", &small, T0 + 3000)
                .expect("accepted");
            assert_eq!(
                results.iter().filter(|r| r.is_err()).count(),
                0,
                "call {call}"
            );
        }
        let one_more = PutEntry::new("k", "x").at(u128::MAX);
        assert_eq!(
            kinesis
                .put_record("s", &one_more, T0 + 3001)
                .map_err(|e| e.code),
            Err(Code::ProvisionedThroughputExceeded)
        );
    }
}
