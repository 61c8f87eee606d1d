//! What the tests of the operations share.

use super::{CreateStream, GetRecords, Kinesis, ModelOptions, PutEntry, Result, StartingPosition};

/// An arbitrary time; nothing depends on it.
pub(crate) const T0: i64 = 1_764_500_000_000;
pub(crate) const SHARD_0: &str = "shardId-000000000000";

/// A Kinesis with the ACTIVE stream `s`, created at [`T0`].
pub(crate) fn with_stream(shards: u32, options: ModelOptions) -> Kinesis {
    let mut kinesis = Kinesis::new(options);
    kinesis
        .create_stream(CreateStream::provisioned("s", shards), T0)
        .expect("created");
    kinesis
}

/// Puts a record into the shard that holds hash key 0.
pub(crate) fn put(kinesis: &mut Kinesis, data: &str, now: i64) -> String {
    let entry = PutEntry::new("k", data.to_owned()).at(0);
    kinesis
        .put_record("s", &entry, now)
        .expect("put")
        .sequence_number
        .to_string()
}

/// One page from a position of a shard.
pub(crate) fn read(
    kinesis: &mut Kinesis,
    shard: &str,
    position: &StartingPosition,
    now: i64,
) -> Result<GetRecords> {
    let iterator = kinesis.get_shard_iterator("s", shard, position, now)?;
    kinesis.get_records(&iterator, None, now)
}

/// The payloads of a page as text.
pub(crate) fn payloads(records: &[super::Record]) -> Vec<String> {
    records
        .iter()
        .map(|r| String::from_utf8(r.data().to_vec()).expect("text"))
        .collect()
}
