//! What this process has used.

use std::time::Duration;

/// CPU time of all its threads, the ended ones too.
pub fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("not negative"),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

/// A number of `/proc/self/status`, e.g. `VmRSS` (KiB) or `Threads`.
pub fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .expect("a key of the kernel");
    let word = line.split_whitespace().next().expect("a number");
    word.parse().expect("a number")
}

/// MiB in memory.
pub fn memory() -> f64 {
    status("VmRSS") as f64 / 1024.0
}
