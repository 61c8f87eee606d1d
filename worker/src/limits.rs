//! The quotas of AWS this program lives by, each by its name. A number of AWS stands here and nowhere else.
//!
//! Taken from the public service documentation (Kinesis Data Streams "Quotas and limits" and API reference, DynamoDB
//! "Service quotas", IAM and STS API reference).

use std::time::Duration;

/// GetRecords calls per second and shard, over all consumers that poll.
pub const GET_RECORDS_PER_SHARD_AND_SECOND: u32 = 5;
/// Hence the shortest useful time between two GetRecords calls on one shard.
pub const GET_RECORDS_SHORTEST_INTERVAL: Duration =
    Duration::from_millis(1_000 / GET_RECORDS_PER_SHARD_AND_SECOND as u64);
/// Records one GetRecords call returns at most.
pub const GET_RECORDS_MOST_RECORDS: u32 = 10_000;
/// Bytes one GetRecords call returns at most.
pub const GET_RECORDS_MOST_BYTES: u64 = 10 << 20;
/// Bytes per second a shard gives to all consumers that poll it.
pub const SHARD_READ_BYTES_PER_SECOND: u64 = 2 << 20;
/// A shard iterator is refused (ExpiredIteratorException) once it is this old.
pub const SHARD_ITERATOR_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// GetShardIterator calls per second and shard.
pub const GET_SHARD_ITERATOR_PER_SHARD_AND_SECOND: u32 = 5;
/// Shards one ListShards call returns at most.
pub const LIST_SHARDS_MOST_SHARDS: i32 = 10_000;
/// A ListShards page token is refused once it is this old.
pub const LIST_SHARDS_TOKEN_LIFETIME: Duration = Duration::from_secs(300);
/// DescribeStreamSummary calls per second and account.
pub const DESCRIBE_STREAM_SUMMARY_PER_SECOND: u32 = 20;
/// The longest retention a stream can have.
pub const LONGEST_RETENTION: Duration = Duration::from_secs(8_760 * 3_600);
/// Records one PutRecords call takes at most.
pub const PUT_RECORDS_MOST_RECORDS: usize = 500;
/// Bytes one PutRecords call takes at most, keys included. AWS has allowed 10 MiB since 2025; other places did not
/// follow, and a larger call is hardly faster.
pub const PUT_RECORDS_MOST_BYTES: usize = 5 << 20;
/// Bytes of a record at most, key included, on a stream that is set to the most; the default of a stream is 1 MiB.
pub const RECORD_MOST_BYTES: usize = 10 << 20;
/// Characters of a record's partition key at most.
pub const RECORD_KEY_LONGEST: usize = 256;
/// Letters of a stream name at most.
pub const STREAM_NAME_LONGEST: usize = 128;

/// Letters of a DynamoDB table name at least.
pub const TABLE_NAME_SHORTEST: usize = 3;
/// Letters of a DynamoDB table name at most.
pub const TABLE_NAME_LONGEST: usize = 255;
/// Bytes of a partition key at most; the lease key and the worker id are such keys.
pub const PARTITION_KEY_MOST_BYTES: usize = 2_048;
/// Bytes of a DynamoDB item at most, names and values together.
pub const ITEM_MOST_BYTES: usize = 400 * 1_024;
/// Tags of a table at most.
pub const MOST_TAGS: usize = 50;
/// Characters of a tag's key at most.
pub const TAG_KEY_LONGEST: usize = 128;
/// Characters of a tag's value at most.
pub const TAG_VALUE_LONGEST: usize = 256;
/// Tag keys that begin like this belong to AWS.
pub const TAG_RESERVED_PREFIX: &str = "aws:";

/// Digits of an AWS account id.
pub const ACCOUNT_ID_DIGITS: usize = 12;
/// Characters of the external id of an assumed role at least.
pub const EXTERNAL_ID_SHORTEST: usize = 2;
/// Characters of the external id of an assumed role at most.
pub const EXTERNAL_ID_LONGEST: usize = 1_224;

/// One call of the SDK may take this long; the rules above have shorter patience where it matters.
pub const SDK_CALL_TIMEOUT: Duration = Duration::from_secs(30);
