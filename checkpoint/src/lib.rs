//! Positions in a Kinesis shard, KPL user records and the watermark; no AWS, no async.

mod aggregate;
mod hash_key;
mod md5_lanes;
mod position;
mod record;
mod sequence;
mod text;
mod tracker;

pub use aggregate::{
    AddError, Aggregated, Aggregator, Deaggregator, HashRangePolicy, PutRecord, Unpacked,
    deaggregate, deaggregate_range,
};
pub use hash_key::{HashKey, HashKeyError, HashRange};
pub use position::{Position, PositionError};
pub use record::{EncryptionType, KinesisRecord, Millis, UserRecord};
pub use sequence::{SequenceNumber, SequenceNumberError};
pub use text::ByteStr;
pub use tracker::{OutOfOrder, SettleThroughError, Ticket, Tracker, UnknownTicket};
