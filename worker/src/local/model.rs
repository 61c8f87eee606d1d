//! Kinesis in memory: exact, pure, without a clock. Every operation takes `now` (epoch milliseconds) and answers at once;
//! states that take time on AWS (CREATING, UPDATING, DELETING) end when a later call comes with a late enough `now`.
//!
//! ```text
//!   Kinesis ─▶ Stream ─▶ Shard ─▶ Record
//!      │          └─▶ Consumer
//!      └ operations:  admin  reshard  list  write  read  consumer  subscribe
//! ```
//!
//! Where the API leaves a choice to the service, the choice is the one that is hardest on a consumer: a closed shard ends
//! in the very answer that holds its last record, a sequence number of another shard is refused.

mod admin;
mod consumer;
mod error;
mod iterator;
mod list;
mod options;
mod quota;
mod read;
mod record;
mod reshard;
mod sequence;
mod settings;
mod shard;
mod stream;
mod subscribe;
#[cfg(test)]
mod testing;
mod token;
#[cfg(test)]
mod walk_tests;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use admin::{CreateStream, StreamPage, StreamShards};
pub use consumer::{Consumer, ConsumerPage, ConsumerStatus};
pub use error::{Code, Error, Result};
pub use iterator::{ShardIterator, StartingPosition};
pub(crate) use list::MAX_RESULTS;
pub use list::{ShardFilter, ShardPage};
pub use options::ModelOptions;
pub use read::GetRecords;
pub use record::Record;
pub(crate) use record::write_seconds;
pub use sequence::{NotASequence, Sequence};
pub use settings::Metric;
pub use shard::{ChildShard, MAX_HASH_KEY, ShardInfo};
pub use stream::{StreamMode, StreamStatus, StreamSummary};
pub use subscribe::{Step, SubscribeEvent, Subscription};
pub(crate) use token::{Opened, Seal};
pub(crate) use write::explicit_hash_key;
pub use write::{Placed, PutEntry};

use stream::Stream;

/// All streams of one account in one region.
#[derive(Debug)]
pub struct Kinesis {
    options: ModelOptions,
    streams: BTreeMap<Arc<str>, Stream>,
    /// Tells a stream from an earlier one of the same name.
    last_stream_id: i64,
    last_subscription_id: u64,
}

impl Kinesis {
    /// An account without streams.
    #[must_use]
    pub fn new(options: ModelOptions) -> Self {
        Self {
            options,
            streams: BTreeMap::new(),
            last_stream_id: 0,
            last_subscription_id: 0,
        }
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// The ARN that a stream of this name has or would have.
    #[must_use]
    pub fn stream_arn(&self, name: &str) -> String {
        let ModelOptions {
            region, account, ..
        } = &self.options;
        format!("arn:aws:kinesis:{region}:{account}:stream/{name}")
    }

    /// The stream name in a stream ARN or a consumer ARN of this account and region.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no such ARN; `ResourceNotFound` if it is of another account or region.
    pub fn stream_name_in_arn(&self, arn: &str) -> Result<String> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", _, "kinesis", region, account, resource] = parts[..] else {
            return Err(Error::invalid(format!(
                "{arn} is not an ARN of Kinesis Data Streams"
            )));
        };
        let name = resource
            .strip_prefix("stream/")
            .and_then(|r| r.split('/').next())
            .filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::invalid(format!("{arn} names no stream")))?;
        if region != self.options.region || account != self.options.account {
            return Err(Error::not_found(format!(
                "Stream {name} under account {account} in {region} not found."
            )));
        }
        Ok(name.to_owned())
    }

    /// The stream as it stands at `now`, whatever its status.
    fn stream(&mut self, name: &str, now: i64) -> Result<&mut Stream> {
        if self
            .streams
            .get_mut(name)
            .is_some_and(|stream| stream.settle(now))
        {
            self.streams.remove(name);
        }
        let account = &self.options.account;
        self.streams.get_mut(name).ok_or_else(|| {
            Error::not_found(format!("Stream {name} under account {account} not found."))
        })
    }

    /// The stream if it takes reads and writes: it does from ACTIVE until it is gone.
    fn live_stream(&mut self, name: &str, now: i64) -> Result<(&mut Stream, &ModelOptions)> {
        if self.stream(name, now)?.status() == StreamStatus::Creating {
            return Err(Error::not_found(format!(
                "Stream {name} under account {} not found.",
                self.options.account
            )));
        }
        let stream = self
            .streams
            .get_mut(name)
            .ok_or_else(|| Error::not_found(format!("Stream {name} not found.")))?;
        Ok((stream, &self.options))
    }

    /// The stream if it is ACTIVE, as every change of it demands.
    fn active_stream(&mut self, name: &str, now: i64) -> Result<(&mut Stream, &ModelOptions)> {
        let status = self.stream(name, now)?.status();
        if status != StreamStatus::Active {
            let account = &self.options.account;
            return Err(Error::in_use(format!(
                "Stream {name} under account {account} not ACTIVE, instead in state {}",
                status.name()
            )));
        }
        let stream = self
            .streams
            .get_mut(name)
            .ok_or_else(|| Error::not_found(format!("Stream {name} not found.")))?;
        Ok((stream, &self.options))
    }

    /// Carries out every transition that is due.
    fn settle_all(&mut self, now: i64) {
        self.streams.retain(|_, stream| !stream.settle(now));
    }

    /// Open shards of all streams, against the account's limit.
    fn open_shards(&self) -> usize {
        self.streams.values().map(Stream::open_count).sum()
    }
}
