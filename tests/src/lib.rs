//! System tests of shardkeeper.
//!
//! ```text
//!   plan (seed) ─▶ world: real workers, simulated outside ─▶ history ─▶ check: which promises were broken
//! ```
//! Nothing here is published; nobody depends on it.

pub mod check;
pub mod world;

pub use check::{Property, Violation, check};
pub use world::{History, Plan, simulate};
