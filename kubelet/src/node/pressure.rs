//! Whether the machine runs short of memory, disks or processes: what its kernel says, by the stock thresholds, and what is told of that.
//!
//! No pod is ended for it. What was short once is told for a while longer: it comes and goes with every file that somebody writes.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// Less memory than that is short: the stock `memory.available`, in bytes.
const LEAST_MEMORY: u64 = 100 << 20;
/// Percent of the disk of the kubelet's directory that must be free: the stock `nodefs.available`.
const LEAST_OF_NODE_DISK: u64 = 10;
/// Percent of the engine's disk: the stock `imagefs.available`.
const LEAST_OF_IMAGE_DISK: u64 = 15;
/// Percent of the files of either: the stock `nodefs.inodesFree` and `imagefs.inodesFree`.
const LEAST_OF_FILES: u64 = 5;
/// Percent of processes; the stock kubelet has no threshold unless it is given one, and this is the one that its documentation gives.
const LEAST_OF_PROCESSES: u64 = 10;
/// What was short is told for so long after: the stock `evictionPressureTransitionPeriod`.
pub(super) const STAYS: Duration = Duration::from_secs(5 * 60);

/// How much there is of something, and how much of it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    all: u64,
    free: u64,
}

impl Amount {
    /// Whether less than so many percent are free; of what there is no number of, any is enough.
    fn is_under(self, percent: u64) -> bool {
        u128::from(self.free) * 100 < u128::from(self.all) * u128::from(percent)
    }
}

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    bytes: Amount,
    files: Amount,
}

impl Disk {
    /// The one that a directory lies on, where it says anything. Blocks.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(directory).ok()?;
        // Of what can be written at all, as `df` tells it: what is kept back is neither used nor free.
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = Amount { all: used.saturating_add(stat.f_bavail), free: stat.f_bavail };
        Some(Self { bytes, files: Amount { all: stat.f_files, free: stat.f_favail } })
    }

    fn is_short(self, percent: u64) -> bool {
        self.bytes.is_under(percent) || self.files.is_under(LEAST_OF_FILES)
    }
}

/// What is left at one moment; nothing of what cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Memory that programs may still have, in bytes.
    pub(super) memory: Option<u64>,
    /// The disk of the kubelet's directory.
    pub(super) node_disk: Option<Disk>,
    /// That of the engine, where it is here.
    pub(super) image_disk: Option<Disk>,
    /// Processes and threads.
    pub(super) processes: Option<Amount>,
}

impl Left {
    /// Whether there is too little of it.
    fn is_short(&self, pressure: Pressure) -> Option<bool> {
        match pressure {
            Pressure::Memory => self.memory.map(|bytes| bytes < LEAST_MEMORY),
            Pressure::Disk => {
                let node = self.node_disk?.is_short(LEAST_OF_NODE_DISK);
                Some(node || self.image_disk.is_some_and(|disk| disk.is_short(LEAST_OF_IMAGE_DISK)))
            }
            Pressure::Processes => self.processes.map(|amount| amount.is_under(LEAST_OF_PROCESSES)),
        }
    }
}

/// Of what there is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Memory.
    Memory,
    /// Room on a disk.
    Disk,
    /// Processes.
    Processes,
}

impl Pressure {
    const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Processes];

    /// The condition, and its reason and message, in the words of the stock kubelet.
    pub fn words(self, is_short: bool) -> [&'static str; 3] {
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
            (Self::Processes, false) => {
                ["PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"]
            }
            (Self::Processes, true) => {
                ["PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"]
            }
        }
    }
}

/// When there was too little of each the last time.
#[derive(Clone, Debug, Default)]
pub struct Pressures([Option<Instant>; 3]);

