//! Observations of memory, disks and process ids, by eviction signal.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::options::Signal;

/// The capacity of a resource, and how much of it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    pub capacity: u64,
    pub available: u64,
}

/// The amount of each known signal. A resource without a capacity, such as the inodes of Btrfs, is not in it.
pub type Observations = BTreeMap<Signal, Amount>;

/// What was observed at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub amounts: Observations,
    /// Whether the engine has its data on another file system than the kubelet. `None` if that is unknown.
    pub is_image_fs_dedicated: Option<bool>,
}

/// Statistics of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    pub bytes: Amount,
    pub inodes: Amount,
    /// The number of the device.
    device: u64,
}

impl Disk {
    /// The statistics of a directory's file system, if they are available. Blocks.
    pub fn of(directory: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(directory).ok()?;
        // Reserved blocks count as neither used nor free, as in `df`.
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let capacity = bytes(used.saturating_add(stat.f_bavail));
        Some(Self {
            bytes: Amount { capacity, available: bytes(stat.f_bavail) },
            inodes: Amount { capacity: stat.f_files, available: stat.f_favail },
            device: std::fs::metadata(directory).ok()?.dev(),
        })
    }
}

/// Available resources at one moment. `None` for an unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Available {
    pub memory: Option<Amount>,
    /// The file system of the kubelet's root directory.
    pub node_disk: Option<Disk>,
    /// The file system of the engine, if it is on this machine.
    pub image_disk: Option<Disk>,
    pub pids: Option<Amount>,
}

impl Available {
    /// The amounts by signal.
    pub fn observed(&self) -> Observed {
        let (node, image) = (self.node_disk, self.image_disk);
        let amounts = [
            (Signal::MemoryAvailable, self.memory),
            (Signal::NodeFsAvailable, node.map(|disk| disk.bytes)),
            (Signal::NodeFsInodesFree, node.map(|disk| disk.inodes)),
            (Signal::ImageFsAvailable, image.map(|disk| disk.bytes)),
            (Signal::ImageFsInodesFree, image.map(|disk| disk.inodes)),
            (Signal::PidAvailable, self.pids),
        ];
        let known = amounts.into_iter().filter_map(|(signal, amount)| Some((signal, amount?)));
        Observed {
            amounts: known.filter(|(_, amount)| amount.capacity > 0).collect(),
            is_image_fs_dedicated: node.zip(image).map(|(node, image)| node.device != image.device),
        }
    }
}

/// The PID limit, which is the smallest of `limits`, and the number of free PIDs.
pub(super) fn pids_in(loadavg: &str, limits: [&str; 2]) -> Option<Amount> {
    let (_, running) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    let running: u64 = running.parse().ok()?;
    let capacity = limits.into_iter().filter_map(|limit| limit.trim().parse::<u64>().ok()).min()?;
    Some(Amount { capacity, available: capacity.saturating_sub(running) })
}

#[cfg(test)]
mod tests {
    //! Tests of amounts by signal.
    use super::*;

    #[test]
    fn processes_are_counted() {
        let found = pids_in("0.10 0.20 0.30 2/345 6789\n", ["4194304\n", "1000\n"]);
        assert_eq!(found, Some(Amount { capacity: 1000, available: 655 }));
        assert_eq!(pids_in("nonsense", ["1", "2"]), None);
    }

    #[test]
    fn a_disk_without_inodes_has_no_inode_signal() {
        let amount = |capacity| Amount { capacity, available: capacity / 2 };
        let disk = |device, inodes| Some(Disk { bytes: amount(100), inodes: amount(inodes), device });
        let available = Available { node_disk: disk(1, 0), image_disk: disk(2, 50), ..Available::default() };
        let observed = available.observed();
        let signals: Vec<Signal> = observed.amounts.keys().copied().collect();
        assert_eq!(signals, [Signal::NodeFsAvailable, Signal::ImageFsAvailable, Signal::ImageFsInodesFree]);
        assert_eq!(observed.is_image_fs_dedicated, Some(true));
        let same = Available { image_disk: disk(1, 0), ..available };
        assert_eq!(same.observed().is_image_fs_dedicated, Some(false));
        assert_eq!(Available::default().observed(), Observed::default());
    }
}
