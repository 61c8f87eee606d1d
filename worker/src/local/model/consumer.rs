//! Registered consumers, who read with SubscribeToShard.

use super::Kinesis;
use super::admin::valid_name;
use super::error::{Error, Result};

/// Consumers a stream may have.
const MAX_CONSUMERS: usize = 20;
/// Consumers of a stream that may be CREATING at once.
const MAX_CREATING: usize = 5;

/// Where a consumer is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerStatus {
    /// Not yet allowed to subscribe.
    Creating,
    /// Being deregistered.
    Deleting,
    /// May subscribe.
    Active,
}

impl ConsumerStatus {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Deleting => "DELETING",
            Self::Active => "ACTIVE",
        }
    }
}

/// A consumer as DescribeStreamConsumer tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// Its ARN: that of the stream, its name, and when it was registered.
    pub arn: String,
    /// The ARN of its stream.
    pub stream_arn: String,
    /// Where it is in its life.
    pub status: ConsumerStatus,
    /// When it was registered, epoch milliseconds.
    pub created_ms: i64,
    /// When the current state ends.
    until: i64,
}

impl Consumer {
    /// True once it is gone.
    pub(crate) fn settle(&mut self, now: i64) -> bool {
        match self.status {
            ConsumerStatus::Creating if self.until <= now => self.status = ConsumerStatus::Active,
            ConsumerStatus::Deleting => return self.until <= now,
            _ => {}
        }
        false
    }
}

