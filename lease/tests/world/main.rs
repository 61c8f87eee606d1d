//! A world of workers over one table: random faults, checked histories. See `scenario.rs` for the bounds in time.
//!
//! A failing seed is printed; `WORLD_SEED=<seed> cargo test -p shardkeeper-lease --test world one_seed -- --nocapture`
//! replays it with every event. `WORLD_SEEDS=<from>..<to>` runs other seeds than the usual ones.
#![allow(clippy::disallowed_methods)] // a test may be told a seed by its environment

mod chaos;
mod check;
mod process;
mod scenario;
mod sim;
mod stream;
mod table;
