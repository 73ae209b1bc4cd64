//! Node pressure: compares memory, disks and PIDs with the stock eviction thresholds, and derives the pressure
//! conditions. Pure except for reading file system statistics.
//!
//! A condition persists for the transition period, so that it does not flap. This kubelet does not evict pods
//! because of these conditions.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// Threshold of `memory.available` in bytes; the stock default.
const MIN_MEMORY_BYTES: u64 = 100 << 20;
/// Threshold of `nodefs.available` in percent; the stock default.
const MIN_NODEFS_PERCENT: u64 = 10;
/// Threshold of `imagefs.available` in percent; the stock default.
const MIN_IMAGEFS_PERCENT: u64 = 15;
/// Threshold of `nodefs.inodesFree` and `imagefs.inodesFree` in percent; the stock default.
const MIN_INODES_PERCENT: u64 = 5;
/// Threshold of `pid.available` in percent. The stock kubelet has no default; its documentation uses this value.
const MIN_PID_PERCENT: u64 = 10;
/// How long a condition persists after the last shortage; the stock `evictionPressureTransitionPeriod`.
pub(super) const TRANSITION_PERIOD: Duration = Duration::from_secs(5 * 60);

/// A total amount, and how much of it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    total: u64,
    free: u64,
}

impl Amount {
    /// Whether less than `percent` is free. It is false if the total is 0.
    fn is_under(self, percent: u64) -> bool {
        u128::from(self.free) * 100 < u128::from(self.total) * u128::from(percent)
    }
}

/// Statistics of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    bytes: Amount,
    inodes: Amount,
}

impl Disk {
    /// The statistics of a directory's file system, if they are available. Blocks.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(directory).ok()?;
        // Reserved blocks count as neither used nor free, as in `df`.
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = Amount { total: used.saturating_add(stat.f_bavail), free: stat.f_bavail };
        Some(Self { bytes, inodes: Amount { total: stat.f_files, free: stat.f_favail } })
    }

    fn is_short(self, percent: u64) -> bool {
        self.bytes.is_under(percent) || self.inodes.is_under(MIN_INODES_PERCENT)
    }
}

/// Available resources at one moment. `None` for an unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Available {
    /// Available memory in bytes.
    pub(super) memory: Option<u64>,
    /// The file system of the kubelet's root directory.
    pub(super) node_disk: Option<Disk>,
    /// The file system of the engine, if it is on this machine.
    pub(super) image_disk: Option<Disk>,
    pub(super) pids: Option<Amount>,
}

impl Available {
    /// Whether the resource is below its threshold; `None` if it is unknown.
    fn is_short(&self, pressure: Pressure) -> Option<bool> {
        match pressure {
            Pressure::Memory => self.memory.map(|bytes| bytes < MIN_MEMORY_BYTES),
            Pressure::Disk => {
                let node = self.node_disk?.is_short(MIN_NODEFS_PERCENT);
                Some(node || self.image_disk.is_some_and(|disk| disk.is_short(MIN_IMAGEFS_PERCENT)))
            }
            Pressure::Pids => self.pids.map(|amount| amount.is_under(MIN_PID_PERCENT)),
        }
    }
}

/// A resource that can be under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    Memory,
    /// Disk space or inodes are short.
    Disk,
    Pids,
}

impl Pressure {
    const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pids];

    /// Type, reason and message of the condition, as in the stock kubelet.
    pub fn condition(self, is_short: bool) -> [&'static str; 3] {
        match (self, is_short) {
            (Self::Memory, false) => {
                ["MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"]
            }
            (Self::Memory, true) => [
                "MemoryPressure",
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
            ],
            (Self::Disk, false) => {
                ["DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"]
            }
            (Self::Disk, true) => ["DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure"],
            (Self::Pids, false) => {
                ["PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"]
            }
            (Self::Pids, true) => {
                ["PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"]
            }
        }
    }
}

/// When each resource was last below its threshold.
#[derive(Clone, Debug, Default)]
pub struct Pressures([Option<Instant>; 3]);

