//! The CBOR of `application/x-amz-cbor-1.1` as a codec of the SDK: the standard's, save that a timestamp (tag 1) counts
//! whole milliseconds where the standard has seconds. Lengths may be definite or indefinite, both ways.

mod reader;
mod writer;

use aws_smithy_cbor::codec::{CborCodec, CborDeserializer};
use aws_smithy_schema::codec::Codec;

use reader::Reader;
use writer::Writer;

/// The codec of Kinesis' CBOR.
#[derive(Debug, Default)]
pub(super) struct KinesisCodec(CborCodec);

impl Codec for KinesisCodec {
    type Serializer = Writer;
    type Deserializer<'a> = Reader<CborDeserializer<'a>>;

    fn create_serializer(&self) -> Writer {
        Writer::default()
    }

    fn create_deserializer<'a>(&self, input: &'a [u8]) -> Self::Deserializer<'a> {
        Reader(self.0.create_deserializer(input))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_kinesis::{
        operation::{
            get_shard_iterator::GetShardIteratorInput,
            list_shards::{ListShardsInput, ListShardsOutput},
        },
        primitives::DateTime,
        types::{ShardFilter, ShardFilterType, ShardIteratorType},
    };
    use aws_smithy_schema::{
        Schema,
        codec::FinishSerializer as _,
        serde::{SerializableStruct, ShapeDeserializer as _, ShapeSerializer as _},
    };

    use super::*;

    fn write(schema: &Schema<'_>, value: &dyn SerializableStruct) -> String {
        let mut writer = KinesisCodec::default().create_serializer();
        writer.write_struct(schema, value).expect("written");
        minicbor::display(&writer.finish()).to_string()
    }

    #[test]
    fn requests_carry_timestamps_as_whole_milliseconds_at_any_depth() {
        let input = GetShardIteratorInput::builder()
            .stream_name("orders")
            .shard_id("shardId-000000000000")
            .shard_iterator_type(ShardIteratorType::AtTimestamp)
            .timestamp(DateTime::from_millis(1_764_500_000_123))
            .build()
            .expect("complete");
        assert_eq!(
            write(GetShardIteratorInput::SCHEMA, &input),
            r#"{_ "StreamName": "orders", "ShardId": "shardId-000000000000", "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1(1764500000123)}"#
        );
        let filter = ShardFilter::builder()
            .r#type(ShardFilterType::AtTimestamp)
            .timestamp(DateTime::from_millis(1_764_500_000_001))
            .build()
            .expect("complete");
        let input = ListShardsInput::builder()
            .stream_name("orders")
            .max_results(7)
            .shard_filter(filter)
            .build()
            .expect("complete");
        assert_eq!(
            write(ListShardsInput::SCHEMA, &input),
            r#"{_ "StreamName": "orders", "MaxResults": 7, "ShardFilter": {_ "Type": "AT_TIMESTAMP", "Timestamp": 1(1764500000001)}}"#
        );
    }

    #[test]
    fn lists_and_blobs_are_written_without_member_names_in_them() {
        use aws_sdk_kinesis::{
            operation::put_records::PutRecordsInput, primitives::Blob,
            types::PutRecordsRequestEntry,
        };
        let entry = PutRecordsRequestEntry::builder()
            .data(Blob::new([1, 2, 3]))
            .partition_key("k")
            .build()
            .expect("complete");
        let input = PutRecordsInput::builder()
            .stream_name("orders")
            .records(entry)
            .build()
            .expect("complete");
        assert_eq!(
            write(PutRecordsInput::SCHEMA, &input),
            r#"{_ "Records": [_ {_ "Data": h'01 02 03', "PartitionKey": "k"}], "StreamName": "orders"}"#
        );
    }

    #[test]
    fn answers_are_read_with_either_kind_of_length() {
        // {"Shards": [{"ShardId": "s", "New": [1, {}]}], "NextToken": "t", "Unknown": {_ "a": [_ 1]}}
        let definite = b"\xa3\x66Shards\x81\xa2\x67ShardId\x61s\x63New\x82\x01\xa0\x69NextToken\x61t\x67Unknown\xbf\x61a\x9f\x01\xff\xff";
        let indefinite =
            b"\xbf\x66Shards\x9f\xbf\x67ShardId\x7f\x61s\xff\xff\xff\x69NextToken\x61t\xff";
        for body in [&definite[..], &indefinite[..]] {
            let mut reader = KinesisCodec::default().create_deserializer(body);
            let mut seen = Vec::new();
            reader
                .read_struct(ListShardsOutput::SCHEMA, &mut |member, value| match member
                    .member_name()
                {
                    Some("Shards") => value.read_list(member, &mut |shard| {
                        let schema = aws_sdk_kinesis::types::Shard::SCHEMA;
                        shard.read_struct(schema, &mut |member, value| {
                            if member.member_name() == Some("ShardId") {
                                seen.push(value.read_string(member)?);
                                return Ok(());
                            }
                            value.skip_value()
                        })
                    }),
                    Some(_) => {
                        seen.push(value.read_string(member)?);
                        Ok(())
                    }
                    None => value.skip_value(),
                })
                .expect("read");
            assert_eq!(seen, ["s", "t"]);
        }
    }

    #[test]
    fn timestamps_in_answers_are_milliseconds_with_or_without_a_fraction() {
        let schema = &aws_smithy_schema::prelude::TIMESTAMP;
        for (body, millis) in [
            (
                &b"\xc1\x1b\x00\x00\x01\x9a\xd4\x4d\x1d\x7b"[..],
                0x019a_d44d_1d7b,
            ),
            (b"\xc1\x00", 0),
            (b"\xc1\x20", -1),
            // 1.5
            (b"\xc1\xfb\x3f\xf8\0\0\0\0\0\0", 1),
        ] {
            let mut reader = KinesisCodec::default().create_deserializer(body);
            let time = reader.read_timestamp(schema).expect("a time");
            assert_eq!(time.to_millis().expect("in range"), millis);
        }
        let mut reader = KinesisCodec::default().create_deserializer(b"\x61x");
        reader.read_timestamp(schema).expect_err("no timestamp");
    }
}
