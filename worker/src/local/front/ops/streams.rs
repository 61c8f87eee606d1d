//! Operations on streams and their settings.

use super::super::args::{Args, required};
use super::super::value::Value;
use super::shards::shard_value;
use super::{after_token, name_token, stream_name};
use crate::local::model::{
    CreateStream, Error, Kinesis, Metric, Result, StreamMode, StreamSummary,
};
use crate::local::shared::SharedKinesis;

const LIST_STREAMS: u8 = 3;
/// On-demand streams an account may have; told, not enforced.
const ON_DEMAND_LIMIT: i64 = 50;

pub(super) fn create_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = required("StreamName", args.text("StreamName")?)?.to_owned();
    let shards = args
        .int_within("ShardCount", 1, 1_000_000)?
        .and_then(|n| u32::try_from(n).ok());
    let mode = args
        .map("StreamModeDetails")?
        .map(mode)
        .transpose()?
        .unwrap_or(StreamMode::Provisioned);
    let tags = args.text_map("Tags")?;
    let mut kinesis = kinesis.lock();
    kinesis.create_stream(
        CreateStream {
            name: name.clone(),
            mode,
            shards,
        },
        now,
    )?;
    if let Some(tags) = tags {
        kinesis.add_tags(&name, tags, now)?;
    }
    Ok(Value::empty())
}

fn mode(details: Args<'_>) -> Result<StreamMode> {
    StreamMode::parse(required("StreamMode", details.text("StreamMode")?)?)
}

pub(super) fn delete_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let enforce = args.bool("EnforceConsumerDeletion")?.unwrap_or(false);
    kinesis.lock().delete_stream(&name, enforce, now)?;
    Ok(Value::empty())
}

pub(super) fn describe_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let limit = args.page_size("Limit", 100, 10_000)?;
    let after = args.text("ExclusiveStartShardId")?;
    let found = kinesis.lock().describe_stream(&name, after, limit, now)?;
    let description = describe(&found.summary)
        .with(
            "Shards",
            Some(Value::list(found.shards.iter().map(shard_value))),
        )
        .with("HasMoreShards", Some(found.more));
    Ok(Value::map([("StreamDescription", description)]))
}

pub(super) fn describe_stream_summary(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let summary = kinesis.lock().describe_stream_summary(&name, now)?;
    let description = describe(&summary)
        .with("OpenShardCount", Some(summary.open_shards))
        .with("ConsumerCount", Some(summary.consumers))
        .with(
            "MaxRecordSizeInKiB",
            Some(i64::try_from(summary.max_record_bytes >> 10).unwrap_or(i64::MAX)),
        );
    Ok(Value::map([("StreamDescriptionSummary", description)]))
}

/// What both descriptions have in common.
fn describe(summary: &StreamSummary) -> Value<'static> {
    let metrics = Value::map([("ShardLevelMetrics", metric_names(&summary.metrics))]);
    Value::map([
        ("StreamName", summary.name.clone().into()),
        ("StreamARN", summary.arn.clone().into()),
        ("StreamStatus", summary.status.name().into()),
        (
            "StreamModeDetails",
            Value::map([("StreamMode", summary.mode.name().into())]),
        ),
        ("RetentionPeriodHours", summary.retention_hours.into()),
        (
            "StreamCreationTimestamp",
            Value::Timestamp(summary.created_ms),
        ),
        ("EnhancedMonitoring", Value::List(vec![metrics])),
        (
            "EncryptionType",
            if summary.encryption_key.is_some() {
                "KMS"
            } else {
                "NONE"
            }
            .into(),
        ),
    ])
    .with("KeyId", summary.encryption_key.clone())
}

fn metric_names(metrics: &[Metric]) -> Value<'static> {
    Value::list(metrics.iter().map(|metric| metric.name()))
}

pub(super) fn list_streams(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let limit = args.page_size("Limit", 100, 10_000)?;
    let by_token = after_token(kinesis, LIST_STREAMS, args.text("NextToken")?, now)?;
    let after = by_token
        .as_deref()
        .or(args.text("ExclusiveStartStreamName")?);
    let page = kinesis.lock().list_streams(after, limit, now);
    let summary = |s: &StreamSummary| {
        Value::map([
            ("StreamName", s.name.clone().into()),
            ("StreamARN", s.arn.clone().into()),
            ("StreamStatus", s.status.name().into()),
            (
                "StreamModeDetails",
                Value::map([("StreamMode", s.mode.name().into())]),
            ),
            ("StreamCreationTimestamp", Value::Timestamp(s.created_ms)),
        ])
    };
    let next = page
        .streams
        .last()
        .filter(|_| page.more)
        .map(|last| name_token(LIST_STREAMS, &last.name, now));
    let answer = Value::map([
        (
            "StreamNames",
            Value::list(page.streams.iter().map(|s| s.name.clone())),
        ),
        ("HasMoreStreams", page.more.into()),
        (
            "StreamSummaries",
            Value::list(page.streams.iter().map(summary)),
        ),
    ]);
    Ok(answer.with("NextToken", next))
}

