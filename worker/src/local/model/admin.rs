//! Creating, deleting, describing and listing streams.

use std::sync::Arc;

use super::Kinesis;
use super::error::{Error, Result};
use super::reshard::over_limit;
use super::shard::ShardInfo;
use super::stream::{Change, Stream, StreamMode, StreamStatus, StreamSummary};

/// Shards an on-demand stream begins with.
const ON_DEMAND_SHARDS: u32 = 4;
const MAX_NAME: usize = 128;

/// What CreateStream asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStream {
    /// 1 to 128 characters of `a-z A-Z 0-9 _ . -`.
    pub name: String,
    /// Who decides the number of shards.
    pub mode: StreamMode,
    /// How many shards; needed when provisioned, not allowed on demand.
    pub shards: Option<u32>,
}

impl CreateStream {
    /// A provisioned stream.
    #[must_use]
    pub fn provisioned(name: impl Into<String>, shards: u32) -> Self {
        Self {
            name: name.into(),
            mode: StreamMode::Provisioned,
            shards: Some(shards),
        }
    }
}

/// A page of ListStreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPage {
    /// The streams, by name.
    pub streams: Vec<StreamSummary>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// A page of DescribeStream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamShards {
    /// The stream.
    pub summary: StreamSummary,
    /// Its shards by id, closed ones included; none while it is CREATING.
    pub shards: Vec<ShardInfo>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Kinesis {
    /// CreateStream; the stream is ACTIVE after [`super::ModelOptions::create_ms`].
    ///
    /// # Errors
    /// `ResourceInUse` if the name is taken, `LimitExceeded`, `Validation` (name), `InvalidArgument` (shard count against mode).
    pub fn create_stream(&mut self, request: CreateStream, now: i64) -> Result<()> {
        let CreateStream { name, mode, shards } = request;
        self.settle_all(now);
        valid_name("streamName", &name)?;
        let count = match (mode, shards) {
            (StreamMode::OnDemand, None) => ON_DEMAND_SHARDS,
            (StreamMode::OnDemand, Some(_)) => {
                return Err(Error::invalid(
                    "ShardCount must not be given for a stream in ON_DEMAND mode",
                ));
            }
            (StreamMode::Provisioned, None) => {
                return Err(Error::constraint(
                    "null",
                    "shardCount",
                    "Member must not be null",
                ));
            }
            (StreamMode::Provisioned, Some(0)) => {
                return Err(Error::constraint(
                    0,
                    "shardCount",
                    "Member must have value greater than or equal to 1",
                ));
            }
            (StreamMode::Provisioned, Some(count)) => count,
        };
        if self.streams.contains_key(name.as_str()) {
            return Err(Error::in_use(format!(
                "Stream {name} under account {} already exists.",
                self.options.account
            )));
        }
        let open = self.open_shards();
        if open + count as usize > self.options.shard_limit {
            return Err(over_limit(open, count as usize, self.options.shard_limit));
        }
        self.last_stream_id += 1;
        let arn = self.stream_arn(&name);
        let name: Arc<str> = name.into();
        let mut stream = Stream::new(
            self.last_stream_id,
            Arc::clone(&name),
            arn,
            mode,
            count,
            now,
        );
        stream.begin(Change::Create, now + self.options.create_ms);
        stream.settle(now);
        self.streams.insert(name, stream);
        Ok(())
    }

    /// DeleteStream; the stream, its records and its consumers are gone after [`super::ModelOptions::delete_ms`].
    ///
    /// # Errors
    /// `ResourceNotFound`; `ResourceInUse` if it is already DELETING, or has consumers and `enforce_consumer_deletion` is not set.
    pub fn delete_stream(
        &mut self,
        name: &str,
        enforce_consumer_deletion: bool,
        now: i64,
    ) -> Result<()> {
        let done_at = now + self.options.delete_ms;
        let account = self.options.account.clone();
        let stream = self.stream(name, now)?;
        if stream.status() == StreamStatus::Deleting {
            return Err(Error::in_use(format!(
                "Stream {name} under account {account} is already DELETING."
            )));
        }
        if !stream.consumers.is_empty() && !enforce_consumer_deletion {
            return Err(Error::in_use(format!(
                "Stream {name} under account {account} has {} consumers: set EnforceConsumerDeletion to delete them with it.",
                stream.consumers.len()
            )));
        }
        stream.begin(Change::Delete, done_at);
        if stream.settle(now) {
            self.streams.remove(name);
        }
        Ok(())
    }

    /// DescribeStreamSummary.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn describe_stream_summary(&mut self, name: &str, now: i64) -> Result<StreamSummary> {
        self.stream(name, now).map(|stream| stream.summary())
    }

    /// DescribeStream: at most `limit` shards after the given one.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn describe_stream(
        &mut self,
        name: &str,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Result<StreamShards> {
        let stream = self.stream(name, now)?;
        let summary = stream.summary();
        let creating = summary.status == StreamStatus::Creating;
        let wanted = stream
            .known_shards(now)
            .map(|s| s.info())
            .filter(|s| !creating && after.is_none_or(|after| s.shard_id.as_str() > after));
        let mut shards: Vec<ShardInfo> = wanted.take(limit.saturating_add(1)).collect();
        let more = shards.len() > limit;
        shards.truncate(limit);
        Ok(StreamShards {
            summary,
            shards,
            more,
        })
    }

    /// ListStreams: at most `limit` streams after the given name.
    #[must_use]
    pub fn list_streams(&mut self, after: Option<&str>, limit: usize, now: i64) -> StreamPage {
        self.settle_all(now);
        let mut rest = self
            .streams
            .values()
            .filter(|s| after.is_none_or(|after| &*s.name > after));
        let streams = rest.by_ref().take(limit).map(Stream::summary).collect();
        StreamPage {
            streams,
            more: rest.next().is_some(),
        }
    }

    /// DescribeLimits: open shards and on-demand streams of the account.
    #[must_use]
    pub fn usage(&mut self, now: i64) -> (usize, usize) {
        self.settle_all(now);
        let on_demand = self
            .streams
            .values()
            .filter(|s| s.mode == StreamMode::OnDemand)
            .count();
        (self.open_shards(), on_demand)
    }
}

