//! The subcommands as processes: what they print, what they do, and how they exit; against the embedded AWS.
#![cfg(feature = "local")]
#![allow(clippy::disallowed_methods)] // real processes: their environment and real time are the point here

mod check;
mod exits;
mod leases;
mod put;
#[path = "../sdk/mod.rs"]
mod sdk;
mod world;
