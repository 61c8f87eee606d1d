//! SubscribeToShard without the wire: a [`Subscription`] is a place that its owner moves along by asking for the next step.
//!
//! Rules:
//! * One live subscription per consumer and shard. Within 5 s of a successful call another is refused; later it takes over, and
//!   the older one ends with `ResourceInUse`.
//! * An event's continuation is a place between records: AT and AFTER it resume with exactly the records not yet sent.
//! * After the last record of a closed shard comes one more event, with the children and without continuation; then the end.
//! * A silent subscription sends an event without records, at once and then every few seconds.
//! * After 5 minutes a subscription ends, in order.

use std::sync::Arc;

use tokio::sync::Notify;

use super::consumer::ConsumerStatus;
use super::error::{Error, Result};
use super::iterator::{StartingPosition, resolve};
use super::quota::Quota;
use super::read::{MAX_RECORDS, children_of, millis_behind};
use super::record::Record;
use super::sequence::Sequence;
use super::shard::ChildShard;
use super::stream::Stream;
use super::{Kinesis, ModelOptions};

/// What one subscription may carry, if throughput is enforced.
const BYTES_PER_SECOND: u64 = 2 << 20;
/// How soon to look again whether the rate has room.
const RATE_POLL_MS: i64 = 50;

/// One event of a subscription.
#[derive(Debug, Clone)]
pub struct SubscribeEvent {
    /// The records, in order; none in a heartbeat.
    pub records: Vec<Record>,
    /// Where another subscription goes on; `None` in the last event of a closed shard.
    pub continuation: Option<Sequence>,
    /// As in GetRecords.
    pub millis_behind_latest: i64,
    /// In the last event of a closed shard: its children.
    pub child_shards: Vec<ChildShard>,
}

/// What a subscription has for its owner.
#[derive(Debug, Clone)]
pub enum Step {
    /// Send this and ask again.
    Event(SubscribeEvent),
    /// Nothing before this time (epoch milliseconds) unless [`Subscription::bell`] rings.
    Wait(i64),
    /// The subscription ended in order.
    End,
}

/// The latest successful SubscribeToShard of a consumer on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    id: u64,
    since: i64,
}

/// One subscription; asked with [`Kinesis::next_step`].
#[derive(Debug)]
pub struct Subscription {
    id: u64,
    stream: Arc<str>,
    stream_id: i64,
    consumer_arn: String,
    shard: u32,
    from: Sequence,
    since: i64,
    silent_since: Option<i64>,
    ended: bool,
    rate: Quota,
    bell: Arc<Notify>,
}

impl Subscription {
    /// Rings when asking again may bring something before the time of [`Step::Wait`]. Make the waiting future before asking.
    #[must_use]
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Name of the stream it reads.
    #[must_use]
    pub fn stream_name(&self) -> &str {
        &self.stream
    }
}

impl Kinesis {
    /// SubscribeToShard.
    ///
    /// # Errors
    /// `ResourceNotFound` (consumer, stream or shard), `ResourceInUse` (consumer not ACTIVE, or within 5 s of a successful call),
    /// `InvalidArgument` (ARN or position).
    pub fn subscribe_to_shard(
        &mut self,
        consumer_arn: &str,
        shard: &str,
        position: &StartingPosition,
        now: i64,
    ) -> Result<Subscription> {
        let consumer = self.describe_consumer_by_arn(consumer_arn, now)?;
        if consumer.status != ConsumerStatus::Active {
            return Err(Error::in_use(format!(
                "Consumer {consumer_arn} is not ACTIVE, instead in state {}.",
                consumer.status.name()
            )));
        }
        let name = self.stream_name_in_arn(consumer_arn)?;
        self.last_subscription_id += 1;
        let id = self.last_subscription_id;
        let (stream, options) = self.live_stream(&name, now)?;
        let (name, stream_id) = (Arc::clone(&stream.name), stream.id);
        let found = stream.shard(shard, &options.account, now)?;
        let from = resolve(
            found,
            position,
            "SubscribeToShard",
            &name,
            &options.account,
            now,
        )?;
        let earlier = found.subscriptions.get(consumer_arn);
        if earlier.is_some_and(|e| now - e.since < options.takeover_after_ms) {
            return Err(Error::in_use(format!(
                "Another active subscription exists for consumer {consumer_arn} and shard {shard}."
            )));
        }
        found
            .subscriptions
            .insert(consumer_arn.to_owned(), Connection { id, since: now });
        found.bell.notify_waiters();
        Ok(Subscription {
            id,
            stream: name,
            stream_id,
            consumer_arn: consumer_arn.to_owned(),
            shard: found.origin.shard,
            from,
            since: now,
            silent_since: None,
            ended: false,
            rate: Quota::new(BYTES_PER_SECOND),
            bell: Arc::clone(&found.bell),
        })
    }

