//! The program `shardkeeper` itself, under a name that tests of this package can find.

use std::process::ExitCode;

fn main() -> ExitCode {
    shardkeeper::cli::main()
}
