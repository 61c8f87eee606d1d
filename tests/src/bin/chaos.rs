//! Chaos: three workers as processes on sixteen shards, and everything that can happen to them, from a seed.
//!
//! `cargo run --release -p shardkeeper-tests --bin chaos -- --minutes 5 --seed 7`
//!
//! The last line is JSON: what was done, what it cost, and whether every promise held. Exits 1 if one did not.

use std::process::ExitCode;

use clap::Parser;
use shardkeeper_tests::chaos::{self, Options};

#[derive(Parser)]
#[command(about = "Real workers under random faults; the last line is the verdict as JSON")]
struct Args {
    /// How long faults go on. What is still on its way is waited for afterwards.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// The same seed draws the same faults; what the processes make of them differs from run to run.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// This program runs itself as the workers.
const AS_WORKER: &str = "SHARDKEEPER_CHAOS_WORKER";

fn main() -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "how a child knows that it is a worker"
    )]
    if std::env::var(AS_WORKER).is_ok() {
        return shardkeeper::cli::main();
    }
    let args = Args::parse();
    let program = std::env::current_exe().expect("a program knows where it is");
    let verdict = chaos::run(
        &Options {
            seconds: args.minutes * 60.0,
            seed: args.seed,
            shards: 16,
            workers: 3,
        },
        program,
        &[(AS_WORKER, "1")],
    );
    println!("{}", verdict.json());
    if verdict.ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
