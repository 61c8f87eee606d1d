//! Operations on registered consumers.

use super::super::args::{Args, required};
use super::super::value::Value;
use super::{after_token, name_token, starting_position};
use crate::local::model::{Code, Consumer, Error, Result, Subscription};
use crate::local::shared::SharedKinesis;

const LIST_CONSUMERS: u8 = 4;

pub(super) fn register(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let stream = stream_of(kinesis, args)?;
    let name = required("ConsumerName", args.text("ConsumerName")?)?;
    let consumer = kinesis.lock().register_consumer(&stream, name, now)?;
    Ok(Value::map([("Consumer", consumer_value(&consumer))]))
}

pub(super) fn describe(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let consumer = find(kinesis, args, now)?;
    let description = consumer_value(&consumer).with("StreamARN", Some(consumer.stream_arn));
    Ok(Value::map([("ConsumerDescription", description)]))
}

pub(super) fn deregister(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let consumer = find(kinesis, args, now)?;
    let mut kinesis = kinesis.lock();
    let stream = kinesis.stream_name_in_arn(&consumer.stream_arn)?;
    kinesis.deregister_consumer(&stream, &consumer.name, now)?;
    Ok(Value::empty())
}

pub(super) fn list(kinesis: &SharedKinesis, args: Args<'_>, now: i64) -> Result<Value<'static>> {
    let stream = stream_of(kinesis, args)?;
    let limit = args.page_size("MaxResults", 100, 10_000)?;
    let after = after_token(kinesis, LIST_CONSUMERS, args.text("NextToken")?, now)?;
    let page = kinesis
        .lock()
        .list_consumers(&stream, after.as_deref(), limit, now)?;
    let next = page
        .consumers
        .last()
        .filter(|_| page.more)
        .map(|last| name_token(LIST_CONSUMERS, &last.name, now));
    Ok(Value::map([(
        "Consumers",
        Value::list(page.consumers.iter().map(consumer_value)),
    )])
    .with("NextToken", next))
}

pub(super) fn subscribe_to_shard(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Subscription> {
    let arn = required("ConsumerARN", args.text("ConsumerARN")?)?;
    let shard = required("ShardId", args.text("ShardId")?)?;
    let position = required("StartingPosition", args.map("StartingPosition")?)?;
    let position = starting_position(position, "Type", "SequenceNumber")?;
    kinesis
        .lock()
        .subscribe_to_shard(arn, shard, &position, now)
}

/// Consumers are found by their ARN, or by that of their stream and their name.
fn find(kinesis: &SharedKinesis, args: Args<'_>, now: i64) -> Result<Consumer> {
    if let Some(arn) = args.text("ConsumerARN")? {
        return kinesis.lock().describe_consumer_by_arn(arn, now);
    }
    let (Some(stream), Some(name)) = (args.text("StreamARN")?, args.text("ConsumerName")?) else {
        return Err(Error::new(
            Code::Validation,
            "Either ConsumerARN or both StreamARN and ConsumerName must be given",
        ));
    };
    let mut kinesis = kinesis.lock();
    let stream = kinesis.stream_name_in_arn(stream)?;
    kinesis.describe_consumer(&stream, name, now)
}

fn stream_of(kinesis: &SharedKinesis, args: Args<'_>) -> Result<String> {
    let arn = required("StreamARN", args.text("StreamARN")?)?;
    kinesis.lock().stream_name_in_arn(arn)
}

fn consumer_value(consumer: &Consumer) -> Value<'static> {
    Value::map([
        ("ConsumerName", consumer.name.clone().into()),
        ("ConsumerARN", consumer.arn.clone().into()),
        ("ConsumerStatus", consumer.status.name().into()),
        (
            "ConsumerCreationTimestamp",
            Value::Timestamp(consumer.created_ms),
        ),
    ])
}
