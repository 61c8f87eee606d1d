//! Operations on records.

use super::super::args::{Args, required};
use super::super::value::Value;
use super::{starting_position, stream_name};
use crate::local::model::{Error, GetRecords, Placed, PutEntry, Result, ShardIterator};
use crate::local::shared::SharedKinesis;

pub(super) fn put_record(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let entry = entry(args)?;
    let placed = kinesis.lock().put_record(&name, &entry, now)?;
    let encryption = encryption_type(placed.encrypted);
    Ok(placed_value(placed).with("EncryptionType", Some(encryption)))
}

pub(super) fn put_records(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let records = required("Records", args.list("Records")?)?;
    let entries: Vec<PutEntry> = records
        .iter()
        .map(|record| entry(Args(record)))
        .collect::<Result<_>>()?;
    let results = kinesis.lock().put_records(&name, &entries, now)?;
    let failed = results.iter().filter(|r| r.is_err()).count();
    let encrypted = results.iter().flatten().any(|placed| placed.encrypted);
    let refused = |e: Error| {
        Value::map([
            ("ErrorCode", e.code.name().into()),
            ("ErrorMessage", e.message.into()),
        ])
    };
    let records = results
        .into_iter()
        .map(|result| result.map_or_else(refused, placed_value));
    Ok(Value::map([
        ("FailedRecordCount", failed.into()),
        ("Records", Value::list(records)),
        ("EncryptionType", encryption_type(encrypted).into()),
    ]))
}

fn entry(args: Args<'_>) -> Result<PutEntry> {
    Ok(PutEntry {
        partition_key: required("PartitionKey", args.text("PartitionKey")?)?.to_owned(),
        explicit_hash_key: args.text("ExplicitHashKey")?.map(str::to_owned),
        data: required("Data", args.blob("Data")?)?,
    })
}

fn placed_value(placed: Placed) -> Value<'static> {
    Value::map([
        ("ShardId", placed.shard_id.into()),
        ("SequenceNumber", placed.sequence_number.to_string().into()),
    ])
}

fn encryption_type(encrypted: bool) -> &'static str {
    if encrypted { "KMS" } else { "NONE" }
}

pub(super) fn get_shard_iterator(
    kinesis: &SharedKinesis,
    args: Args<'_>,
    now: i64,
) -> Result<Value<'static>> {
    let name = stream_name(kinesis, args)?;
    let shard = required("ShardId", args.text("ShardId")?)?;
    let position = starting_position(args, "ShardIteratorType", "StartingSequenceNumber")?;
    let iterator = kinesis
        .lock()
        .get_shard_iterator(&name, shard, &position, now)?;
    Ok(Value::map([("ShardIterator", iterator.to_string().into())]))
}

pub(super) fn get_records(kinesis: &SharedKinesis, args: Args<'_>, now: i64) -> Result<GetRecords> {
    let iterator: ShardIterator =
        required("ShardIterator", args.text("ShardIterator")?)?.parse()?;
    let limit = args
        .int_within("Limit", 1, 10_000)?
        .and_then(|n| usize::try_from(n).ok());
    if let Some(arn) = args.text("StreamARN")? {
        let name = kinesis.lock().stream_name_in_arn(arn)?;
        if name != iterator.stream_name() {
            return Err(Error::invalid(format!(
                "The ShardIterator is of stream {}, not of {arn}",
                iterator.stream_name()
            )));
        }
    }
    kinesis.lock().get_records(&iterator, limit, now)
}
