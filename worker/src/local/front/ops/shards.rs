//! Operations on shards.

use super::super::args::{Args, required};
use super::super::value::Value;
use super::{hash_key_range, stream_name};
use crate::local::model::{Error, MAX_RESULTS, Result, ShardFilter, ShardInfo, explicit_hash_key};
use crate::local::shared::SharedKinesis;

/// Shards on a page unless the request says otherwise.
const DEFAULT_RESULTS: usize = 1000;

pub(super) fn list_shards(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let max = args
        .page_size("MaxResults", DEFAULT_RESULTS, 10_000)?
        .min(MAX_RESULTS);
    let page = if let Some(token) = args.text("NextToken")? {
        for name in [
            "StreamName",
            "StreamCreationTimestamp",
            "ExclusiveStartShardId",
            "ShardFilter",
        ] {
            if args.0.get(name).is_some() {
                return Err(Error::invalid(format!(
                    "NextToken and {name} cannot be provided together."
                )));
            }
        }
        kinesis.lock().list_shards_next(token, max, now)?
    } else {
        let name = stream_name(kinesis, args)?;
        let filter = args
            .map("ShardFilter")?
            .map(shard_filter)
            .transpose()?
            .unwrap_or(ShardFilter::FromTrimHorizon);
        kinesis.lock().list_shards(
            &name,
            &filter,
            args.text("ExclusiveStartShardId")?,
            max,
            now,
        )?
    };
    Ok(
        Value::map([("Shards", Value::list(page.shards.iter().map(shard_value)))])
            .with("NextToken", page.next_token),
    )
}

fn shard_filter(args: Args<'_>) -> Result<ShardFilter> {
    let kind = required("Type", args.text("Type")?)?;
    let at = || {
        args.timestamp("Timestamp")?.ok_or_else(|| {
            Error::invalid(format!(
                "Timestamp must be given with ShardFilter type {kind}"
            ))
        })
    };
    match kind {
        "AFTER_SHARD_ID" => {
            let id = args.text("ShardId")?.ok_or_else(|| {
                Error::invalid("ShardId must be given with ShardFilter type AFTER_SHARD_ID")
            })?;
            Ok(ShardFilter::AfterShardId(id.to_owned()))
        }
        "AT_TRIM_HORIZON" => Ok(ShardFilter::AtTrimHorizon),
        "FROM_TRIM_HORIZON" => Ok(ShardFilter::FromTrimHorizon),
        "AT_LATEST" => Ok(ShardFilter::AtLatest),
        "AT_TIMESTAMP" => at().map(ShardFilter::AtTimestamp),
        "FROM_TIMESTAMP" => at().map(ShardFilter::FromTimestamp),
        other => {
            let set = "[AFTER_SHARD_ID, AT_TRIM_HORIZON, FROM_TRIM_HORIZON, AT_LATEST, AT_TIMESTAMP, FROM_TIMESTAMP]";
            Err(Error::constraint(
                other,
                "shardFilter.type",
                &format!("Member must satisfy enum value set: {set}"),
            ))
        }
    }
}

/// A shard as both listings tell it.
pub(super) fn shard_value(shard: &ShardInfo) -> Value<'static> {
    let range = Value::map([(
        "StartingSequenceNumber",
        shard.starting_sequence.to_string().into(),
    )])
    .with(
        "EndingSequenceNumber",
        shard.ending_sequence.map(|s| s.to_string()),
    );
    Value::map([("ShardId", shard.shard_id.clone().into())])
        .with("ParentShardId", shard.parent.clone())
        .with("AdjacentParentShardId", shard.adjacent_parent.clone())
        .with(
            "HashKeyRange",
            Some(hash_key_range(
                shard.starting_hash_key,
                shard.ending_hash_key,
            )),
        )
        .with("SequenceNumberRange", Some(range))
}

pub(super) fn split_shard(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let shard = required("ShardToSplit", args.text("ShardToSplit")?)?;
    let key = required("NewStartingHashKey", args.text("NewStartingHashKey")?)?;
    let key = explicit_hash_key("NewStartingHashKey", key)?;
    kinesis.lock().split_shard(&name, shard, key, now)?;
    Ok(Value::empty())
}

pub(super) fn merge_shards(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let shard = required("ShardToMerge", args.text("ShardToMerge")?)?;
    let adjacent = required("AdjacentShardToMerge", args.text("AdjacentShardToMerge")?)?;
    kinesis.lock().merge_shards(&name, shard, adjacent, now)?;
    Ok(Value::empty())
}

pub(super) fn update_shard_count(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let target = required(
        "TargetShardCount",
        args.int_within("TargetShardCount", 1, 1_000_000)?,
    )?;
    let scaling = required("ScalingType", args.text("ScalingType")?)?;
    if scaling != "UNIFORM_SCALING" {
        return Err(Error::constraint(
            scaling,
            "scalingType",
            "Member must satisfy enum value set: [UNIFORM_SCALING]",
        ));
    }
    let mut kinesis = kinesis.lock();
    let current =
        kinesis.update_shard_count(&name, u32::try_from(target).unwrap_or(u32::MAX), now)?;
    Ok(Value::map([
        ("StreamName", name.clone().into()),
        ("CurrentShardCount", current.into()),
        ("TargetShardCount", target.into()),
        ("StreamARN", kinesis.stream_arn(&name).into()),
    ]))
}