/// Names of streams and consumers.
pub(crate) fn valid_name(member: &str, name: &str) -> Result<()> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
        return Err(Error::constraint(
            name,
            member,
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]{1,128}",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Code, ModelOptions};
    use super::*;

    fn slow() -> Kinesis {
        Kinesis::new(ModelOptions {
            create_ms: 100,
            delete_ms: 100,
            shard_limit: 6,
            ..ModelOptions::default()
        })
    }

    #[test]
    fn a_stream_lives_from_creating_to_gone() {
        let mut kinesis = slow();
        kinesis
            .create_stream(CreateStream::provisioned("s", 2), 1000)
            .expect("created");
        let status = |k: &mut Kinesis, now| {
            k.describe_stream_summary("s", now)
                .map(|s| (s.status, s.open_shards))
                .map_err(|e| e.code)
        };
        assert_eq!(status(&mut kinesis, 1099), Ok((StreamStatus::Creating, 0)));
        assert_eq!(
            kinesis
                .describe_stream("s", None, 10, 1099)
                .expect("described")
                .shards,
            []
        );
        assert_eq!(status(&mut kinesis, 1100), Ok((StreamStatus::Active, 2)));
        kinesis.delete_stream("s", false, 2000).expect("deleted");
        assert_eq!(
            kinesis.delete_stream("s", false, 2001).map_err(|e| e.code),
            Err(Code::ResourceInUse)
        );
        assert_eq!(status(&mut kinesis, 2099), Ok((StreamStatus::Deleting, 2)));
        assert_eq!(
            kinesis
                .create_stream(CreateStream::provisioned("s", 2), 2099)
                .map_err(|e| e.code),
            Err(Code::ResourceInUse)
        );
        assert_eq!(status(&mut kinesis, 2100), Err(Code::ResourceNotFound));
        assert_eq!(
            kinesis.create_stream(CreateStream::provisioned("s", 1), 2100),
            Ok(()),
            "the name is free again"
        );
    }

    #[test]
    fn bad_requests_are_refused() {
        let long = "n".repeat(129);
        let on_demand = |shards| CreateStream {
            name: "o".into(),
            mode: StreamMode::OnDemand,
            shards,
        };
        let cases = [
            (CreateStream::provisioned("", 1), Code::Validation),
            (CreateStream::provisioned("a b", 1), Code::Validation),
            (CreateStream::provisioned(long, 1), Code::Validation),
            (CreateStream::provisioned("s", 0), Code::Validation),
            (
                CreateStream {
                    name: "s".into(),
                    mode: StreamMode::Provisioned,
                    shards: None,
                },
                Code::Validation,
            ),
            (on_demand(Some(4)), Code::InvalidArgument),
            (CreateStream::provisioned("s", 7), Code::LimitExceeded),
        ];
        for (request, code) in cases {
            assert_eq!(
                slow().create_stream(request.clone(), 0).map_err(|e| e.code),
                Err(code),
                "{request:?}"
            );
        }
        let mut kinesis = slow();
        kinesis.create_stream(on_demand(None), 0).expect("created");
        assert_eq!(
            kinesis
                .describe_stream_summary("o", 100)
                .map(|s| (s.mode, s.open_shards)),
            Ok((StreamMode::OnDemand, 4))
        );
        assert_eq!(kinesis.usage(100), (4, 1));
    }

    #[test]
    fn listings_page_by_name_and_by_shard() {
        let mut kinesis = Kinesis::new(ModelOptions::default());
        for name in ["c", "a", "b"] {
            kinesis
                .create_stream(CreateStream::provisioned(name, 3), 5)
                .expect("created");
        }
        let names = |page: StreamPage| {
            (
                page.streams.into_iter().map(|s| s.name).collect::<Vec<_>>(),
                page.more,
            )
        };
        assert_eq!(
            names(kinesis.list_streams(None, 2, 5)),
            (vec!["a".into(), "b".into()], true)
        );
        assert_eq!(
            names(kinesis.list_streams(Some("b"), 2, 5)),
            (vec!["c".into()], false)
        );
        let first = kinesis.describe_stream("a", None, 2, 5).expect("described");
        assert_eq!((first.shards.len(), first.more), (2, true));
        let second = kinesis
            .describe_stream("a", Some(&first.shards[1].shard_id), 2, 5)
            .expect("described");
        assert_eq!(
            (
                second.shards[0].shard_id.as_str(),
                second.shards.len(),
                second.more
            ),
            ("shardId-000000000002", 1, false)
        );
    }

    #[test]
    fn arns_lead_to_names_of_this_account_only() {
        let kinesis = slow();
        let cases = [
            ("arn:aws:kinesis:us-east-1:123456789012:stream/s", Ok("s")),
            (
                "arn:aws:kinesis:us-east-1:123456789012:stream/s/consumer/c:1",
                Ok("s"),
            ),
            (
                "arn:aws:kinesis:us-east-1:000000000000:stream/s",
                Err(Code::ResourceNotFound),
            ),
            (
                "arn:aws:kinesis:eu-west-1:123456789012:stream/s",
                Err(Code::ResourceNotFound),
            ),
            (
                "arn:aws:kinesis:us-east-1:123456789012:stream/",
                Err(Code::InvalidArgument),
            ),
            (
                "arn:aws:sqs:us-east-1:123456789012:s",
                Err(Code::InvalidArgument),
            ),
            ("s", Err(Code::InvalidArgument)),
        ];
        for (arn, expect) in cases {
            assert_eq!(
                kinesis.stream_name_in_arn(arn).map_err(|e| e.code),
                expect.map(str::to_owned),
                "{arn}"
            );
        }
    }
}
