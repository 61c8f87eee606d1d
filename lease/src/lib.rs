//! Who holds which shard.
//!
//! ```text
//! word   time, id, lease, shard, write     what a row is, and every write that may be done to it
//! rule   sync, assign, leader, renew        which rows there must be, who reads what, who leads, when a holder writes
//!        leases                             the one state machine that composes them: handle(event), step(now) -> [Action]
//! seam   table                              the table, as the rules need it
//! wire   memory, dynamodb                   the obvious table, and the real one
//! ```
//!
//! Nothing here spawns, sleeps or reads a clock: rules take `now`.

pub mod assign;
pub mod belongs;
pub mod dynamodb;
pub mod id;
pub mod leader;
pub mod lease;
pub mod leases;
pub mod memory;
pub mod renew;
pub mod shard;
pub mod sync;
pub mod table;
pub mod time;
pub mod timing;
pub mod write;

pub use dynamodb::{DynamoTable, Ensured, SetupWarning, with_causes};
pub use id::{LeaseKey, Session, ShardId, StreamId, WorkerId};
pub use lease::{Lease, Pending};
pub use memory::MemoryTable;
pub use shard::{Shard, Shards};
pub use table::{
    Consistency, EnsureError, Lock, LockWrite, Table, TableError, TableSpec, Unreadable, View,
    WorkerRow,
};
pub use time::Time;
pub use timing::Timing;
pub use write::{Assign, Renew, Seize, Write};
