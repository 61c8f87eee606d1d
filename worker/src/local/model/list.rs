//! ListShards. A shard counts as open in every millisecond from its creation to its closing, both included, so at the very
//! millisecond of a reshard AT_TIMESTAMP tells parents and children, as the API describes it. AT_TRIM_HORIZON is the answer a
//! consumer starts from and must cover the hash space once: there a shard is left out when one of its parents is in.

use super::Kinesis;
use super::error::{Code, Error, Result};
use super::shard::{Shard, ShardInfo};
use super::stream::{Stream, StreamStatus};
use super::token::{Opened, Seal};

const TOKEN_KIND: u8 = 2;
/// The most shards one page may hold.
pub(crate) const MAX_RESULTS: usize = 10_000;

/// Which shards to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardFilter {
    /// Those with ids above this one.
    AfterShardId(String),
    /// Those open at the trim horizon.
    AtTrimHorizon,
    /// All that retention has left.
    FromTrimHorizon,
    /// Those open now.
    AtLatest,
    /// Those open at this time, epoch milliseconds.
    AtTimestamp(i64),
    /// Those open at this time or later, epoch milliseconds.
    FromTimestamp(i64),
}

/// A page of ListShards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPage {
    /// The shards, by id.
    pub shards: Vec<ShardInfo>,
    /// Where the next page begins; `None` on the last one.
    pub next_token: Option<String>,
}

impl Kinesis {
    /// ListShards from its beginning: the shards that pass the filter and have ids above `after`.
    ///
    /// # Errors
    /// `ResourceNotFound`; `ResourceInUse` while the stream is CREATING.
    pub fn list_shards(
        &mut self,
        stream: &str,
        filter: &ShardFilter,
        after: Option<&str>,
        max: usize,
        now: i64,
    ) -> Result<ShardPage> {
        let stream = self.stream(stream, now)?;
        if stream.status() == StreamStatus::Creating {
            return Err(Error::in_use(format!(
                "Stream {} is CREATING; its shards can be listed once it is ACTIVE.",
                stream.name
            )));
        }
        // Resolved once, so that later pages apply the same filter though time goes on.
        let filter = match filter {
            ShardFilter::AtTrimHorizon => Resolved::Roots(horizon(stream, now)),
            ShardFilter::FromTrimHorizon => Resolved::From(i64::MIN),
            ShardFilter::AtLatest => Resolved::Open,
            ShardFilter::AtTimestamp(at) => Resolved::At((*at).max(horizon(stream, now))),
            ShardFilter::FromTimestamp(at) => Resolved::From(*at),
            ShardFilter::AfterShardId(id) => {
                let after = after.map_or(id.as_str(), |after| after.max(id));
                return Ok(page(
                    stream,
                    Resolved::From(i64::MIN),
                    Some(after),
                    max,
                    now,
                ));
            }
        };
        Ok(page(stream, filter, after, max, now))
    }

    /// ListShards from the token of an earlier page.
    ///
    /// # Errors
    /// `InvalidArgument` for a token of another maker, `ExpiredNextToken`, `ResourceNotFound`.
    pub fn list_shards_next(&mut self, token: &str, max: usize, now: i64) -> Result<ShardPage> {
        let read = Token::read(token)
            .ok_or_else(|| Error::invalid("NextToken is not a token of ListShards."))?;
        if now - read.issued > self.options.iterator_ttl_ms {
            return Err(Error::new(
                Code::ExpiredNextToken,
                "NextToken has expired; list the shards from the beginning.",
            ));
        }
        let stream = self.stream(&read.stream, now)?;
        if stream.id != read.stream_id {
            return Err(Error::not_found(format!(
                "The stream {} that NextToken belongs to was deleted.",
                read.stream
            )));
        }
        Ok(page(stream, read.filter, Some(&read.after), max, now))
    }
}

