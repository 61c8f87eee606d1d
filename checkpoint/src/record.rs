//! Records: as Kinesis returns them, and as a handler sees them.

use bytes::Bytes;

use crate::position::Position;
use crate::sequence::SequenceNumber;
use crate::text::ByteStr;

/// A moment as milliseconds since 1970-01-01T00:00:00Z, the resolution Kinesis stamps records with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// How the stream kept a record at rest, as GetRecords tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EncryptionType {
    /// `NONE`: not encrypted by the stream.
    None,
    /// `KMS`: encrypted with a key of the Key Management Service.
    Kms,
}

/// One record as GetRecords or SubscribeToShard returns it; its payload may be an aggregate of many user records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KinesisRecord {
    /// The payload.
    pub data: Bytes,
    /// The key it was put with; for an aggregate the producer's choice, without meaning (`"a"` from the KPL).
    pub partition_key: ByteStr,
    /// Its place in the shard.
    pub sequence: SequenceNumber,
    /// When Kinesis took it in, where the answer said so (`ApproximateArrivalTimestamp`).
    pub arrival: Option<Millis>,
    /// How it was kept at rest, where the answer said so.
    pub encryption: Option<EncryptionType>,
}

impl KinesisRecord {
    /// A record with nothing known but the three members that Kinesis always returns.
    pub fn new(
        sequence: SequenceNumber,
        partition_key: impl Into<ByteStr>,
        data: impl Into<Bytes>,
    ) -> Self {
        Self {
            data: data.into(),
            partition_key: partition_key.into(),
            sequence,
            arrival: None,
            encryption: None,
        }
    }
}

/// One record as a handler sees it: a plain Kinesis record, or one item of an aggregate.
///
/// Payload and keys of an item are slices of the Kinesis record; holding one keeps the whole of that alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// The payload, never copied.
    pub data: Bytes,
    /// The key its producer gave it.
    pub partition_key: ByteStr,
    /// The explicit hash key its producer gave it, verbatim. Always `None` on a plain record: GetRecords does not return it.
    pub explicit_hash_key: Option<ByteStr>,
    /// The sequence number of the Kinesis record, shared by all items of one aggregate.
    pub sequence: SequenceNumber,
    /// The zero-based index inside the aggregate, whatever a filter took out before it; 0 for a plain record.
    pub sub_sequence: u64,
    /// Whether it came out of an aggregate.
    pub aggregated: bool,
    /// When Kinesis took the Kinesis record in.
    pub arrival: Option<Millis>,
    /// How the Kinesis record was kept at rest.
    pub encryption: Option<EncryptionType>,
}

impl UserRecord {
    /// The position to checkpoint once this record is done.
    pub fn position(&self) -> Position {
        Position::at(self.sequence.clone(), self.sub_sequence)
    }
}

/// A Kinesis record that is not an aggregate, handed on as it is: an aggregate of one.
impl From<KinesisRecord> for UserRecord {
    fn from(record: KinesisRecord) -> Self {
        Self {
            data: record.data,
            partition_key: record.partition_key,
            explicit_hash_key: None,
            sequence: record.sequence,
            sub_sequence: 0,
            aggregated: false,
            arrival: record.arrival,
            encryption: record.encryption,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_record_is_handed_on_whole() {
        let sequence: SequenceNumber = "42".parse().expect("digits");
        let record = KinesisRecord {
            arrival: Some(Millis(7)),
            encryption: Some(EncryptionType::Kms),
            ..KinesisRecord::new(sequence.clone(), "key", Bytes::from_static(b"payload"))
        };
        let payload = record.data.as_ptr();
        let user = UserRecord::from(record);
        assert_eq!(user.data.as_ptr(), payload);
        assert_eq!(user.partition_key, "key");
        assert_eq!(
            (
                user.sub_sequence,
                user.aggregated,
                user.explicit_hash_key.as_ref()
            ),
            (0, false, None)
        );
        assert_eq!(
            (user.arrival, user.encryption),
            (Some(Millis(7)), Some(EncryptionType::Kms))
        );
        assert_eq!(user.position(), Position::at(sequence, 0));
    }
}
