//! Positions in a Kinesis shard, KPL user records and the watermark; no AWS, no async.

mod hash_key;
mod position;
mod record;
mod sequence;
mod text;

pub use hash_key::{HashKey, HashKeyError, HashRange};
pub use position::{Position, PositionError};
pub use record::{EncryptionType, KinesisRecord, Millis, UserRecord};
pub use sequence::{SequenceNumber, SequenceNumberError};
pub use text::ByteStr;
