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

#[cfg(test)]
mod tests {
    use super::super::testing::{SHARD_0, T0, payloads, put, read, with_stream};
    use super::super::{CreateStream, ModelOptions, PutEntry, shard::shard_id};
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

    #[test]
    fn iterators_are_opaque_and_expire() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let iterator = kinesis
            .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
            .expect("iterator");
        assert_eq!(iterator.to_string().parse(), Ok(iterator.clone()));
        assert_eq!(
            "AAAAgarbage".parse::<ShardIterator>().map_err(|e| e.code),
            Err(Code::InvalidArgument)
        );
        let code = |k: &mut Kinesis, limit, at| {
            k.get_records(&iterator, limit, at)
                .map(drop)
                .map_err(|e| e.code)
        };
        assert_eq!(code(&mut kinesis, Some(0), T0), Err(Code::Validation));
        assert_eq!(code(&mut kinesis, Some(10_001), T0), Err(Code::Validation));
        assert_eq!(code(&mut kinesis, Some(10_000), T0 + 300_000), Ok(()));
        assert_eq!(
            code(&mut kinesis, None, T0 + 300_001),
            Err(Code::ExpiredIterator)
        );
        kinesis.delete_stream("s", false, T0).expect("deleted");
        assert_eq!(code(&mut kinesis, None, T0), Err(Code::ResourceNotFound));
        kinesis
            .create_stream(CreateStream::provisioned("s", 1), T0)
            .expect("created");
        assert_eq!(
            code(&mut kinesis, None, T0),
            Err(Code::ResourceNotFound),
            "another stream of the same name"
        );
    }

    #[test]
    fn lag_is_that_of_the_last_record_while_more_remain() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                empty_page_every: 3,
                ..ModelOptions::default()
            },
        );
        (0..3).for_each(|i| drop(put(&mut kinesis, "x", T0 + 100 * i)));
        let mut iterator = kinesis
            .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0 + 200)
            .expect("iterator");
        // The third call is an empty page though a record remains.
        for (now, expect) in [
            (T0 + 1000, (1, 1000)),
            (T0 + 100, (1, 1)),
            (T0 + 1000, (0, 800)),
            (T0 + 1000, (1, 0)),
            (T0 + 2000, (0, 0)),
        ] {
            let page = kinesis.get_records(&iterator, Some(1), now).expect("read");
            assert_eq!((page.records.len(), page.millis_behind_latest), expect);
            iterator = page.next.expect("open shard");
        }
    }

    #[test]
    fn a_closed_shard_ends_with_its_last_record() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        let [_, _, last] = ["a", "b", "c"].map(|data| put(&mut kinesis, data, T0));
        let latest = kinesis
            .get_shard_iterator("s", SHARD_0, &Latest, T0)
            .expect("iterator");
        let first = kinesis
            .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
            .expect("iterator");
        kinesis
            .split_shard("s", SHARD_0, 1 << 127, T0)
            .expect("split");
        let page = kinesis.get_records(&first, Some(2), T0).expect("read");
        assert!(page.child_shards.is_empty(), "a record remains");
        let end = kinesis
            .get_records(&page.next.expect("a record remains"), Some(2), T0)
            .expect("read");
        assert_eq!(
            (
                payloads(&end.records),
                end.next.is_none(),
                end.millis_behind_latest
            ),
            (vec!["c".to_owned()], true, 0)
        );
        let children: Vec<_> = end
            .child_shards
            .iter()
            .map(|c| {
                (
                    c.shard_id.clone(),
                    c.parents.clone(),
                    c.starting_hash_key,
                    c.ending_hash_key,
                )
            })
            .collect();
        let parents = vec![SHARD_0.to_owned()];
        assert_eq!(
            children,
            [
                (shard_id(1), parents.clone(), 0, (1 << 127) - 1),
                (shard_id(2), parents, 1 << 127, u128::MAX)
            ]
        );
        let ending = kinesis
            .describe_stream("s", None, 1, T0)
            .expect("described")
            .shards[0]
            .ending_sequence
            .expect("closed")
            .to_string();
        assert!(ending > last);
        for position in [
            Latest,
            AfterSequenceNumber(last),
            AtSequenceNumber(ending.clone()),
            AfterSequenceNumber(ending),
            AtTimestamp(T0 + 1),
        ] {
            let end = read(&mut kinesis, SHARD_0, &position, T0 + 1).expect("read");
            assert_eq!(
                (
                    end.records.len(),
                    end.next.is_none(),
                    end.child_shards.len()
                ),
                (0, true, 2),
                "{position:?}"
            );
        }
        assert!(
            kinesis
                .get_records(&latest, None, T0)
                .expect("read")
                .next
                .is_none(),
            "an iterator from before the split"
        );

        kinesis
            .merge_shards("s", &shard_id(1), &shard_id(2), T0)
            .expect("merged");
        let end = read(&mut kinesis, &shard_id(2), &TrimHorizon, T0).expect("read");
        assert_eq!(end.child_shards.len(), 1);
        assert_eq!(end.child_shards[0].parents, [shard_id(1), shard_id(2)]);
    }

    #[test]
    fn retention_takes_records_and_then_closed_shards() {
        let day = 24 * 3_600_000;
        let mut kinesis = with_stream(1, ModelOptions::default());
        let old = put(&mut kinesis, "old", T0);
        put(&mut kinesis, "young", T0 + 1000);
        kinesis
            .split_shard("s", SHARD_0, 5, T0 + 2000)
            .expect("split");
        let at = |k: &mut Kinesis, now| {
            read(k, SHARD_0, &AtSequenceNumber(old.clone()), now)
                .map(|p| payloads(&p.records))
                .map_err(|e| e.code)
        };
        assert_eq!(
            at(&mut kinesis, T0 + day),
            Ok(vec!["old".into(), "young".into()])
        );
        assert_eq!(at(&mut kinesis, T0 + day + 1), Ok(vec!["young".into()]));
        assert_eq!(at(&mut kinesis, T0 + day + 2000), Ok(vec![]));
        assert_eq!(
            at(&mut kinesis, T0 + day + 2001),
            Err(Code::ResourceNotFound)
        );
    }

    #[test]
    fn reads_are_limited_per_shard_when_enforced() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                enforce_throughput: true,
                page_bytes: 10 << 20,
                ..ModelOptions::default()
            },
        );
        let iterator = kinesis
            .get_shard_iterator("s", SHARD_0, &TrimHorizon, T0)
            .expect("iterator");
        let call = |k: &mut Kinesis, at| {
            k.get_records(&iterator, None, at)
                .map(|p| p.records.len())
                .map_err(|e| e.code)
        };
        let throttled = Err(Code::ProvisionedThroughputExceeded);
        let calls: Vec<_> = (0..6).map(|i| call(&mut kinesis, T0 + i)).collect();
        assert_eq!(calls, [Ok(0), Ok(0), Ok(0), Ok(0), Ok(0), throttled]);
        // One record of 1 MB each second, then a page of 10 of them at once.
        for i in 1..=10 {
            kinesis
                .put_record(
                    "s",
                    &PutEntry::new("k", vec![0; 1 << 20][1..].to_vec()),
                    T0 + 1000 * i,
                )
                .expect("put");
        }
        let page_at = T0 + 60_000;
        assert_eq!(call(&mut kinesis, page_at), Ok(10));
        assert_eq!(call(&mut kinesis, page_at + 4_999), throttled);
        assert_eq!(call(&mut kinesis, page_at + 5_000), Ok(10));
    }
}
