//! todo
pub mod admin;
pub mod config;
pub mod limits;
pub mod metrics;
