//! The operations of the API: members in, model called, answer out.

mod consumers;
mod records;
mod shards;
mod streams;

use super::args::{Args, required};
use super::value::Value;
use crate::local::model::{
    Code, Error, GetRecords, Kinesis, Opened, Result, Seal, StartingPosition, Subscription,
};
use crate::local::shared::SharedKinesis;

/// What an operation answers with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Members, written in the protocol of the request.
    Value(Value<'static>),
    /// Records, whose encoding is at hand.
    Page(GetRecords),
    /// A stream of events.
    Subscription(Box<Subscription>),
}

/// Carries out an operation at `now`.
///
/// # Errors
/// Whatever the model refuses; `UnknownOperation` for names that are none.
pub(crate) fn call(
    kinesis: &SharedKinesis,
    operation: &str,
    args: Args<'_>,
    now: i64,
) -> Result<Answer> {
    let value = match operation {
        "GetRecords" => return records::get_records(kinesis, args, now).map(Answer::Page),
        "SubscribeToShard" => {
            return consumers::subscribe_to_shard(kinesis, args, now)
                .map(|s| Answer::Subscription(Box::new(s)));
        }
        "AddTagsToStream" => streams::add_tags_to_stream(kinesis, args, now),
        "CreateStream" => streams::create_stream(kinesis, args, now),
        "DecreaseStreamRetentionPeriod" => {
            streams::retention(kinesis, args, Kinesis::decrease_retention, now)
        }
        "DeleteStream" => streams::delete_stream(kinesis, args, now),
        "DeregisterStreamConsumer" => consumers::deregister(kinesis, args, now),
        "DescribeLimits" => Ok(streams::describe_limits(kinesis, now)),
        "DescribeStream" => streams::describe_stream(kinesis, args, now),
        "DescribeStreamConsumer" => consumers::describe(kinesis, args, now),
        "DescribeStreamSummary" => streams::describe_stream_summary(kinesis, args, now),
        "DisableEnhancedMonitoring" => streams::monitoring(kinesis, args, false, now),
        "EnableEnhancedMonitoring" => streams::monitoring(kinesis, args, true, now),
        "GetShardIterator" => records::get_shard_iterator(kinesis, args, now),
        "IncreaseStreamRetentionPeriod" => {
            streams::retention(kinesis, args, Kinesis::increase_retention, now)
        }
        "ListShards" => shards::list_shards(kinesis, args, now),
        "ListStreamConsumers" => consumers::list(kinesis, args, now),
        "ListStreams" => streams::list_streams(kinesis, args, now),
        "ListTagsForResource" => streams::list_tags_for_resource(kinesis, args, now),
        "ListTagsForStream" => streams::list_tags_for_stream(kinesis, args, now),
        "MergeShards" => shards::merge_shards(kinesis, args, now),
        "PutRecord" => records::put_record(kinesis, args, now),
        "PutRecords" => records::put_records(kinesis, args, now),
        "RegisterStreamConsumer" => consumers::register(kinesis, args, now),
        "RemoveTagsFromStream" => streams::remove_tags_from_stream(kinesis, args, now),
        "SplitShard" => shards::split_shard(kinesis, args, now),
        "StartStreamEncryption" => streams::start_encryption(kinesis, args, now),
        "StopStreamEncryption" => streams::stop_encryption(kinesis, args, now),
        "TagResource" => streams::tag_resource(kinesis, args, now),
        "UntagResource" => streams::untag_resource(kinesis, args, now),
        "UpdateMaxRecordSize" => streams::update_max_record_size(kinesis, args, now),
        "UpdateShardCount" => shards::update_shard_count(kinesis, args, now),
        "UpdateStreamMode" => streams::update_stream_mode(kinesis, args, now),
        _ => {
            return Err(Error::new(
                Code::UnknownOperation,
                format!("{operation} is not an operation of this Kinesis"),
            ));
        }
    };
    value.map(Answer::Value)
}

/// The stream a request is about, by name or by ARN.
fn stream_name(kinesis: &SharedKinesis, args: Args<'_>) -> Result<String> {
    let (name, arn) = (args.text("StreamName")?, args.text("StreamARN")?);
    let by_arn = arn
        .map(|arn| kinesis.lock().stream_name_in_arn(arn))
        .transpose()?;
    match (name, by_arn) {
        (Some(name), Some(by_arn)) if name != by_arn => Err(Error::invalid(format!(
            "StreamName {name} and StreamARN of stream {by_arn} are different streams"
        ))),
        (Some(name), _) => Ok(name.to_owned()),
        (None, Some(by_arn)) => Ok(by_arn),
        (None, None) => Err(Error::new(
            Code::Validation,
            "Either StreamName or StreamARN must be given",
        )),
    }
}

/// The members that say where to start; GetShardIterator and SubscribeToShard name them differently.
fn starting_position(
    args: Args<'_>,
    kind: &str,
    sequence_number: &str,
) -> Result<StartingPosition> {
    let sequence = || {
        let text = args.text(sequence_number)?;
        text.map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!("{sequence_number} must be given with this {kind}"))
        })
    };
    match required(kind, args.text(kind)?)? {
        "AT_SEQUENCE_NUMBER" => sequence().map(StartingPosition::AtSequenceNumber),
        "AFTER_SEQUENCE_NUMBER" => sequence().map(StartingPosition::AfterSequenceNumber),
        "TRIM_HORIZON" => Ok(StartingPosition::TrimHorizon),
        "LATEST" => Ok(StartingPosition::Latest),
        "AT_TIMESTAMP" => {
            let at = args.timestamp("Timestamp")?;
            at.map(StartingPosition::AtTimestamp)
                .ok_or_else(|| Error::invalid("Timestamp must be given with AT_TIMESTAMP"))
        }
        other => {
            let set =
                "[AT_SEQUENCE_NUMBER, AFTER_SEQUENCE_NUMBER, TRIM_HORIZON, LATEST, AT_TIMESTAMP]";
            Err(Error::constraint(
                other,
                kind,
                &format!("Member must satisfy enum value set: {set}"),
            ))
        }
    }
}

/// A paging token that says behind which name the next page begins, in the listing it was made for.
fn name_token(listing: u8, after: &str, now: i64) -> String {
    Seal::new(listing).text(after).number(now).close()
}

/// Where a page begins: behind the name in the token, if there is one.
fn after_token(
    kinesis: &SharedKinesis,
    listing: u8,
    token: Option<&str>,
    now: i64,
) -> Result<Option<String>> {
    let Some(token) = token else { return Ok(None) };
    let read = || {
        let mut open = Opened::new(listing, token)?;
        Some((open.text()?, open.number()?))
    };
    let (after, issued) =
        read().ok_or_else(|| Error::invalid("NextToken is not a token of this operation"))?;
    if now - issued > kinesis.lock().options().iterator_ttl_ms {
        return Err(Error::new(
            Code::ExpiredNextToken,
            "NextToken has expired; list from the beginning",
        ));
    }
    Ok(Some(after))
}

/// Hash keys are decimal text on the wire.
pub(crate) fn hash_key_range(start: u128, end: u128) -> Value<'static> {
    Value::map([
        ("StartingHashKey", start.to_string().into()),
        ("EndingHashKey", end.to_string().into()),
    ])
}
