//! Describes the machine in one line and raises the limit of open files.

use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Returns the processors, memory, kernel and load of this machine, on one line.
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

/// Raises the limit of open files of this process and its children, so that many connections fit.
pub fn open_many() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
