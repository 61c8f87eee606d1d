//! One stored record. It is encoded once, when it is put, as the CBOR map a GetRecords answer holds; payload and key are
//! slices of that encoding, so a record costs its bytes once. JSON is written from the same bytes at reading: base64 by
//! SIMD is nearly as fast as copying and would cost a third more memory to keep.

use bytes::Bytes;

use super::sequence::{DIGITS, Sequence};

/// Offset of the digits of the sequence number: map head, "SequenceNumber" with its head, text head of two bytes.
const DIGITS_AT: usize = 1 + 15 + 2;

/// A record as it lies in a shard. Cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Record {
    sequence: Sequence,
    arrival_ms: i64,
    cbor: Bytes,
    key: (u32, u32),
    data: (u32, u32),
    encrypted: bool,
}

impl Record {
    /// Its sequence number.
    #[must_use]
    pub fn sequence_number(&self) -> Sequence {
        self.sequence
    }

    /// When it arrived, epoch milliseconds; never less than its predecessor's.
    #[must_use]
    pub fn arrival_ms(&self) -> i64 {
        self.arrival_ms
    }

    /// The partition key.
    #[must_use]
    pub fn partition_key(&self) -> &str {
        std::str::from_utf8(&self.cbor[range(self.key)]).unwrap_or_default()
    }

    /// The payload, sharing memory with the record.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.cbor.slice(range(self.data))
    }

    /// Whether the stream was encrypted when the record was put.
    #[must_use]
    pub fn encrypted(&self) -> bool {
        self.encrypted
    }

    /// Payload and key bytes: what the size rules of the service count.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.key.1) + u64::from(self.data.1)
    }

    /// The record as a CBOR map.
    #[must_use]
    pub fn cbor(&self) -> &Bytes {
        &self.cbor
    }

    /// Appends the record as a JSON object.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"SequenceNumber\":\"");
        out.extend_from_slice(&self.cbor[DIGITS_AT..DIGITS_AT + DIGITS]);
        out.extend_from_slice(b"\",\"ApproximateArrivalTimestamp\":");
        write_seconds(out, self.arrival_ms);
        out.extend_from_slice(b",\"Data\":\"");
        base64_simd::STANDARD.encode_append(&self.cbor[range(self.data)], out);
        out.extend_from_slice(b"\",\"PartitionKey\":");
        write_json_string(out, &self.cbor[range(self.key)], self.partition_key());
        if self.encrypted {
            out.extend_from_slice(b",\"EncryptionType\":\"KMS\"");
        }
        out.push(b'}');
    }
}

/// Writes records of one call into one allocation.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    out: Vec<u8>,
    drafts: Vec<Draft>,
}

#[derive(Debug)]
struct Draft {
    sequence: Sequence,
    arrival_ms: i64,
    start: usize,
    end: usize,
    key: (u32, u32),
    data: (u32, u32),
    encrypted: bool,
}

impl Encoder {
    /// Room for this many payload and key bytes in this many records.
    pub(crate) fn with_capacity(records: usize, bytes: usize) -> Self {
        Self {
            out: Vec::with_capacity(bytes + records * 192),
            drafts: Vec::with_capacity(records),
        }
    }

    /// Appends one record.
    pub(crate) fn push(
        &mut self,
        sequence: Sequence,
        arrival_ms: i64,
        key: &str,
        data: &[u8],
        encrypted: bool,
    ) {
        let start = self.out.len();
        self.out.push(if encrypted { 0xA5 } else { 0xA4 });
        self.text("SequenceNumber");
        self.head(3, DIGITS as u64);
        self.out.extend_from_slice(&sequence.digits());
        self.text("ApproximateArrivalTimestamp");
        self.out.push(0xC1); // tag 1; this protocol counts milliseconds, not the seconds of the standard
        self.head(0, u64::try_from(arrival_ms).unwrap_or(0));
        self.text("PartitionKey");
        self.head(3, key.len() as u64);
        let key_at = self.out.len() - start;
        self.out.extend_from_slice(key.as_bytes());
        self.text("Data");
        self.head(2, data.len() as u64);
        let data_at = self.out.len() - start;
        self.out.extend_from_slice(data);
        if encrypted {
            self.text("EncryptionType");
            self.text("KMS");
        }
        let (key, data) = (
            (small(key_at), small(key.len())),
            (small(data_at), small(data.len())),
        );
        self.drafts.push(Draft {
            sequence,
            arrival_ms,
            start,
            end: self.out.len(),
            key,
            data,
            encrypted,
        });
    }