impl Pressures {
    /// Updates the conditions. Unknown resources are omitted.
    pub fn update(&mut self, available: &Available, now: Instant) -> Vec<(Pressure, bool)> {
        let all = Pressure::ALL.into_iter().zip(&mut self.0);
        let states = all.filter_map(|(pressure, last)| {
            if available.is_short(pressure)? {
                *last = Some(now);
            }
            *last = last.filter(|last| now.duration_since(*last) < TRANSITION_PERIOD);
            Some((pressure, last.is_some()))
        });
        states.collect()
    }
}

/// The PID limit, which is the smallest of `limits`, and the number of free PIDs.
pub(super) fn pids_in(loadavg: &str, limits: [&str; 2]) -> Option<Amount> {
    let (_, running) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    let running: u64 = running.parse().ok()?;
    let total = limits.into_iter().filter_map(|limit| limit.trim().parse::<u64>().ok()).min()?;
    Some(Amount { total, free: total.saturating_sub(running) })
}

#[cfg(test)]
mod tests {
    //! Tests of thresholds and the transition period.
    use super::*;

    const PLENTY: Amount = Amount { total: 100, free: 50 };
    const FINE: Disk = Disk { bytes: PLENTY, inodes: PLENTY };
    const ENOUGH: Available = Available {
        memory: Some(MIN_MEMORY_BYTES),
        node_disk: Some(FINE),
        image_disk: Some(FINE),
        pids: Some(PLENTY),
    };

    fn disk(free: u64, free_files: u64) -> Option<Disk> {
        let of = |free| Amount { total: 100, free };
        Some(Disk { bytes: of(free), inodes: of(free_files) })
    }

    #[test]
    fn each_eviction_signal_has_its_threshold() {
        let no_files = Some(Disk { bytes: PLENTY, inodes: Amount { total: 0, free: 0 } });
        for (what, available, short) in [
            ("all is well", ENOUGH, ""),
            ("memory", Available { memory: Some(MIN_MEMORY_BYTES - 1), ..ENOUGH }, "MemoryPressure"),
            ("the kubelet's disk", Available { node_disk: disk(9, 50), ..ENOUGH }, "DiskPressure"),
            ("its files", Available { node_disk: disk(50, 4), ..ENOUGH }, "DiskPressure"),
            ("just enough of it", Available { node_disk: disk(10, 5), ..ENOUGH }, ""),
            ("the engine's disk", Available { image_disk: disk(14, 50), ..ENOUGH }, "DiskPressure"),
            ("an engine elsewhere", Available { image_disk: None, ..ENOUGH }, ""),
            ("a disk that does not count files", Available { node_disk: no_files, ..ENOUGH }, ""),
            ("processes", Available { pids: Some(Amount { total: 100, free: 9 }), ..ENOUGH }, "PIDPressure"),
        ] {
            let states = Pressures::default().update(&available, Instant::now());
            let states = states.into_iter().filter(|(_, is_short)| *is_short);
            let names: Vec<_> = states.map(|(pressure, _)| pressure.condition(true)[0]).collect();
            assert_eq!(names.join(" "), short, "{what}");
        }
        assert_eq!(Pressures::default().update(&Available::default(), Instant::now()), [], "not known");
    }

    #[test]
    fn a_pressure_condition_stays_for_the_transition_period() {
        let mut pressures = Pressures::default();
        let short = Available { memory: Some(0), ..ENOUGH };
        let begun = Instant::now();
        for (available, seconds, is_reported) in [
            (ENOUGH, 0, false),
            (short, 1, true),
            (ENOUGH, 2, true),
            (short, 10, true),
            (ENOUGH, 309, true),
            (ENOUGH, 310, false),
            (ENOUGH, 311, false),
            (short, 1000, true),
        ] {
            let states = pressures.update(&available, begun + Duration::from_secs(seconds));
            assert_eq!(states[0], (Pressure::Memory, is_reported), "{seconds}");
        }
    }

    #[test]
    fn processes_are_counted() {
        let found = pids_in("0.10 0.20 0.30 2/345 6789\n", ["4194304\n", "1000\n"]);
        assert_eq!(found, Some(Amount { total: 1000, free: 655 }));
        assert_eq!(pids_in("nonsense", ["1", "2"]), None);
    }
}
