//! What the kernel counts of this process, by the names that every program on Prometheus has.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// `USER_HZ`, which Linux promises to programs on every architecture we build for.
const TICKS_A_SECOND: f64 = 100.0;

/// The process itself.
#[derive(Debug, Default)]
pub struct Process {
    cpu_seconds: Counter<f64, AtomicU64>,
    resident_bytes: Gauge,
    virtual_bytes: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
    start_time_seconds: Gauge<f64, AtomicU64>,
}

impl Process {
    /// Has it shown with everything else that a command counts.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register_with_unit("process_cpu", "Time on processors", Unit::Seconds, self.cpu_seconds.clone());
        r.register("process_resident_memory_bytes", "Memory in use", self.resident_bytes.clone());
        r.register("process_virtual_memory_bytes", "Memory mapped", self.virtual_bytes.clone());
        r.register("process_open_fds", "Files open", self.open_fds.clone());
        r.register("process_max_fds", "Files that may be open", self.max_fds.clone());
        r.register(
            "process_start_time_seconds",
            "When the process began, in seconds since 1970",
            self.start_time_seconds.clone(),
        );
    }

    /// Reads /proc; what cannot be read is 0.
    pub fn look(&self) {
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
