//! Puts user records into a stream: batched, aggregated if wanted, retried, kept in order as well as Kinesis allows.
//!
//! ```text
//!  put(record) ─▶ lanes: route, aggregate, queue ─▶ PutRecords calls, one per lane at a time
//!                   ▲                                   │ a result for each Kinesis record
//!                   └── refused, unanswered, misplaced ─┘
//! ```
//!
//! **Order.** A lane has one call in flight, all records of one hash key take the same lane, and what was refused goes
//! before what was not yet sent. Yet PutRecords may refuse one record of a call and take a later one of the same key:
//! those two change places. Kinesis offers no way around that but one record per call.
//!
//! **Once or more.** A call without an answer is sent again, though it may have been carried out: consumers can see
//! such records twice. A record is reported as not put only when it may still have been put by such a call, or was
//! refused for good.
//!
//! **Aggregates and reshards.** User records are aggregated by the shard their hash key belongs to, as consumers drop
//! what lies outside their shard's range. After a split or merge an aggregate can land in a shard that is not all of
//! its records': then the shards are listed anew and all of its records are sent again. Sending only the strays would
//! be enough for this project's consumer, but the Java KCL drops an aggregate with a stray as a whole.

mod kinesis;
mod lanes;
mod shard_map;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use checkpoint::PutRecord;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

use self::{
    kinesis::Target,
    lanes::{Answer, Call, Lanes},
    shard_map::ShardMap,
};
use crate::{
    backoff::{Backoff, Random},
    clock::Clock,
    source::SourceError,
};

/// How records are put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a KPL aggregate at most, its key included; `None`: every user record is a Kinesis record of its own.
    pub aggregate: Option<usize>,
    /// How long a record may wait for others to share its call (and aggregate).
    pub linger: Duration,
    /// A Kinesis record that was refused, or got no answer, is tried again until so long after its first try.
    pub give_up: Duration,
    /// PutRecords calls in flight at most. At least 1.
    pub calls: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            aggregate: None,
            linger: Duration::from_millis(100),
            give_up: Duration::from_secs(60),
            calls: 4,
        }
    }
}

/// What came of the records so far. Once flushed, every record that was given is in `records` or in `unplaced`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// User records that Kinesis has acknowledged.
    pub records: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// The Kinesis records that carry them.
    pub kinesis_records: u64,
    /// PutRecords calls.
    pub calls: u64,
    /// Kinesis records that were sent again, since they were refused or got no answer.
    pub resent: u64,
    /// User records that were sent again, since their aggregate had landed in a shard that is not all of its records'.
    pub misplaced: u64,
    /// The user records that could not be put, in no order.
    pub unplaced: Vec<Unplaced>,
}

/// A user record that could not be put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// What the caller knows it by.
    pub tag: u64,
    /// The last thing Kinesis said about it.
    pub reason: Arc<str>,
}

/// Why nothing more can be put. The records that were waiting are in [`Summary::unplaced`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// The stream does not exist. Make it, or name another.
    #[error("stream {stream} does not exist: {reason}")]
    NoStream {
        /// Its name.
        stream: String,
        /// What Kinesis said.
        reason: String,
    },
    /// The stream may not be written, or (to aggregate) its shards not be listed.
    #[error("stream {stream} cannot be written: {reason}")]
    Denied {
        /// Its name.
        stream: String,
        /// What Kinesis said.
        reason: String,
    },
    /// The shards could not be listed for longer than [`Options::give_up`].
    #[error("the shards of stream {stream} cannot be listed: {reason}")]
    NoShards {
        /// Its name.
        stream: String,
        /// What Kinesis said last.
        reason: String,
    },
}

type Answered = BoxFuture<'static, (Call, Answer)>;

/// Puts user records into one stream.
///
/// It works only while one of its methods is awaited: between two [`put`](Self::put)s await [`drive`](Self::drive), and
/// [`flush`](Self::flush) at the end. Dropping any of these futures loses nothing.
pub struct Producer {
    target: Target,
    lanes: Lanes,
    calls: FuturesUnordered<Answered>,
    options: Options,
    clock: Clock,
    random: Random,
}

impl Producer {
    /// A producer for a stream, by a client that does not retry by itself. Requests carry the ARN as well, where it
    /// is given. To aggregate it lists the shards; else it needs no permission but PutRecords, and asks nothing yet.
    ///
    /// # Errors
    /// When the shards cannot be listed.
    pub async fn open(
        client: aws_sdk_kinesis::Client,
        stream: &str,
        arn: Option<String>,
        options: Options,
        clock: Clock,
        mut random: Random,
    ) -> Result<Self, ProducerError> {
        let mut producer = Producer {
            target: Target::new(client, stream, arn),
            lanes: Lanes::new(&options, random.fork()),
            calls: FuturesUnordered::new(),
            options,
            clock,
            random,
        };
        if producer.lanes.is_stale() {
            producer.learn().await?;
        }
        Ok(producer)
    }

