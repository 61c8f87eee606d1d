//! Shard iterators. Rule: an iterator is a place between records, so that what it returns next does not depend on why it was
//! asked for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Kinesis;
use super::error::{Code, Error, Result};
use super::sequence::Sequence;
use super::shard::Shard;
use super::token::{Opened, Seal};

const TOKEN_KIND: u8 = 1;

/// Where to start reading a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartingPosition {
    /// At the record with this number, or the first one above it.
    AtSequenceNumber(String),
    /// Behind the record with this number.
    AfterSequenceNumber(String),
    /// At the oldest record there is.
    TrimHorizon,
    /// Behind the newest record.
    Latest,
    /// At the first record that arrived at or after this time, epoch milliseconds.
    AtTimestamp(i64),
}

/// A place in a shard, good for a while; [`fmt::Display`] and [`FromStr`] are its opaque form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIterator {
    pub(super) stream: Arc<str>,
    pub(super) stream_id: i64,
    pub(super) shard: u32,
    pub(super) from: Sequence,
    pub(super) issued: i64,
}

impl ShardIterator {
    /// Name of the stream it reads.
    #[must_use]
    pub fn stream_name(&self) -> &str {
        &self.stream
    }

    /// Id of the shard it reads.
    #[must_use]
    pub fn shard_id(&self) -> String {
        super::shard::shard_id(self.shard)
    }
}

impl fmt::Display for ShardIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seal = Seal::new(TOKEN_KIND)
            .text(&self.stream)
            .number(self.stream_id)
            .number(i64::from(self.shard));
        f.write_str(
            &seal
                .bytes(&self.from.to_bytes())
                .number(self.issued)
                .close(),
        )
    }
}

impl FromStr for ShardIterator {
    type Err = Error;

    fn from_str(token: &str) -> Result<Self> {
        let read = || {
            let mut open = Opened::new(TOKEN_KIND, token)?;
            let (stream, stream_id) = (open.text()?.into(), open.number()?);
            let shard = u32::try_from(open.number()?).ok()?;
            Some(Self {
                stream,
                stream_id,
                shard,
                from: Sequence::from_bytes(open.bytes()?),
                issued: open.number()?,
            })
        };
        read().ok_or_else(|| Error::invalid("Invalid ShardIterator."))
    }
}

impl Kinesis {
    /// GetShardIterator.
    ///
    /// # Errors
    /// `ResourceNotFound`; `InvalidArgument` for a sequence number that is none or of another shard, or a time in the future;
    /// `ProvisionedThroughputExceeded` (if enforced).
    pub fn get_shard_iterator(
        &mut self,
        stream: &str,
        shard: &str,
        position: &StartingPosition,
        now: i64,
    ) -> Result<ShardIterator> {
        let (stream, options) = self.live_stream(stream, now)?;
        let (name, stream_id) = (Arc::clone(&stream.name), stream.id);
        let found = stream.shard(shard, &options.account, now)?;
        if options.enforce_throughput {
            if found.quotas.iterator_calls.room(now) == 0 {
                return Err(rate_exceeded(found, &name, &options.account));
            }
            found.quotas.iterator_calls.charge(1, now);
        }
        let from = resolve(
            found,
            position,
            "GetShardIterator",
            &name,
            &options.account,
            now,
        )?;
        Ok(ShardIterator {
            stream: name,
            stream_id,
            shard: found.origin.shard,
            from,
            issued: now,
        })
    }
}

/// The place a starting position means. `call` is the operation that the message names.
pub(crate) fn resolve(
    shard: &Shard,
    position: &StartingPosition,
    call: &str,
    stream: &str,
    account: &str,
    now: i64,
) -> Result<Sequence> {
    let own = |text: &str| {
        let sequence = Sequence::parse(text).map_err(|_| Error::invalid(format!("StartingSequenceNumber {text} used in {call} on shard {} is not a sequence number.", shard.id())))?;
        if sequence.origin() == shard.origin && shard.has_reached(sequence) {
            return Ok(sequence);
        }
        Err(Error::invalid(format!(
            "StartingSequenceNumber {text} used in {call} on shard {} in stream {stream} under account {account} is invalid because it did not come from this stream or shard.",
            shard.id()
        )))
    };
    match position {
        StartingPosition::AtSequenceNumber(text) => own(text),
        StartingPosition::AfterSequenceNumber(text) => own(text).map(Sequence::successor),
        StartingPosition::TrimHorizon => Ok(shard.origin.start()),
        StartingPosition::Latest => Ok(shard.tip(now)),
        StartingPosition::AtTimestamp(at) if *at > now => Err(Error::invalid(format!(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. timestampInMillis: {at}, currentTimestampInMillis: {now}"
        ))),
        StartingPosition::AtTimestamp(at) => Ok(shard.at_timestamp(*at, now)),
    }
}

