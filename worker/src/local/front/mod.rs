//! The HTTP front of the in-memory Kinesis.

pub(crate) mod cbor;
pub(crate) mod value;
