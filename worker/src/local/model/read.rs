//! GetRecords. The answer that reaches the end of a closed shard names the children and no next iterator.

use super::error::{Code, Error, Result};
use super::iterator::{ShardIterator, rate_exceeded};
use super::record::Record;
use super::shard::{ChildShard, Shard};
use super::stream::Stream;
use super::{Kinesis, ModelOptions};

/// Records in one GetRecords answer at most.
pub(crate) const MAX_RECORDS: usize = 10_000;

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

#[cfg(test)]
mod tests;
