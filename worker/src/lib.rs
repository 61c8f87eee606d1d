//! todo

pub mod config;
pub mod limits;
#[cfg(feature = "local")]
pub mod local;
