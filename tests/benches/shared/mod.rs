//! Code that all benchmarks share: the command line, process statistics, percentiles and the result table.

pub mod gauge {
    //! Reads the CPU time and memory of a process from `/proc`.

    use std::fs;
    use std::time::{Duration, Instant};

    /// Clock ticks per second in `/proc`. Linux reports 100 to user space on all architectures.
    const TICKS_A_SECOND: f64 = 100.0;

    /// Memory of a process in MiB.
    #[derive(Clone, Copy, Debug)]
    pub struct Memory {
        /// Resident memory: `VmRSS`.
        pub resident: f64,
        /// Resident memory that no file backs: `RssAnon`.
        pub anonymous: f64,
        /// Peak resident memory: `VmHWM`.
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

    /// Measures the CPU use of a process during the window, as a percentage of one core.
    pub async fn cpu(pid: u32, window: Duration) -> f64 {
        let (begin, before) = (Instant::now(), cpu_seconds(pid));
        tokio::time::sleep(window).await;
        (cpu_seconds(pid) - before) / begin.elapsed().as_secs_f64() * 100.0
    }

    /// CPU time that a process has used so far, in seconds.
    pub fn cpu_seconds(pid: u32) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // The program name in parentheses may contain spaces.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = |place: usize| fields.split_whitespace().nth(place).unwrap().parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / TICKS_A_SECOND
    }
}
pub mod numbers {
    //! Computes percentiles of measured values.

    pub fn median(values: &[f64]) -> f64 {
        let sorted = sorted(values);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
    }

    /// The first and third quartiles.
    pub fn quartiles(values: &[f64]) -> (f64, f64) {
        let sorted = sorted(values);
        (sorted[sorted.len() / 4], sorted[sorted.len() - 1 - sorted.len() / 4])
    }

    /// Returns the given percentile. `share` is from 0 to 1.
    pub fn share(values: &[f64], share: f64) -> f64 {
        let sorted = sorted(values);
        let place = (sorted.len() as f64 * share) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }

    fn sorted(values: &[f64]) -> Vec<f64> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}
pub mod table;
pub mod words;
