//! Node pressure: the conditions of a node that is short of memory, disk or process ids.

use serde::{Deserialize, Serialize};

/// A resource that can be under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Pressure {
    Memory,
    /// Disk space or inodes are short.
    Disk,
    Pids,
}

/// Each known pressure, and whether the node is under it.
pub type PressureStates = Vec<(Pressure, bool)>;

impl Pressure {
    /// All kinds of pressure.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pids];

    /// The type of the condition.
    pub fn condition_type(self) -> &'static str {
        self.condition(true)[0]
    }

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

/// The pressures under which a node is, of all known states.
pub fn active_pressures(states: &[(Pressure, bool)]) -> Vec<Pressure> {
    states.iter().filter(|(_, is_short)| *is_short).map(|(pressure, _)| *pressure).collect()
}
