//! Process metrics with the standard Prometheus names.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The value of `USER_HZ`; it is 100 on all supported architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// The metrics of this process.
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
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register_with_unit(
            "process_cpu",
            "User and system CPU time",
            Unit::Seconds,
            self.cpu_seconds.clone(),
        );
        r.register(
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            self.resident_bytes.clone(),
        );
        r.register(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes",
            self.virtual_bytes.clone(),
        );
        r.register("process_open_fds", "Open file descriptors", self.open_fds.clone());
        r.register("process_max_fds", "Limit for open file descriptors", self.max_fds.clone());
        r.register(
            "process_start_time_seconds",
            "Start time of the process in seconds since the Unix epoch",
            self.start_time_seconds.clone(),
        );
    }

    /// Updates the metrics from /proc. Values that cannot be read are 0.
    pub fn update(&self) {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        // The second field is the program's name in parentheses, which may contain spaces; the state follows it.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let field = |number: usize| -> f64 {
            rest.split_whitespace().nth(number).and_then(|field| field.parse().ok()).unwrap_or_default()
        };
        let cpu = (field(11) + field(12)) / TICKS_PER_SECOND;
        self.cpu_seconds.inc_by((cpu - self.cpu_seconds.get()).max(0.0));
        let boot = read("/proc/stat");
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        self.start_time_seconds.set(boot.unwrap_or_default() + field(19) / TICKS_PER_SECOND);
        let status = read("/proc/self/status");
        let bytes = |name: &str| number(&status, name).saturating_mul(1024);
        self.resident_bytes.set(bytes("VmRSS:"));
        self.virtual_bytes.set(bytes("VmSize:"));
        let open = fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default();
        self.open_fds.set(i64::try_from(open).unwrap_or(i64::MAX));
        self.max_fds.set(number(&read("/proc/self/limits"), "Max open files"));
    }
}

/// The first number of the line that begins with `name`.
fn number(text: &str, name: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
}