/// A page of ListStreamConsumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerPage {
    /// The consumers, by name.
    pub consumers: Vec<Consumer>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Kinesis {
    /// RegisterStreamConsumer; the consumer is ACTIVE after [`super::ModelOptions::consumer_ms`].
    ///
    /// # Errors
    /// `ResourceNotFound`, `ResourceInUse` (the name is taken), `LimitExceeded`, `Validation` (name).
    pub fn register_consumer(&mut self, stream: &str, name: &str, now: i64) -> Result<Consumer> {
        valid_name("consumerName", name)?;
        let (stream, options) = self.live_stream(stream, now)?;
        if stream.consumers.contains_key(name) {
            return Err(Error::in_use(format!(
                "Consumer {name} already exists in stream {} under account {}.",
                stream.name, options.account
            )));
        }
        let creating = stream
            .consumers
            .values()
            .filter(|c| c.status == ConsumerStatus::Creating)
            .count();
        if stream.consumers.len() >= MAX_CONSUMERS || creating >= MAX_CREATING {
            return Err(Error::limit(format!(
                "Stream {} has {} consumers ({creating} of them CREATING); at most {MAX_CONSUMERS} ({MAX_CREATING}) are allowed.",
                stream.name,
                stream.consumers.len()
            )));
        }
        let mut consumer = Consumer {
            name: name.to_owned(),
            arn: format!("{}/consumer/{name}:{}", stream.arn, now.div_euclid(1000)),
            stream_arn: stream.arn.clone(),
            status: ConsumerStatus::Creating,
            created_ms: now,
            until: now + options.consumer_ms,
        };
        let registered = consumer.clone();
        consumer.settle(now);
        stream.consumers.insert(name.to_owned(), consumer);
        Ok(registered)
    }

    /// DescribeStreamConsumer by stream and name.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn describe_consumer(&mut self, stream: &str, name: &str, now: i64) -> Result<Consumer> {
        let account = self.options.account.clone();
        let stream = self.stream(stream, now)?;
        let missing = || {
            Error::not_found(format!(
                "Consumer {name}, account {account} not found in stream {}.",
                stream.name
            ))
        };
        stream.consumers.get(name).cloned().ok_or_else(missing)
    }

    /// DescribeStreamConsumer by ARN.
    ///
    /// # Errors
    /// `ResourceNotFound`, `InvalidArgument` (no ARN of a consumer).
    pub fn describe_consumer_by_arn(&mut self, arn: &str, now: i64) -> Result<Consumer> {
        let stream = self.stream_name_in_arn(arn)?;
        let name = arn
            .split_once("/consumer/")
            .and_then(|(_, rest)| rest.split(':').next());
        let name =
            name.ok_or_else(|| Error::invalid(format!("{arn} is not the ARN of a consumer.")))?;
        let found = self.describe_consumer(&stream, name, now)?;
        // The time in the ARN tells a consumer from an earlier one of the same name.
        if found.arn == arn {
            Ok(found)
        } else {
            Err(Error::not_found(format!("Consumer {arn} not found.")))
        }
    }

    /// DeregisterStreamConsumer; the consumer is gone after [`super::ModelOptions::consumer_ms`], and its subscriptions end.
    ///
    /// # Errors
    /// `ResourceNotFound`; `ResourceInUse` if it is already DELETING.
    pub fn deregister_consumer(&mut self, stream: &str, name: &str, now: i64) -> Result<()> {
        let until = now + self.options.consumer_ms;
        if self.describe_consumer(stream, name, now)?.status == ConsumerStatus::Deleting {
            return Err(Error::in_use(format!(
                "Consumer {name} in stream {stream} is already DELETING."
            )));
        }
        let stream = self.stream(stream, now)?;
        if let Some(consumer) = stream.consumers.get_mut(name) {
            consumer.status = ConsumerStatus::Deleting;
            consumer.until = until;
        }
        stream.settle(now);
        stream
            .shards
            .iter()
            .for_each(|shard| shard.bell.notify_waiters());
        Ok(())
    }

    /// ListStreamConsumers: at most `limit` consumers after the given name.
    ///
    /// # Errors
    /// `ResourceNotFound`.
    pub fn list_consumers(
        &mut self,
        stream: &str,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Result<ConsumerPage> {
        let stream = self.stream(stream, now)?;
        let mut rest = stream
            .consumers
            .values()
            .filter(|c| after.is_none_or(|after| c.name.as_str() > after));
        let consumers = rest.by_ref().take(limit).cloned().collect();
        Ok(ConsumerPage {
            consumers,
            more: rest.next().is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T0, with_stream};
    use super::super::{Code, ModelOptions};
    use super::*;

    #[test]
    fn a_consumer_lives_from_creating_to_gone() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                consumer_ms: 100,
                ..ModelOptions::default()
            },
        );
        let registered = kinesis.register_consumer("s", "c", T0).expect("registered");
        assert_eq!(registered.status, ConsumerStatus::Creating);
        assert_eq!(
            registered.arn,
            format!("{}/consumer/c:{}", registered.stream_arn, T0 / 1000)
        );
        let status = |k: &mut Kinesis, at| {
            k.describe_consumer_by_arn(&registered.arn, at)
                .map(|c| c.status)
                .map_err(|e| e.code)
        };
        assert_eq!(
            (
                status(&mut kinesis, T0 + 99),
                status(&mut kinesis, T0 + 100)
            ),
            (Ok(ConsumerStatus::Creating), Ok(ConsumerStatus::Active))
        );
        assert_eq!(
            kinesis
                .register_consumer("s", "c", T0 + 100)
                .map_err(|e| e.code),
            Err(Code::ResourceInUse)
        );
        assert_eq!(
            kinesis
                .delete_stream("s", false, T0 + 100)
                .map_err(|e| e.code),
            Err(Code::ResourceInUse),
            "it has a consumer"
        );
        kinesis
            .deregister_consumer("s", "c", T0 + 200)
            .expect("deregistered");
        assert_eq!(
            (
                status(&mut kinesis, T0 + 299),
                status(&mut kinesis, T0 + 300)
            ),
            (Ok(ConsumerStatus::Deleting), Err(Code::ResourceNotFound))
        );
        let again = kinesis
            .register_consumer("s", "c", T0 + 5_000)
            .expect("registered");
        assert_ne!(again.arn, registered.arn);
        assert_eq!(
            status(&mut kinesis, T0 + 5_000),
            Err(Code::ResourceNotFound),
            "the old ARN is of the old consumer"
        );
        kinesis
            .delete_stream("s", true, T0 + 5_000)
            .expect("deleted with its consumers");
    }

    #[test]
    fn consumers_are_limited_and_listed_in_pages() {
        let mut kinesis = with_stream(
            1,
            ModelOptions {
                consumer_ms: 1,
                ..ModelOptions::default()
            },
        );
        let code = |k: &mut Kinesis, name: &str, at| {
            k.register_consumer("s", name, at)
                .map(drop)
                .map_err(|e| e.code)
        };
        for i in 0..5 {
            assert_eq!(code(&mut kinesis, &format!("c{i:02}"), T0), Ok(()));
        }
        assert_eq!(
            code(&mut kinesis, "c05", T0),
            Err(Code::LimitExceeded),
            "five are CREATING"
        );
        for i in 5..20 {
            assert_eq!(code(&mut kinesis, &format!("c{i:02}"), T0 + i), Ok(()));
        }
        assert_eq!(
            code(&mut kinesis, "c20", T0 + 99),
            Err(Code::LimitExceeded),
            "twenty in all"
        );
        assert_eq!(code(&mut kinesis, "no good", T0), Err(Code::Validation));
        let page = kinesis
            .list_consumers("s", Some("c16"), 2, T0 + 99)
            .expect("listed");
        let names: Vec<_> = page.consumers.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((names, page.more), (vec!["c17", "c18"], true));
        assert!(
            !kinesis
                .list_consumers("s", Some("c17"), 2, T0 + 99)
                .expect("listed")
                .more
        );
    }
}
