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

use super::Kinesis;
use super::consumer::ConsumerStatus;
use super::error::{Error, Result};
use super::quota::Quota;
use super::read::{MAX_RECORDS, StartingPosition, children_of, millis_behind, resolve};
use super::record::Record;
use super::sequence::Sequence;
use super::shard::ChildShard;

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
        let ends_at = subscription.since + self.options.subscription_ms;
        if subscription.ended {
            return Ok(Step::End);
        }
        let consumer = self.describe_consumer_by_arn(&subscription.consumer_arn, now)?;
        let (stream, options) = self.live_stream(&subscription.stream, now)?;
        if stream.id != subscription.stream_id || consumer.status == ConsumerStatus::Deleting {
            return Err(Error::not_found(format!(
                "Consumer {} was deregistered.",
                subscription.consumer_arn
            )));
        }
        let shard = stream.shard(
            &super::shard::shard_id(subscription.shard),
            &options.account,
            now,
        )?;
        if shard
            .subscriptions
            .get(&subscription.consumer_arn)
            .is_none_or(|latest| latest.id != subscription.id)
        {
            return Err(Error::in_use(format!(
                "Another subscription of consumer {} took over.",
                subscription.consumer_arn
            )));
        }
        if now >= ends_at {
            subscription.ended = true;
            return Ok(Step::End);
        }
        if options.enforce_throughput && subscription.rate.room(now) == 0 {
            return Ok(Step::Wait((now + RATE_POLL_MS).min(ends_at)));
        }
        let (records, rest) = shard.read(subscription.from, MAX_RECORDS, options.event_bytes);
        let millis_behind_latest = millis_behind(&records, rest, now);
        if let Some(last) = records.last() {
            let place = shard
                .origin
                .place_after(last.sequence_number().index(), now);
            subscription
                .rate
                .charge(records.iter().map(Record::size).sum(), now);
            return Ok(subscription.event(records, place, millis_behind_latest, now));
        }
        if !shard.is_open() {
            subscription.ended = true;
            let child_shards = children_of(stream, subscription.shard);
            return Ok(Step::Event(SubscribeEvent {
                records,
                continuation: None,
                millis_behind_latest,
                child_shards,
            }));
        }
        match subscription
            .silent_since
            .map(|since| since + options.heartbeat_ms)
        {
            Some(heartbeat_at) if now < heartbeat_at => {
                // A change under way may close the shard, and nobody rings when it is due.
                let changes_at = stream.changes_at().unwrap_or(ends_at);
                Ok(Step::Wait(heartbeat_at.min(ends_at).min(changes_at)))
            }
            _ => {
                let place = shard.tip(now);
                Ok(subscription.event(records, place, millis_behind_latest, now))
            }
        }
    }
}

