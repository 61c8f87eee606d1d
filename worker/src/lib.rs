//! todo
#[cfg(feature = "local")]
pub mod local;
