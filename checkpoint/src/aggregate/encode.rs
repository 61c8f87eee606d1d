//! Packs user records into one Kinesis record, as the KPL does.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use md5::{Digest, Md5};
use prost::Message;
use prost::length_delimiter_len;
use thiserror::Error;

use super::{DIGEST, MAGIC};
use crate::hash_key::HashKey;

/// One record to put: what a producer hands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRecord {
    /// Decides the shard by its MD5, unless there is an explicit hash key.
    pub partition_key: String,
    /// Decides the shard instead of the partition key.
    pub explicit_hash_key: Option<HashKey>,
    /// The payload.
    pub data: Bytes,
}

impl PutRecord {
    /// Where the record belongs in the hash key space.
    fn hash_key(&self) -> HashKey {
        self.explicit_hash_key
            .unwrap_or_else(|| HashKey::of_partition_key(&self.partition_key))
    }
}

/// A Kinesis record ready for PutRecord(s).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregated {
    /// The user record's own key where there is only one, else `"a"`, which nobody reads.
    pub partition_key: String,
    /// The hash key of the first user record; it sends the whole to that record's shard.
    pub explicit_hash_key: HashKey,
    /// The payload.
    pub data: Bytes,
    /// How many user records it holds.
    pub user_records: usize,
}

/// Why a record was not added. The record comes back; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddError {
    /// The record fits, but not into this aggregate: call [`finish`](Aggregator::finish), then add it again.
    #[error("the aggregate has {size} bytes of {limit}, no room for another record of {} bytes", record.data.len())]
    Full {
        /// The record that was not added.
        record: PutRecord,
        /// Bytes the payload has now.
        size: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// The record is above the limit even by itself: no aggregate can hold it.
    #[error("a record of {} bytes is above the limit of {limit}", record.data.len())]
    TooLarge {
        /// The record that was not added.
        record: PutRecord,
        /// Bytes a payload may have.
        limit: usize,
    },
}

/// Collects user records until a size is reached.
///
/// As the KPL does it: a single record is left as it is, without a frame; two or more share one payload, with each key
/// and explicit hash key stored once.
#[derive(Debug)]
pub struct Aggregator {
    limit: usize,
    partition_keys: Table,
    explicit_hash_keys: Table,
    records: Vec<wire::Record>,
    /// Bytes of the protobuf message, were it encoded now.
    body: usize,
    /// What the outer record inherits from the first user record.
    first: Option<First>,
}

#[derive(Debug)]
struct First {
    partition_key: String,
    hash_key: HashKey,
}

/// The texts of one table in order, and where each stands.
#[derive(Debug, Default)]
struct Table {
    texts: Vec<String>,
    indices: HashMap<String, u64>,
}

impl Table {
    /// Where `text` stands or would stand, and the bytes it would add to the message.
    fn place(&self, text: &str) -> (u64, usize) {
        match self.indices.get(text) {
            Some(index) => (*index, 0),
            None => (self.texts.len() as u64, length_delimited(text.len())),
        }
    }

    fn insert(&mut self, text: String, index: u64) {
        if index == self.texts.len() as u64 {
            self.indices.insert(text.clone(), index);
            self.texts.push(text);
        }
    }

    fn take(&mut self) -> Vec<String> {
        self.indices.clear();
        std::mem::take(&mut self.texts)
    }
}

/// Bytes of a length-delimited field whose number is below 16.
fn length_delimited(length: usize) -> usize {
    1 + length_delimiter_len(length) + length
}

/// Bytes of a varint field whose number is below 16.
fn varint(number: u64) -> usize {
    1 + length_delimiter_len(number as usize)
}

