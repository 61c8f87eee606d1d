//! The short form of `--bin chaos`: the same loop for half a minute.

use shardkeeper_tests::chaos::{self, Options};

#[test]
fn half_a_minute_of_chaos_loses_nothing_and_keeps_every_promise() {
    let options = Options {
        seconds: 25.0,
        seed: 11,
        shards: 8,
        workers: 3,
    };
    let program = env!("CARGO_BIN_EXE_shardkeeper-under-test").into();
    let verdict = chaos::run(&options, program, &[]);
    assert!(verdict.ok(), "{}", verdict.json());
}
