//! What a process uses, as the kernel counts it.

use std::fs;
use std::time::{Duration, Instant};

/// Clock ticks a second in `/proc`; Linux has shown 100 to programs on every architecture for twenty years.
const TICKS_A_SECOND: f64 = 100.0;

/// Resident memory in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All of it: `VmRSS`.
    pub resident: f64,
    /// What is not shared with a file: `RssAnon`.
    pub anonymous: f64,
    /// The most there ever was: `VmHWM`.
    pub peak: f64,
}

/// Reads the memory of a process.
pub fn memory(pid: u32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mib = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    Memory { resident: mib("VmRSS"), anonymous: mib("RssAnon"), peak: mib("VmHWM") }
}

/// The share of one core that a process takes over a while, in per cent.
pub async fn cpu(pid: u32, window: Duration) -> f64 {
    let (begin, before) = (Instant::now(), cpu_seconds(pid));
    tokio::time::sleep(window).await;
    (cpu_seconds(pid) - before) / begin.elapsed().as_secs_f64() * 100.0
}

/// What a process has taken of all processors so far, in seconds.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name of the program, in parentheses, may hold blanks.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |place: usize| fields.split_whitespace().nth(place).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS_A_SECOND
}
