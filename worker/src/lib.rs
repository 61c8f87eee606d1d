//! todo
pub mod config;
pub mod limits;
