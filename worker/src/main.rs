//! The `shardkeeper` program.

use std::process::ExitCode;

/// A call of the SDK allocates some hundred small things, which are freed by another thread as often as not: a third of
/// the CPU of an idle worker with the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    shardkeeper::cli::main()
}