pub(super) fn describe_limits(kinesis: &SharedKinesis, now: i64) -> Value<'static> {
    let mut kinesis = kinesis.lock();
    let (open, on_demand) = kinesis.usage(now);
    Value::map([
        ("ShardLimit", kinesis.options().shard_limit.into()),
        ("OpenShardCount", open.into()),
        ("OnDemandStreamCount", on_demand.into()),
        ("OnDemandStreamCountLimit", ON_DEMAND_LIMIT.into()),
    ])
}

type ChangeRetention = fn(&mut Kinesis, &str, i64, i64) -> Result<()>;

pub(super) fn retention(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    change: ChangeRetention,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let hours = required("RetentionPeriodHours", args.int("RetentionPeriodHours")?)?;
    change(&mut kinesis.lock(), &name, hours, now)?;
    Ok(Value::empty())
}

pub(super) fn monitoring(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    on: bool,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let mut metrics = Vec::new();
    for metric in required("ShardLevelMetrics", args.texts("ShardLevelMetrics")?)? {
        metrics.extend(Metric::parse(&metric)?);
    }
    let mut kinesis = kinesis.lock();
    let (before, after) = kinesis.set_metrics(&name, &metrics, on, now)?;
    Ok(Value::map([
        ("StreamName", name.clone().into()),
        ("CurrentShardLevelMetrics", metric_names(&before)),
        ("DesiredShardLevelMetrics", metric_names(&after)),
        ("StreamARN", kinesis.stream_arn(&name).into()),
    ]))
}

pub(super) fn update_stream_mode(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let mode = mode(required(
        "StreamModeDetails",
        args.map("StreamModeDetails")?,
    )?)?;
    kinesis.lock().update_mode(&name, mode, now)?;
    Ok(Value::empty())
}

pub(super) fn update_max_record_size(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let kib = required(
        "MaxRecordSizeInKiB",
        args.int_within("MaxRecordSizeInKiB", 1024, 10_240)?,
    )?;
    kinesis
        .lock()
        .update_max_record_size(&name, kib.unsigned_abs(), now)?;
    Ok(Value::empty())
}

pub(super) fn start_encryption(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let kind = required("EncryptionType", args.text("EncryptionType")?)?;
    if kind != "KMS" {
        return Err(Error::constraint(
            kind,
            "encryptionType",
            "Member must satisfy enum value set: [KMS]",
        ));
    }
    let key = required("KeyId", args.text("KeyId")?)?;
    kinesis
        .lock()
        .set_encryption(&name, Some(key.to_owned()), now)?;
    Ok(Value::empty())
}

pub(super) fn stop_encryption(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    kinesis.lock().set_encryption(&name, None, now)?;
    Ok(Value::empty())
}

pub(super) fn add_tags_to_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let tags = required("Tags", args.text_map("Tags")?)?;
    kinesis.lock().add_tags(&name, tags, now)?;
    Ok(Value::empty())
}

pub(super) fn remove_tags_from_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let keys = required("TagKeys", args.texts("TagKeys")?)?;
    kinesis.lock().remove_tags(&name, &keys, now)?;
    Ok(Value::empty())
}

pub(super) fn list_tags_for_stream(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let limit = args.page_size("Limit", 50, 50)?;
    let (tags, more) =
        kinesis
            .lock()
            .list_tags(&name, args.text("ExclusiveStartTagKey")?, limit, now)?;
    Ok(Value::map([
        ("Tags", tag_list(tags)),
        ("HasMoreTags", more.into()),
    ]))
}

pub(super) fn tag_resource(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = resource_name(kinesis, args)?;
    let tags = required("Tags", args.text_map("Tags")?)?;
    kinesis.lock().add_tags(&name, tags, now)?;
    Ok(Value::empty())
}

pub(super) fn untag_resource(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = resource_name(kinesis, args)?;
    let keys = required("TagKeys", args.texts("TagKeys")?)?;
    kinesis.lock().remove_tags(&name, &keys, now)?;
    Ok(Value::empty())
}

pub(super) fn list_tags_for_resource(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = resource_name(kinesis, args)?;
    let (tags, _) = kinesis.lock().list_tags(&name, None, usize::MAX, now)?;
    Ok(Value::map([("Tags", tag_list(tags))]))
}

/// The stream whose tags are meant; consumers have none here.
fn resource_name(kinesis: &SharedKinesis, args: Args<'_>) -> Result<String> {
    let arn = required("ResourceARN", args.text("ResourceARN")?)?;
    if arn.contains("/consumer/") {
        return Err(Error::invalid("tags of consumers are not kept here"));
    }
    kinesis.lock().stream_name_in_arn(arn)
}

fn tag_list(tags: Vec<(String, String)>) -> Value<'static> {
    Value::list(
        tags.into_iter()
            .map(|(key, value)| Value::map([("Key", key.into()), ("Value", value.into())])),
    )
}
