//! The `shardkeeper` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    shardkeeper::cli::main()
}
