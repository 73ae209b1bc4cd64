//! What the kernel counts of this process.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;

use super::Seconds;

/// `USER_HZ`, which Linux promises to programs on every architecture we build for.
const TICKS_A_SECOND: f64 = 100.0;

/// The process itself.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) cpu_seconds: Seconds,
    pub(super) resident_bytes: Gauge,
    pub(super) virtual_bytes: Gauge,
    pub(super) open_fds: Gauge,
    pub(super) max_fds: Gauge,
    pub(super) start_time_seconds: Gauge<f64, AtomicU64>,
}

impl Process {
    /// Reads /proc; what cannot be read is 0.
    pub(super) fn look(&self) {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        // The second field, the program's name, is in parentheses and may hold spaces; the state follows it.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let field = |number: usize| -> f64 {
            rest.split_whitespace().nth(number).and_then(|field| field.parse().ok()).unwrap_or_default()
        };
        let cpu = (field(11) + field(12)) / TICKS_A_SECOND;
        self.cpu_seconds.inc_by((cpu - self.cpu_seconds.get()).max(0.0));
        let boot = read("/proc/stat");
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        self.start_time_seconds.set(boot.unwrap_or_default() + field(19) / TICKS_A_SECOND);
        let status = read("/proc/self/status");
        let bytes = |name: &str| number(&status, name).saturating_mul(1024);
        self.resident_bytes.set(bytes("VmRSS:"));
        self.virtual_bytes.set(bytes("VmSize:"));
        let open = fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default();
        self.open_fds.set(i64::try_from(open).unwrap_or(i64::MAX));
        self.max_fds.set(number(&read("/proc/self/limits"), "Max open files"));
    }
}

/// The first number of the line that begins so.
fn number(text: &str, name: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
}
