//! The KPL decoder: see `shardkeeper_tests::fuzz::aggregate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardkeeper_tests::fuzz::aggregate(data));
