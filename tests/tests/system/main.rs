//! The program as its users run it: real processes, real signals, real time, on the embedded AWS over HTTP.
//!
//! These tests run one after the other ([`shardkeeper_tests::processes::turn`]): they watch how long shards stand still, and a busy machine
//! would spoil that. Limits are the product's own promises; what is faster is measured by the benchmarks.

#![allow(clippy::disallowed_methods)] // real processes in real time are the point here

mod bad_input;
mod chaos;
mod drain;
mod failover;
mod faults;
mod metrics;
mod reshard;
mod resume;
mod zombie;

use shardkeeper_tests::processes::World;

/// A world whose workers are the program of this build.
fn world(name: &str, shards: u32) -> World {
    World::new(env!("CARGO_BIN_EXE_shardkeeper-under-test"), name, shards)
}