impl Subscription {
    fn event(
        &mut self,
        records: Vec<Record>,
        place: Sequence,
        millis_behind_latest: i64,
        now: i64,
    ) -> Step {
        self.from = place;
        self.silent_since = Some(now);
        Step::Event(SubscribeEvent {
            records,
            continuation: Some(place),
            millis_behind_latest,
            child_shards: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SHARD_0, T0, payloads, put, with_stream};
    use super::super::{Code, ModelOptions, PutEntry};
    use super::*;
    use StartingPosition::{
        AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
    };

    fn with_consumer(options: ModelOptions) -> (Kinesis, String) {
        let mut kinesis = with_stream(1, options);
        let arn = kinesis
            .register_consumer("s", "c", T0)
            .expect("registered")
            .arn;
        (kinesis, arn)
    }

    fn event(kinesis: &mut Kinesis, subscription: &mut Subscription, now: i64) -> SubscribeEvent {
        match kinesis.next_step(subscription, now).expect("alive") {
            Step::Event(event) => event,
            other => panic!("expected an event, got {other:?}"),
        }
    }

    #[test]
    fn one_subscription_at_a_time() {
        let (mut kinesis, arn) = with_consumer(ModelOptions::default());
        let mut first = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
            .expect("subscribed");
        let code = |k: &mut Kinesis, at| {
            k.subscribe_to_shard(&arn, SHARD_0, &Latest, at)
                .map_err(|e| e.code)
        };
        assert_eq!(
            code(&mut kinesis, T0 + 4_999).map(drop),
            Err(Code::ResourceInUse)
        );
        event(&mut kinesis, &mut first, T0 + 4_999);
        let mut second = code(&mut kinesis, T0 + 5_000).expect("takes over");
        assert_eq!(
            kinesis
                .next_step(&mut first, T0 + 5_000)
                .map(drop)
                .map_err(|e| e.code),
            Err(Code::ResourceInUse)
        );
        event(&mut kinesis, &mut second, T0 + 5_000);
        assert_eq!(
            code(&mut kinesis, T0 + 9_999).map(drop),
            Err(Code::ResourceInUse),
            "5 s from the last success"
        );
        let other = kinesis
            .register_consumer("s", "d", T0)
            .expect("registered")
            .arn;
        assert!(
            kinesis
                .subscribe_to_shard(&other, SHARD_0, &Latest, T0 + 5_001)
                .is_ok(),
            "another consumer"
        );
    }

    #[test]
    fn who_may_not_subscribe() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            consumer_ms: 100,
            ..ModelOptions::default()
        });
        let other_stream = arn.replace("stream/s/", "stream/x/");
        let cases = [
            (arn.as_str(), SHARD_0, Latest, T0 + 99, Code::ResourceInUse),
            ("nonsense", SHARD_0, Latest, T0 + 100, Code::InvalidArgument),
            (
                &other_stream,
                SHARD_0,
                Latest,
                T0 + 100,
                Code::ResourceNotFound,
            ),
            (
                &arn.replace("/c:", "/d:"),
                SHARD_0,
                Latest,
                T0 + 100,
                Code::ResourceNotFound,
            ),
            (
                &arn,
                "shardId-000000000009",
                Latest,
                T0 + 100,
                Code::ResourceNotFound,
            ),
            (
                &arn,
                SHARD_0,
                AfterSequenceNumber("7".into()),
                T0 + 100,
                Code::InvalidArgument,
            ),
        ];
        for (arn, shard, position, at, code) in cases {
            let got = kinesis
                .subscribe_to_shard(arn, shard, &position, at)
                .map(drop)
                .map_err(|e| e.code);
            assert_eq!(got, Err(code), "{arn} {shard} {position:?}");
        }
        assert!(
            kinesis
                .subscribe_to_shard(&arn, SHARD_0, &Latest, T0 + 100)
                .is_ok(),
            "refused calls do not count"
        );
    }

    #[test]
    fn continuations_resume_exactly() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            event_bytes: 5,
            takeover_after_ms: 0,
            ..ModelOptions::default()
        });
        for data in ["a", "b", "c", "d", "e"] {
            put(&mut kinesis, data, T0);
        }
        let mut subscription = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, T0)
            .expect("subscribed");
        let first = event(&mut kinesis, &mut subscription, T0 + 7);
        assert_eq!(
            (payloads(&first.records), first.millis_behind_latest),
            (vec!["a".to_owned(), "b".to_owned()], 7)
        );
        let place = first.continuation.expect("open shard").to_string();
        for position in [AfterSequenceNumber(place.clone()), AtSequenceNumber(place)] {
            let mut again = kinesis
                .subscribe_to_shard(&arn, SHARD_0, &position, T0)
                .expect("subscribed");
            assert_eq!(
                payloads(&event(&mut kinesis, &mut again, T0).records),
                ["c", "d"],
                "{position:?}"
            );
            assert_eq!(
                payloads(&event(&mut kinesis, &mut again, T0).records),
                ["e"],
                "{position:?}"
            );
        }
        let mut at_time = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &AtTimestamp(T0 + 1), T0 + 1)
            .expect("subscribed");
        put(&mut kinesis, "f", T0 + 2);
        assert_eq!(
            payloads(&event(&mut kinesis, &mut at_time, T0 + 2).records),
            ["f"]
        );
    }

    #[test]
    fn silence_is_broken_by_heartbeats_and_records() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            takeover_after_ms: 0,
            ..ModelOptions::default()
        });
        put(&mut kinesis, "before", T0);
        let mut subscription = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
            .expect("subscribed");
        let first = event(&mut kinesis, &mut subscription, T0);
        assert!(first.records.is_empty() && first.child_shards.is_empty());
        assert!(
            matches!(kinesis.next_step(&mut subscription, T0 + 1), Ok(Step::Wait(until)) if until == T0 + 3_000)
        );
        let heartbeat = event(&mut kinesis, &mut subscription, T0 + 3_000);
        assert!(
            heartbeat.records.is_empty() && heartbeat.continuation > first.continuation,
            "the continuation moves on"
        );
        put(&mut kinesis, "after", T0 + 3_001);
        assert_eq!(
            payloads(&event(&mut kinesis, &mut subscription, T0 + 3_001).records),
            ["after"]
        );
        // A record put between a heartbeat and the resumption from it is not lost.
        let place = heartbeat.continuation.expect("open").to_string();
        let mut again = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &AfterSequenceNumber(place), T0 + 3_002)
            .expect("subscribed");
        assert_eq!(
            payloads(&event(&mut kinesis, &mut again, T0 + 3_002).records),
            ["after"]
        );
    }

    #[test]
    fn it_ends_after_five_minutes() {
        let (mut kinesis, arn) = with_consumer(ModelOptions::default());
        let mut subscription = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
            .expect("subscribed");
        event(&mut kinesis, &mut subscription, T0 + 299_998);
        assert!(
            matches!(kinesis.next_step(&mut subscription, T0 + 299_999), Ok(Step::Wait(until)) if until == T0 + 300_000)
        );
        for _ in 0..2 {
            assert!(matches!(
                kinesis.next_step(&mut subscription, T0 + 300_000),
                Ok(Step::End)
            ));
        }
    }

    #[test]
    fn a_closed_shard_ends_with_one_event_of_children() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            takeover_after_ms: 0,
            ..ModelOptions::default()
        });
        put(&mut kinesis, "last", T0);
        let mut live = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
            .expect("subscribed");
        event(&mut kinesis, &mut live, T0);
        kinesis.split_shard("s", SHARD_0, 5, T0).expect("split");
        let end = event(&mut kinesis, &mut live, T0);
        assert_eq!(
            (end.records.len(), end.continuation, end.child_shards.len()),
            (0, None, 2)
        );
        assert!(matches!(kinesis.next_step(&mut live, T0), Ok(Step::End)));

        let mut late = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, T0)
            .expect("subscribed");
        let records = event(&mut kinesis, &mut late, T0);
        assert_eq!(
            (payloads(&records.records), records.child_shards.len()),
            (vec!["last".to_owned()], 0)
        );
        let place = records
            .continuation
            .expect("the end is not yet told")
            .to_string();
        assert_eq!(event(&mut kinesis, &mut late, T0).child_shards.len(), 2);
        for position in [AfterSequenceNumber(place), Latest] {
            let mut again = kinesis
                .subscribe_to_shard(&arn, SHARD_0, &position, T0)
                .expect("subscribed");
            let end = event(&mut kinesis, &mut again, T0);
            assert_eq!(
                (end.records.len(), end.continuation, end.child_shards.len()),
                (0, None, 2),
                "{position:?}"
            );
        }
    }

    #[test]
    fn it_fails_when_its_consumer_or_stream_goes() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            consumer_ms: 0,
            ..ModelOptions::default()
        });
        let mut subscription = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &Latest, T0)
            .expect("subscribed");
        kinesis
            .deregister_consumer("s", "c", T0)
            .expect("deregistered");
        assert_eq!(
            kinesis
                .next_step(&mut subscription, T0)
                .map(drop)
                .map_err(|e| e.code),
            Err(Code::ResourceNotFound)
        );
    }

    #[test]
    fn it_carries_two_megabytes_a_second_when_enforced() {
        let (mut kinesis, arn) = with_consumer(ModelOptions {
            enforce_throughput: true,
            ..ModelOptions::default()
        });
        for i in 0..4 {
            kinesis
                .put_record(
                    "s",
                    &PutEntry::new("k", vec![0; (1 << 20) - 1]),
                    T0 + i * 1000,
                )
                .expect("put");
        }
        let now = T0 + 10_000;
        let mut subscription = kinesis
            .subscribe_to_shard(&arn, SHARD_0, &TrimHorizon, now)
            .expect("subscribed");
        for _ in 0..2 {
            assert_eq!(event(&mut kinesis, &mut subscription, now).records.len(), 1);
        }
        assert!(
            matches!(kinesis.next_step(&mut subscription, now), Ok(Step::Wait(until)) if until > now)
        );
        assert_eq!(
            event(&mut kinesis, &mut subscription, now + 1000)
                .records
                .len(),
            1
        );
    }
}
