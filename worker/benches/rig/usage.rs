//! What a process has used.

use std::time::Duration;

/// CPU time of all threads of this process, the ended ones too.
pub fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("not negative"),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

/// The same of another process, to a hundredth of a second.
pub fn cpu_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    // The name in the second field, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')').expect("Linux");
    let field = |number: usize| -> u64 {
        let word = rest.split_whitespace().nth(number - 3);
        word.and_then(|word| word.parse().ok()).expect("a number")
    };
    const USER: usize = 14;
    const SYSTEM: usize = 15;
    Duration::from_millis(10 * (field(USER) + field(SYSTEM)))
}

/// A number of `/proc/…/status`, e.g. `VmRSS` (KiB) or `Threads`.
pub fn status_of(process: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .expect("a key of the kernel");
    let word = line.split_whitespace().next().expect("a number");
    word.parse().expect("a number")
}

/// MiB in memory.
pub fn memory_of(process: u32) -> f64 {
    status_of(process, "VmRSS") as f64 / 1024.0
}
