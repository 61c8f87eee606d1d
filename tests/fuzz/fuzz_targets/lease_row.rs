//! The reader of lease rows: see `shardkeeper_tests::fuzz::lease_row`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardkeeper_tests::fuzz::lease_row(data));
