//! The configuration file: see `shardkeeper_tests::fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardkeeper_tests::fuzz::config(data));