/// The oldest moment of which the stream still knows.
fn horizon(stream: &Stream, now: i64) -> i64 {
    stream.trim_before(now).max(stream.created)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolved {
    Open,
    Roots(i64),
    At(i64),
    From(i64),
}

impl Resolved {
    fn admits(self, stream: &Stream, shard: &Shard) -> bool {
        match self {
            Self::Open => shard.is_open(),
            Self::At(at) => shard.was_open_at(at),
            Self::From(at) => shard.closed.is_none_or(|c| c.at >= at),
            Self::Roots(at) => {
                let parents = shard.parent.into_iter().chain(shard.adjacent_parent);
                let mut parents = parents.filter_map(|p| stream.shards.get(p as usize));
                shard.was_open_at(at) && !parents.any(|parent| parent.was_open_at(at))
            }
        }
    }

    fn fields(self) -> (i64, i64) {
        match self {
            Self::Open => (0, 0),
            Self::Roots(at) => (1, at),
            Self::At(at) => (2, at),
            Self::From(at) => (3, at),
        }
    }

    fn from_fields(kind: i64, at: i64) -> Option<Self> {
        match kind {
            0 => Some(Self::Open),
            1 => Some(Self::Roots(at)),
            2 => Some(Self::At(at)),
            3 => Some(Self::From(at)),
            _ => None,
        }
    }
}

fn page(stream: &Stream, filter: Resolved, after: Option<&str>, max: usize, now: i64) -> ShardPage {
    let wanted = stream
        .known_shards(now)
        .filter(|shard| filter.admits(stream, shard))
        .map(Shard::info);
    let mut shards: Vec<ShardInfo> = wanted
        .filter(|s| after.is_none_or(|after| s.shard_id.as_str() > after))
        .take(max.saturating_add(1))
        .collect();
    let more = shards.len() > max;
    shards.truncate(max);
    let token = |last: &ShardInfo| {
        Token {
            stream: stream.name.to_string(),
            stream_id: stream.id,
            filter,
            after: last.shard_id.clone(),
            issued: now,
        }
        .write()
    };
    ShardPage {
        next_token: shards.last().filter(|_| more).map(token),
        shards,
    }
}

struct Token {
    stream: String,
    stream_id: i64,
    filter: Resolved,
    after: String,
    issued: i64,
}

impl Token {
    fn write(&self) -> String {
        let (kind, at) = self.filter.fields();
        Seal::new(TOKEN_KIND)
            .text(&self.stream)
            .number(self.stream_id)
            .number(kind)
            .number(at)
            .text(&self.after)
            .number(self.issued)
            .close()
    }

    fn read(token: &str) -> Option<Self> {
        let mut open = Opened::new(TOKEN_KIND, token)?;
        let (stream, stream_id) = (open.text()?, open.number()?);
        let filter = Resolved::from_fields(open.number()?, open.number()?)?;
        Some(Self {
            stream,
            stream_id,
            filter,
            after: open.text()?,
            issued: open.number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T0, with_stream};
    use super::super::{ModelOptions, shard::shard_id};
    use super::*;

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    /// 0 and 1 from `T0`; 0 split into 2 and 3 at `T0 + 1 h`; 3 and 1 merged into 4 at `T0 + 2 h`.
    fn family() -> Kinesis {
        let mut kinesis = with_stream(2, ModelOptions::default());
        kinesis
            .split_shard("s", &shard_id(0), 1 << 126, T0 + HOUR)
            .expect("split");
        kinesis
            .merge_shards("s", &shard_id(3), &shard_id(1), T0 + 2 * HOUR)
            .expect("merged");
        kinesis
    }

    fn ids(shards: &[ShardInfo]) -> Vec<usize> {
        shards
            .iter()
            .map(|s| {
                s.shard_id
                    .trim_start_matches("shardId-")
                    .parse()
                    .expect("digits")
            })
            .collect()
    }

    #[test]
    fn filters_tell_the_shards_of_their_time() {
        use ShardFilter::{
            AfterShardId, AtLatest, AtTimestamp, AtTrimHorizon, FromTimestamp, FromTrimHorizon,
        };
        let now = T0 + 3 * HOUR;
        let late = T0 + HOUR + DAY + 1; // the split has left the retention period, the merge has not
        let cases: [(ShardFilter, i64, &[usize]); 16] = [
            (FromTrimHorizon, now, &[0, 1, 2, 3, 4]),
            (FromTrimHorizon, late, &[1, 2, 3, 4]),
            (AtTrimHorizon, now, &[0, 1]),
            (AtTrimHorizon, late, &[1, 2, 3]),
            (AtTrimHorizon, T0 + 2 * HOUR + DAY + 1, &[2, 4]),
            (AtLatest, now, &[2, 4]),
            (AtTimestamp(0), now, &[0, 1]),
            (AtTimestamp(T0 + HOUR - 1), now, &[0, 1]),
            (AtTimestamp(T0 + HOUR), now, &[0, 1, 2, 3]),
            (AtTimestamp(T0 + HOUR + 1), now, &[1, 2, 3]),
            (AtTimestamp(now), now, &[2, 4]),
            (FromTimestamp(0), now, &[0, 1, 2, 3, 4]),
            (FromTimestamp(T0 + HOUR + 1), now, &[1, 2, 3, 4]),
            (FromTimestamp(T0 + 2 * HOUR + 1), now, &[2, 4]),
            (AfterShardId(shard_id(1)), now, &[2, 3, 4]),
            (AfterShardId("shardId-".into()), now, &[0, 1, 2, 3, 4]),
        ];
        for (filter, at, expect) in cases {
            let page = family()
                .list_shards("s", &filter, None, 100, at)
                .expect("listed");
            assert_eq!(ids(&page.shards), expect, "{filter:?}");
            assert_eq!(page.next_token, None);
        }
    }

    #[test]
    fn the_trim_horizon_is_covered_once_even_by_a_reshard_at_creation() {
        let mut kinesis = with_stream(1, ModelOptions::default());
        kinesis
            .split_shard("s", &shard_id(0), 5, T0)
            .expect("split in the millisecond of the creation");
        let page = kinesis
            .list_shards("s", &ShardFilter::AtTrimHorizon, None, 100, T0)
            .expect("listed");
        assert_eq!(ids(&page.shards), [0]);
    }

    #[test]
    fn pages_keep_their_filter_and_end() {
        let mut kinesis = family();
        let now = T0 + 3 * HOUR;
        let first = kinesis
            .list_shards("s", &ShardFilter::AtTimestamp(T0 + HOUR), None, 3, now)
            .expect("listed");
        let token = first.next_token.expect("one more");
        let second = kinesis
            .list_shards_next(&token, 3, now + 1000)
            .expect("listed");
        assert_eq!(
            (ids(&first.shards), ids(&second.shards), second.next_token),
            (vec![0, 1, 2], vec![3], None)
        );
        let exact = kinesis
            .list_shards("s", &ShardFilter::AtLatest, None, 2, now)
            .expect("listed");
        assert_eq!(
            (exact.shards.len(), exact.next_token),
            (2, None),
            "a full last page has no token"
        );
        let from = kinesis
            .list_shards(
                "s",
                &ShardFilter::FromTrimHorizon,
                Some(&shard_id(2)),
                9,
                now,
            )
            .expect("listed");
        assert_eq!(ids(&from.shards), [3, 4]);
    }

    #[test]
    fn tokens_expire_and_belong_to_one_stream() {
        let mut kinesis = family();
        let now = T0 + 3 * HOUR;
        let token = kinesis
            .list_shards("s", &ShardFilter::FromTrimHorizon, None, 1, now)
            .expect("listed")
            .next_token
            .expect("more");
        let code = |k: &mut Kinesis, token: &str, at| {
            k.list_shards_next(token, 1, at)
                .map(|p| ids(&p.shards))
                .map_err(|e| e.code)
        };
        assert_eq!(code(&mut kinesis, &token, now + 300_000), Ok(vec![1]));
        assert_eq!(
            code(&mut kinesis, &token, now + 300_001),
            Err(Code::ExpiredNextToken)
        );
        assert_eq!(
            code(&mut kinesis, "garbage", now),
            Err(Code::InvalidArgument)
        );
        kinesis.delete_stream("s", false, now).expect("deleted");
        assert_eq!(code(&mut kinesis, &token, now), Err(Code::ResourceNotFound));
        kinesis
            .create_stream(super::super::CreateStream::provisioned("s", 2), now)
            .expect("created");
        assert_eq!(code(&mut kinesis, &token, now), Err(Code::ResourceNotFound));
    }

    #[test]
    fn a_stream_being_created_cannot_be_listed() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                create_ms: 5,
                ..ModelOptions::default()
            },
        );
        let code = |k: &mut Kinesis, at| {
            k.list_shards("s", &ShardFilter::AtLatest, None, 1, at)
                .map(|p| p.shards.len())
                .map_err(|e| e.code)
        };
        assert_eq!(
            (code(&mut kinesis, T0 + 4), code(&mut kinesis, T0 + 5)),
            (Err(Code::ResourceInUse), Ok(1))
        );
    }
}