    /// The records, in the order pushed.
    pub(crate) fn finish(mut self) -> Vec<Record> {
        self.out.shrink_to_fit();
        let all = Bytes::from(self.out);
        let record = |d: Draft| Record {
            sequence: d.sequence,
            arrival_ms: d.arrival_ms,
            cbor: all.slice(d.start..d.end),
            key: d.key,
            data: d.data,
            encrypted: d.encrypted,
        };
        self.drafts.into_iter().map(record).collect()
    }

    fn text(&mut self, text: &str) {
        self.head(3, text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    fn head(&mut self, major: u8, n: u64) {
        crate::local::front::cbor::write_head(&mut self.out, major, n);
    }
}

fn range(span: (u32, u32)) -> std::ops::Range<usize> {
    span.0 as usize..span.0 as usize + span.1 as usize
}

/// Records are at most 10 MiB.
fn small(n: usize) -> u32 {
    u32::try_from(n).expect("the size of a record was checked before it was stored")
}

/// Epoch seconds with three decimals.
pub(crate) fn write_seconds(out: &mut Vec<u8>, millis: i64) {
    use std::io::Write as _;
    let (secs, rest) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    write!(out, "{secs}.{rest:03}").expect("writing to a Vec cannot fail");
}

fn write_json_string(out: &mut Vec<u8>, raw: &[u8], text: &str) {
    if raw.iter().any(|b| *b < 0x20 || *b == b'"' || *b == b'\\') {
        serde_json::to_writer(out, text).expect("a str is always JSON");
    } else {
        out.push(b'"');
        out.extend_from_slice(raw);
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::model::sequence::Origin;

    #[test]
    fn both_encodings_say_the_same() {
        let sequence = Origin {
            shard: 1,
            created_secs: 5,
        }
        .record(9, 7_000);
        let big = vec![7u8; 70_000];
        for (key, data, encrypted) in [
            ("k", &b"hello"[..], false),
            ("a\"b\\c\nd", &[0xFF, 0x00], true),
            ("ключ", &[], false),
            ("k", &big, false),
        ] {
            let mut encoder = Encoder::with_capacity(2, data.len());
            encoder.push(sequence, 1_764_500_000_012, "before", b"x", false);
            encoder.push(sequence, 1_764_500_000_012, key, data, encrypted);
            let record = encoder.finish().pop().expect("two records");
            assert_eq!(
                (record.partition_key(), &record.data()[..], record.size()),
                (key, data, (key.len() + data.len()) as u64)
            );

            let mut json = Vec::new();
            record.write_json(&mut json);
            let json: serde_json::Value = serde_json::from_slice(&json).expect("valid JSON");
            assert_eq!(json["SequenceNumber"], sequence.to_string());
            assert_eq!(json["ApproximateArrivalTimestamp"], 1_764_500_000.012);
            assert_eq!(json["PartitionKey"], key);
            assert_eq!(json["Data"], base64_simd::STANDARD.encode_to_string(data));
            assert_eq!(json["EncryptionType"].as_str(), encrypted.then_some("KMS"));

            use crate::local::front::value::Value;
            let map = crate::local::front::cbor::read(record.cbor()).expect("valid CBOR");
            assert_eq!(
                map.get("SequenceNumber"),
                Some(&Value::from(sequence.to_string()))
            );
            assert_eq!(
                map.get("ApproximateArrivalTimestamp"),
                Some(&Value::Timestamp(1_764_500_000_012))
            );
            assert_eq!(map.get("PartitionKey"), Some(&Value::from(key.to_owned())));
            assert_eq!(map.get("Data"), Some(&Value::Bytes(record.data())));
            assert_eq!(map.get("EncryptionType").is_some(), encrypted);
        }
    }
}