pub(crate) fn rate_exceeded(shard: &Shard, stream: &str, account: &str) -> Error {
    Error::new(
        Code::ProvisionedThroughputExceeded,
        format!(
            "Rate exceeded for shard {} in stream {stream} under account {account}.",
            shard.id()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SHARD_0, T0, payloads, put, read, with_stream};
    use super::super::{ModelOptions, PutEntry};
    use super::StartingPosition::{
        AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
    };
    use super::*;

    #[test]
    fn each_position_starts_where_it_says() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let numbers: Vec<String> = (0..4)
            .map(|i| put(&mut kinesis, &i.to_string(), T0 + 100 * i))
            .collect();
        let start = kinesis
            .describe_stream("s", None, 1, T0)
            .expect("described")
            .shards[0]
            .starting_sequence
            .to_string();
        let now = T0 + 1000;
        let cases: [(StartingPosition, &[&str]); 12] = [
            (TrimHorizon, &["0", "1", "2", "3"]),
            (Latest, &[]),
            (AtSequenceNumber(numbers[1].clone()), &["1", "2", "3"]),
            (AfterSequenceNumber(numbers[1].clone()), &["2", "3"]),
            (AfterSequenceNumber(numbers[3].clone()), &[]),
            (AtSequenceNumber(start.clone()), &["0", "1", "2", "3"]),
            (AfterSequenceNumber(start), &["0", "1", "2", "3"]),
            (AtTimestamp(0), &["0", "1", "2", "3"]),
            (AtTimestamp(T0 + 100), &["1", "2", "3"]),
            (AtTimestamp(T0 + 101), &["2", "3"]),
            (AtTimestamp(T0 + 301), &[]),
            (AtTimestamp(now), &[]),
        ];
        for (position, expect) in cases {
            let mut kinesis = with_stream(1, ModelOptions::default());
            (0..4).for_each(|i| drop(put(&mut kinesis, &i.to_string(), T0 + 100 * i)));
            let page = read(&mut kinesis, SHARD_0, &position, now).expect("read");
            assert_eq!(payloads(&page.records), expect, "{position:?}");
            // Whatever the position, what comes next is what is put next.
            put(&mut kinesis, "new", now);
            let next = kinesis
                .get_records(&page.next.expect("open shard"), None, now)
                .expect("read");
            assert_eq!(payloads(&next.records), ["new"], "after {position:?}");
        }
    }

    #[test]
    fn positions_of_others_are_refused() {
        let mut kinesis = with_stream(2, ModelOptions::default());
        let own = put(&mut kinesis, "x", T0);
        let other = kinesis
            .put_record("s", &PutEntry::new("k", "x").at(u128::MAX), T0)
            .expect("put")
            .sequence_number
            .to_string();
        let mut longer = with_stream(2, ModelOptions::default());
        let unreached = (0..2)
            .map(|_| put(&mut longer, "x", T0))
            .last()
            .expect("two");
        let cases = [
            (SHARD_0, AtSequenceNumber(own), Ok(())),
            (
                SHARD_0,
                AtSequenceNumber(other.clone()),
                Err(Code::InvalidArgument),
            ),
            (
                SHARD_0,
                AfterSequenceNumber(other),
                Err(Code::InvalidArgument),
            ),
            (
                SHARD_0,
                AfterSequenceNumber(unreached),
                Err(Code::InvalidArgument),
            ),
            (
                SHARD_0,
                AtSequenceNumber("12345".into()),
                Err(Code::InvalidArgument),
            ),
            (
                SHARD_0,
                AtSequenceNumber("TRIM_HORIZON".into()),
                Err(Code::InvalidArgument),
            ),
            (SHARD_0, AtTimestamp(T0 + 1), Err(Code::InvalidArgument)),
            (
                "shardId-000000000099",
                TrimHorizon,
                Err(Code::ResourceNotFound),
            ),
            ("nonsense", TrimHorizon, Err(Code::ResourceNotFound)),
        ];
        for (shard, position, expect) in cases {
            let got = kinesis
                .get_shard_iterator("s", shard, &position, T0)
                .map(drop)
                .map_err(|e| e.code);
            assert_eq!(got, expect, "{shard} {position:?}");
        }
    }
}
