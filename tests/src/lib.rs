//! System tests of shardkeeper.
//!
//! ```text
//!   plan (seed) ─▶ world: real workers, simulated outside ─▶ history ─▶ check: which promises were broken
//! ```
//! `fuzz` says what must hold for whatever bytes come in, for `tests/fuzz` and for ordinary tests.
//! `processes` is the other way: the program as its users run it, with real signals in real time.
//! Nothing here is published; nobody depends on it.

pub mod chaos;
pub mod check;
pub mod fuzz;
pub mod processes;
pub mod world;

pub use check::{Property, Violation, check};
pub use world::{History, Plan, simulate};
