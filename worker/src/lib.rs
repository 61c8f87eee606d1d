//! A distributed Kinesis consumer.
//!
//! todo

pub mod admin;
pub mod aws;
pub mod backoff;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod config;
mod consumer;
mod coordinator;
pub mod delivery;
#[cfg(feature = "local")]
pub mod demo;
pub mod handler;
pub mod limits;
#[cfg(feature = "local")]
pub mod local;
pub mod logging;
pub mod metrics;
pub mod producer;
pub mod run;
pub mod source;
