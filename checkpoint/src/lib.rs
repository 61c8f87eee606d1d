//! How far a Kinesis shard has been processed, down to the single user record. No AWS client, no async.
//!
//! * [`Position`] and [`SequenceNumber`]: a place in a shard, spelt and ordered as the KCL's lease table does it.
//! * [`deaggregate`], [`deaggregate_range`] and [`Deaggregator`]: Kinesis records into user records, as the KCL unpacks
//!   what the Kinesis Producer Library packed; [`Aggregator`] packs.
//! * [`Tracker`]: which records are done, and the *watermark*, the last position that may be stored.
//!
//! Whoever calls GetRecords by hand needs only the middle part:
//!
//! ```
//! use checkpoint::{Aggregator, KinesisRecord, PutRecord, deaggregate};
//!
//! // A producer packs two orders into one Kinesis record …
//! let mut aggregator = Aggregator::new(50_000);
//! for (customer, order) in [("ann", "1 × tea"), ("bob", "2 × rye")] {
//!     aggregator.add(PutRecord {
//!         partition_key: customer.to_owned(),
//!         explicit_hash_key: None,
//!         data: order.into(),
//!     })?;
//! }
//! let packed = aggregator.finish().expect("two records were added");
//!
//! // … Kinesis gives it a sequence number, and a consumer unpacks it.
//! let sequence = "49590338271490256608559692538361571095921575989136588898".parse()?;
//! let record = KinesisRecord::new(sequence, packed.partition_key.as_str(), packed.data);
//! let orders = deaggregate([record]);
//!
//! assert_eq!(orders.len(), 2);
//! assert_eq!(orders[1].partition_key, "bob");
//! assert_eq!(orders[1].data, "2 × rye");
//! // Both share the sequence number; the sub-sequence number tells them apart.
//! assert_eq!(
//!     orders[1].position().to_string(),
//!     "49590338271490256608559692538361571095921575989136588898/1",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! And whoever checkpoints lets records settle in any order, and stores no more than the watermark:
//!
//! ```
//! use checkpoint::{Position, Tracker};
//!
//! let mut tracker = Tracker::new(Some(Position::TrimHorizon));
//! let first = tracker.admit("7/0".parse()?)?;
//! let second = tracker.admit("7/1".parse()?)?;
//! tracker.settle(second)?;
//! assert_eq!(tracker.watermark(), None, "the first is not done");
//! tracker.settle(first)?;
//! assert_eq!(tracker.watermark(), Some(&"7/1".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregate;
mod hash_key;
mod md5_lanes;
mod position;
mod record;
mod sequence;
mod text;
mod tracker;
pub use aggregate::{AddError, Aggregated, Aggregator, PutRecord};
pub use aggregate::{Deaggregator, HashRangePolicy, Unpacked, deaggregate, deaggregate_range};
pub use hash_key::{HashKey, HashKeyError, HashRange};
pub use position::{Position, PositionError};
pub use record::{EncryptionType, KinesisRecord, Millis, UserRecord};
pub use sequence::{SequenceNumber, SequenceNumberError};
pub use text::ByteStr;
pub use tracker::{OutOfOrder, SettleThroughError, Ticket, Tracker, UnknownTicket};