    /// What the subscription has to say at `now`.
    ///
    /// # Errors
    /// `ResourceInUse` once another subscription took over; `ResourceNotFound` once stream or consumer are gone.
    pub fn next_step(&mut self, subscription: &mut Subscription, now: i64) -> Result<Step> {
        if subscription.ended {
            return Ok(Step::End);
        }
        let consumer = self.describe_consumer_by_arn(&subscription.consumer_arn, now)?;
        let (stream, options) = self.live_stream(&subscription.stream, now)?;
        if stream.id != subscription.stream_id || consumer.status == ConsumerStatus::Deleting {
            let message = format!("Consumer {} was deregistered.", subscription.consumer_arn);
            return Err(Error::not_found(message));
        }
        let id = super::shard::shard_id(subscription.shard);
        let shard = stream.shard(&id, &options.account, now)?;
        let latest = shard.subscriptions.get(&subscription.consumer_arn);
        if latest.is_none_or(|latest| latest.id != subscription.id) {
            let arn = &subscription.consumer_arn;
            return Err(Error::in_use(format!(
                "Another subscription of consumer {arn} took over."
            )));
        }
        let ends_at = subscription.since + options.subscription_ms;
        if now >= ends_at {
            subscription.ended = true;
            return Ok(Step::End);
        }
        if options.enforce_throughput && subscription.rate.room(now) == 0 {
            return Ok(Step::Wait((now + RATE_POLL_MS).min(ends_at)));
        }
        let (records, rest) = shard.read(subscription.from, MAX_RECORDS, options.event_bytes);
        if let Some(last) = records.last() {
            let place = shard
                .origin
                .place_after(last.sequence_number().index(), now);
            let behind = millis_behind(&records, rest, now);
            return Ok(subscription.event(records, place, behind, now));
        }
        Ok(subscription.without_records(stream, options, ends_at, now))
    }
}

impl Subscription {
    fn event(&mut self, records: Vec<Record>, place: Sequence, behind: i64, now: i64) -> Step {
        self.from = place;
        self.silent_since = Some(now);
        self.rate
            .charge(records.iter().map(Record::size).sum(), now);
        Step::Event(SubscribeEvent {
            records,
            continuation: Some(place),
            millis_behind_latest: behind,
            child_shards: Vec::new(),
        })
    }

    /// All records are sent: the shard has ended, or a heartbeat is due, or there is time until then.
    fn without_records(
        &mut self,
        stream: &Stream,
        options: &ModelOptions,
        ends_at: i64,
        now: i64,
    ) -> Step {
        let shard = &stream.shards[self.shard as usize];
        if !shard.is_open() {
            self.ended = true;
            return Step::Event(SubscribeEvent {
                records: Vec::new(),
                continuation: None,
                millis_behind_latest: 0,
                child_shards: children_of(stream, self.shard),
            });
        }
        match self.silent_since.map(|since| since + options.heartbeat_ms) {
            Some(heartbeat_at) if now < heartbeat_at => {
                // A change under way may close the shard, and nobody rings when it is due.
                let changes_at = stream.changes_at().unwrap_or(ends_at);
                Step::Wait(heartbeat_at.min(ends_at).min(changes_at))
            }
            _ => self.event(Vec::new(), shard.tip(now), 0, now),
        }
    }
}

#[cfg(test)]
mod tests;