impl Aggregator {
    /// An empty aggregate whose payload may have `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            partition_keys: Table::default(),
            explicit_hash_keys: Table::default(),
            records: Vec::new(),
            body: 0,
            first: None,
        }
    }

    /// The exact bytes of payload that [`finish`](Self::finish) would give now.
    pub fn size(&self) -> usize {
        match self.records.as_slice() {
            [] => 0,
            [only] => only.data.len(),
            _ => framed(self.body),
        }
    }

    /// How many user records are in it.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing was added since the last [`finish`](Self::finish).
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a user record.
    ///
    /// # Errors
    /// When the payload would grow above the limit; the record comes back in the error.
    pub fn add(&mut self, record: PutRecord) -> Result<(), AddError> {
        let hash_key = record.hash_key();
        let explicit_hash_key = record.explicit_hash_key.map(|key| key.to_string());
        let (key_index, key_bytes) = self.partition_keys.place(&record.partition_key);
        let explicit = explicit_hash_key
            .as_deref()
            .map(|text| self.explicit_hash_keys.place(text));
        let item = varint(key_index)
            + explicit.map_or(0, |(index, _)| varint(index))
            + length_delimited(record.data.len());
        let body =
            self.body + key_bytes + explicit.map_or(0, |(_, bytes)| bytes) + length_delimited(item);

        let size = if self.is_empty() {
            record.data.len()
        } else {
            framed(body)
        };
        if size > self.limit {
            return Err(self.refusal(record));
        }
        self.first.get_or_insert_with(|| First {
            partition_key: record.partition_key.clone(),
            hash_key,
        });
        self.partition_keys.insert(record.partition_key, key_index);
        if let (Some(text), Some((index, _))) = (explicit_hash_key, explicit) {
            self.explicit_hash_keys.insert(text, index);
        }
        self.records.push(wire::Record {
            partition_key_index: key_index,
            explicit_hash_key_index: explicit.map(|(index, _)| index),
            data: record.data,
        });
        self.body = body;
        Ok(())
    }

    fn refusal(&self, record: PutRecord) -> AddError {
        let limit = self.limit;
        if record.data.len() > limit {
            AddError::TooLarge { record, limit }
        } else {
            let size = self.size();
            AddError::Full {
                record,
                size,
                limit,
            }
        }
    }

    /// Gives the Kinesis record and begins anew; `None` if nothing was added.
    pub fn finish(&mut self) -> Option<Aggregated> {
        let First {
            partition_key,
            hash_key,
        } = self.first.take()?;
        let size = self.size();
        let body = std::mem::take(&mut self.body);
        let message = wire::AggregatedRecord {
            partition_key_table: self.partition_keys.take(),
            explicit_hash_key_table: self.explicit_hash_keys.take(),
            records: std::mem::take(&mut self.records),
        };
        let user_records = message.records.len();
        let (partition_key, data) = match message.records.as_slice() {
            [only] => (partition_key, only.data.clone()),
            _ => (OUTER_PARTITION_KEY.to_owned(), encode(&message, body)),
        };
        debug_assert_eq!(data.len(), size, "the size was foretold");
        Some(Aggregated {
            partition_key,
            explicit_hash_key: hash_key,
            data,
            user_records,
        })
    }
}

/// What the KPL writes there.
const OUTER_PARTITION_KEY: &str = "a";

/// Bytes of a payload around a protobuf of `body` bytes.
fn framed(body: usize) -> usize {
    MAGIC.len() + body + DIGEST
}

fn encode(message: &wire::AggregatedRecord, body: usize) -> Bytes {
    let mut payload = BytesMut::with_capacity(framed(body));
    payload.put_slice(&MAGIC);
    message
        .encode(&mut payload)
        .expect("a BytesMut grows as needed");
    let digest = Md5::digest(&payload[MAGIC.len()..]);
    payload.put_slice(&digest);
    payload.freeze()
}

/// The messages, for writing. Reading needs more care than a derive takes; see `parse`.
mod wire {
    use bytes::Bytes;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct AggregatedRecord {
        #[prost(string, repeated, tag = "1")]
        pub(super) partition_key_table: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub(super) explicit_hash_key_table: Vec<String>,
        #[prost(message, repeated, tag = "3")]
        pub(super) records: Vec<Record>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Record {
        #[prost(uint64, required, tag = "1")]
        pub(super) partition_key_index: u64,
        #[prost(uint64, optional, tag = "2")]
        pub(super) explicit_hash_key_index: Option<u64>,
        #[prost(bytes = "bytes", required, tag = "3")]
        pub(super) data: Bytes,
    }
}
