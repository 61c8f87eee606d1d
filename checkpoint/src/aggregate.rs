//! The KPL's aggregation format: many user records in the payload of one Kinesis record.
//!
//! ```text
//!  F3 89 9A C2 | AggregatedRecord (protobuf, proto2) | MD5 of the protobuf
//!  4 bytes     | at least 1 byte                     | 16 bytes
//! ```
//!
//! A payload that does not have this shape, whose digest differs or whose protobuf is broken is not an error: it is a
//! plain record that happens to look alike, and is handed on whole. That is what the KCL does, and a fleet that mixes
//! it with this worker must see the same user records under the same sub-sequence numbers.
//!
//! `wire` reads protobuf as Java does, `parse` finds the items, `table` holds the texts they share, `judge` says which of them belong to the shard,
//! `deaggregate` emits them; `encode` goes the other way.

mod deaggregate;
mod encode;
#[cfg(test)]
mod golden;
mod judge;
mod parse;
mod table;
#[cfg(test)]
mod tests;
mod window;
mod wire;

pub use deaggregate::{Deaggregator, Unpacked, deaggregate, deaggregate_range};
pub use encode::{AddError, Aggregated, Aggregator, PutRecord};
pub use judge::HashRangePolicy;

const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];
const DIGEST: usize = 16;

/// Where the protobuf lies in an aggregate of `length` bytes.
fn body_of(length: usize) -> std::ops::Range<usize> {
    MAGIC.len()..length - DIGEST
}

/// An aggregate cut at its seams, before anything in it is believed.
struct Framed<'a> {
    body: &'a [u8],
    digest: &'a [u8; DIGEST],
}

/// Cuts a payload, unless its first bytes or its length say that it is no aggregate.
fn frame(payload: &[u8]) -> Option<Framed<'_>> {
    let (body, digest) = payload.strip_prefix(&MAGIC)?.split_last_chunk()?;
    (!body.is_empty()).then_some(Framed { body, digest })
}
