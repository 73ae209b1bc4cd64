//! One line on where this ran.

use std::fs;

/// Processors, memory, kernel and what else is at work.
pub fn line() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = kib.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{processors} processors, {} GiB, Linux {}, load {}",
        kib >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default()
    )
}
