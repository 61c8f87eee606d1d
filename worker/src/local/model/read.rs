//! GetShardIterator and GetRecords. Rule: an iterator is a place between records, so that what it returns next does not
//! depend on why it was asked for. The answer that reaches the end of a closed shard names the children and no next iterator.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::error::{Code, Error, Result};
use super::record::Record;
use super::sequence::Sequence;
use super::shard::{ChildShard, Shard};
use super::stream::Stream;
use super::token::{Opened, Seal};
use super::{Kinesis, ModelOptions};

const TOKEN_KIND: u8 = 1;
/// Records in one GetRecords answer at most.
pub(crate) const MAX_RECORDS: usize = 10_000;

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
    stream: Arc<str>,
    stream_id: i64,
    shard: u32,
    from: Sequence,
    issued: i64,
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

/// The answer of GetRecords.
#[derive(Debug, Clone)]
pub struct GetRecords {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Where to go on; `None` at the end of a closed shard.
    pub next: Option<ShardIterator>,
    /// How long ago the last record of the answer arrived, while more remain; 0 if none does.
    pub millis_behind_latest: i64,
    /// At the end of a closed shard: its children.
    pub child_shards: Vec<ChildShard>,
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

    /// GetRecords; `limit` defaults to 10,000, the most allowed.
    ///
    /// # Errors
    /// `ExpiredIterator`, `ResourceNotFound` (stream or shard is gone), `Validation` (limit), `ProvisionedThroughputExceeded` (if enforced).
    pub fn get_records(
        &mut self,
        iterator: &ShardIterator,
        limit: Option<usize>,
        now: i64,
    ) -> Result<GetRecords> {
        let limit = limit.unwrap_or(MAX_RECORDS);
        if limit == 0 || limit > MAX_RECORDS {
            return Err(Error::constraint(
                limit,
                "limit",
                &format!("Member must have value between 1 and {MAX_RECORDS}"),
            ));
        }
        let ttl = self.options.iterator_ttl_ms;
        if now - iterator.issued > ttl {
            return Err(Error::new(
                Code::ExpiredIterator,
                format!(
                    "Iterator expired. The iterator was created at time {} while right now it is {now} which is further in the future than the \
                     tolerated delay of {ttl} milliseconds.",
                    iterator.issued
                ),
            ));
        }
        let (stream, options) = self.live_stream(&iterator.stream, now)?;
        if stream.id != iterator.stream_id {
            return Err(Error::not_found(format!(
                "The stream {} that the iterator belongs to was deleted.",
                iterator.stream
            )));
        }
        read_page(stream, options, iterator, limit, now)
    }
}

fn read_page(
    stream: &mut Stream,
    options: &ModelOptions,
    iterator: &ShardIterator,
    limit: usize,
    now: i64,
) -> Result<GetRecords> {
    let shard = stream.shard(&iterator.shard_id(), &options.account, now)?;
    if options.enforce_throughput {
        let quotas = &mut shard.quotas;
        if quotas.read_calls.room(now) == 0 || quotas.read_bytes.room(now) == 0 {
            return Err(rate_exceeded(shard, &iterator.stream, &options.account));
        }
        quotas.read_calls.charge(1, now);
    }
    shard.reads += 1;
    let empty =
        options.empty_page_every > 0 && shard.reads.is_multiple_of(options.empty_page_every);
    let (records, rest) = shard.read(
        iterator.from,
        if empty { 0 } else { limit },
        options.page_bytes,
    );
    let behind = millis_behind(&records, rest, now);
    let at_end = rest.is_none() && !shard.is_open();
    if options.enforce_throughput {
        shard
            .quotas
            .read_bytes
            .charge(records.iter().map(Record::size).sum(), now);
    }
    let from = records
        .last()
        .map_or(iterator.from, |last| last.sequence_number().successor());
    Ok(GetRecords {
        records,
        next: (!at_end).then(|| ShardIterator {
            from,
            issued: now,
            ..iterator.clone()
        }),
        millis_behind_latest: behind,
        child_shards: if at_end {
            children_of(stream, iterator.shard)
        } else {
            Vec::new()
        },
    })
}

/// 0 when nothing remains, else at least 1: 0 means "caught up" to a consumer.
pub(crate) fn millis_behind(page: &[Record], rest: Option<&Record>, now: i64) -> i64 {
    rest.map_or(0, |next| {
        (now - page.last().unwrap_or(next).arrival_ms()).max(1)
    })
}

pub(crate) fn children_of(stream: &Stream, shard: u32) -> Vec<ChildShard> {
    let is_child = |s: &&Shard| s.parent == Some(shard) || s.adjacent_parent == Some(shard);
    stream
        .shards
        .iter()
        .filter(is_child)
        .map(Shard::as_child)
        .collect()
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