    /// Takes a record; waits while too much is waiting already. `tag` is what the caller knows the record by.
    ///
    /// A record that breaks a limit of Kinesis does not fail here: it ends in [`Summary::unplaced`].
    ///
    /// # Errors
    /// When nothing more can be put.
    pub async fn put(&mut self, record: PutRecord, tag: u64) -> Result<(), ProducerError> {
        self.lanes.add(record, tag, self.clock.mono());
        while let Some(Some((call, answer))) = self.calls.next().now_or_never() {
            self.answered(call, answer).await?;
        }
        self.send(false);
        while self.lanes.is_full() {
            self.step(false).await?;
        }
        Ok(())
    }

    /// Sends what is due, and takes answers, for ever.
    ///
    /// # Errors
    /// When nothing more can be put.
    pub async fn drive(&mut self) -> ProducerError {
        loop {
            if let Err(error) = self.step(false).await {
                return error;
            }
        }
    }

    /// Sends everything, and waits until each record was acknowledged or given up.
    ///
    /// # Errors
    /// When nothing more can be put.
    pub async fn flush(&mut self) -> Result<(), ProducerError> {
        while !self.lanes.is_empty() {
            self.step(true).await?;
        }
        Ok(())
    }

    /// What came of the records so far.
    pub fn summary(&self) -> &Summary {
        self.lanes.summary()
    }

    /// Waits for one thing to happen: an answer, or something to be due.
    async fn step(&mut self, hurry: bool) -> Result<(), ProducerError> {
        // New ranges change lanes, so nothing may be on its way by the old ones.
        if self.lanes.is_stale() && self.calls.is_empty() {
            self.learn().await?;
        }
        self.send(hurry);
        let due = self.lanes.timeout(hurry);
        let answered = tokio::select! {
            biased;
            Some(answered) = self.calls.next() => Some(answered),
            () = self.clock.sleep_until(due) => None,
        };
        match answered {
            Some((call, answer)) => self.answered(call, answer).await,
            None => Ok(()),
        }
    }

    fn send(&mut self, hurry: bool) {
        while let Some(call) = self.lanes.next_call(self.clock.mono(), hurry) {
            let target = self.target.clone();
            self.calls.push(Box::pin(async move {
                let answer = target.put(&call).await;
                (call, answer)
            }));
        }
    }

    async fn answered(&mut self, call: Call, answer: Answer) -> Result<(), ProducerError> {
        match self.lanes.answered(call, answer, self.clock.mono()) {
            None => Ok(()),
            Some(fatal) => Err(self.end(fatal).await),
        }
    }

    /// Lists the shards, in more than one try if need be.
    async fn learn(&mut self) -> Result<(), ProducerError> {
        let until = self.clock.mono() + self.options.give_up;
        let mut backoff = Backoff::new(
            Duration::from_millis(100),
            Duration::from_secs(5),
            self.random.fork(),
        );
        loop {
            let error = match self.target.shards().await {
                Ok(shards) => match ShardMap::new(shards) {
                    Some(map) => {
                        self.lanes.learn(map, self.clock.mono());
                        return Ok(());
                    }
                    None => SourceError::Failed("no shard is open".to_owned()),
                },
                Err(error @ (SourceError::NotFound(_) | SourceError::Denied(_))) => {
                    return Err(self.end(error).await);
                }
                Err(error) => error,
            };
            let again = self.clock.mono() + backoff.next_wait();
            if again > until {
                return Err(self.end(error).await);
            }
            self.clock.sleep_until(again).await;
        }
    }

    /// Gives up whatever is waiting; what is on its way may still arrive.
    async fn end(&mut self, why: SourceError) -> ProducerError {
        while let Some((call, answer)) = self.calls.next().await {
            self.lanes.answered(call, answer, self.clock.mono());
        }
        self.lanes.abandon(&why.to_string());
        let stream = self.target.name().to_owned();
        match why {
            SourceError::NotFound(reason) => ProducerError::NoStream { stream, reason },
            SourceError::Denied(reason) => ProducerError::Denied { stream, reason },
            other => ProducerError::NoShards {
                stream,
                reason: other.to_string(),
            },
        }
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.options)
            .field("summary", self.summary())
            .finish_non_exhaustive()
    }
}
