//! The embedded AWS over HTTP, checked with the real SDKs and with plain bytes. One program, because linking the SDKs takes longer than
//! the tests.
#![cfg(feature = "local")]

mod cbor;
mod direct;
mod dynamodb;
mod fanout;
mod notary;
mod put;
mod read;
mod reshard;
#[path = "../sdk/mod.rs"]
mod sdk;
mod server;
mod settings;
mod shards;
mod stranger;
mod streams;
mod wire;
mod world;