impl Pressures {
    /// What is told of what is left now; nothing of what is not known.
    pub fn told(&mut self, left: &Left, now: Instant) -> Vec<(Pressure, bool)> {
        let all = Pressure::ALL.into_iter().zip(&mut self.0);
        let told = all.filter_map(|(pressure, last)| {
            if left.is_short(pressure)? {
                *last = Some(now);
            }
            *last = last.filter(|last| now.duration_since(*last) < STAYS);
            Some((pressure, last.is_some()))
        });
        told.collect()
    }
}

/// How many processes there may be, by the least of these limits, and how many more.
pub(super) fn processes_in(loadavg: &str, limits: [&str; 2]) -> Option<Amount> {
    let (_, running) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    let running: u64 = running.parse().ok()?;
    let all = limits.into_iter().filter_map(|limit| limit.trim().parse::<u64>().ok()).min()?;
    Some(Amount { all, free: all.saturating_sub(running) })
}

#[cfg(test)]
mod tests {
    //! What is short, and for how long it is told.
    use super::*;

    const PLENTY: Amount = Amount { all: 100, free: 50 };
    const FINE: Disk = Disk { bytes: PLENTY, files: PLENTY };
    const ENOUGH: Left = Left {
        memory: Some(LEAST_MEMORY),
        node_disk: Some(FINE),
        image_disk: Some(FINE),
        processes: Some(PLENTY),
    };

    fn disk(free: u64, free_files: u64) -> Option<Disk> {
        let of = |free| Amount { all: 100, free };
        Some(Disk { bytes: of(free), files: of(free_files) })
    }

    #[test]
    fn each_is_short_below_its_threshold() {
        let no_files = Some(Disk { bytes: PLENTY, files: Amount { all: 0, free: 0 } });
        for (what, left, short) in [
            ("all is well", ENOUGH, ""),
            ("memory", Left { memory: Some(LEAST_MEMORY - 1), ..ENOUGH }, "MemoryPressure"),
            ("the kubelet's disk", Left { node_disk: disk(9, 50), ..ENOUGH }, "DiskPressure"),
            ("its files", Left { node_disk: disk(50, 4), ..ENOUGH }, "DiskPressure"),
            ("just enough of it", Left { node_disk: disk(10, 5), ..ENOUGH }, ""),
            ("the engine's disk", Left { image_disk: disk(14, 50), ..ENOUGH }, "DiskPressure"),
            ("an engine elsewhere", Left { image_disk: None, ..ENOUGH }, ""),
            ("a disk that does not count files", Left { node_disk: no_files, ..ENOUGH }, ""),
            ("processes", Left { processes: Some(Amount { all: 100, free: 9 }), ..ENOUGH }, "PIDPressure"),
        ] {
            let told = Pressures::default().told(&left, Instant::now());
            let told = told.into_iter().filter(|(_, is_short)| *is_short);
            let names: Vec<_> = told.map(|(pressure, _)| pressure.words(true)[0]).collect();
            assert_eq!(names.join(" "), short, "{what}");
        }
        assert_eq!(Pressures::default().told(&Left::default(), Instant::now()), [], "not known");
    }

    #[test]
    fn what_was_short_is_told_for_a_while() {
        let mut pressures = Pressures::default();
        let short = Left { memory: Some(0), ..ENOUGH };
        let begun = Instant::now();
        for (left, seconds, is_told) in [
            (ENOUGH, 0, false),
            (short, 1, true),
            (ENOUGH, 2, true),
            (short, 10, true),
            (ENOUGH, 309, true),
            (ENOUGH, 310, false),
            (ENOUGH, 311, false),
            (short, 1000, true),
        ] {
            let told = pressures.told(&left, begun + Duration::from_secs(seconds));
            assert_eq!(told[0], (Pressure::Memory, is_told), "{seconds}");
        }
    }

    #[test]
    fn processes_are_counted() {
        let found = processes_in("0.10 0.20 0.30 2/345 6789\n", ["4194304\n", "1000\n"]);
        assert_eq!(found, Some(Amount { all: 1000, free: 655 }));
        assert_eq!(processes_in("nonsense", ["1", "2"]), None);
    }
}
