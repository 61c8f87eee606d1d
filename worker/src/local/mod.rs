//! The embedded AWS.

mod front;
pub mod model;
