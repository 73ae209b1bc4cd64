//! CPU time and memory of a test, for limits on hostile input. The fuzz test of the decoder includes this file too.

use std::time::Duration;

/// CPU time of this thread, which does not depend on the load of the machine.
pub fn cpu_time() -> Duration {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(status.split(' ').next().unwrap().parse().unwrap())
}

/// Peak memory of this process in KiB.
pub fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
