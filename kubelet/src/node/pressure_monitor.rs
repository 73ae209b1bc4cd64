//! Observes memory, disks and PIDs for the eviction manager.
//!
//! A file system that hangs does not block the other checks, and is not queried again before it answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::machine;
use super::pressure::{Amount, Available, Disk, Observed, pids_in};
use crate::disk;

/// How long a file system may take to answer before it is skipped.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the resources of one machine.
pub struct PressureMonitor {
    /// The directory of the proc file system.
    proc: PathBuf,
    node: DiskProbe,
    image: DiskProbe,
}

impl PressureMonitor {
    /// A monitor of the machine whose proc file system is at `proc`, and of the file system of the root directory.
    pub fn new(proc: &Path, root_dir: &Path) -> Self {
        Self { proc: proc.to_owned(), node: DiskProbe::at(root_dir), image: DiskProbe::at(Path::new("")) }
    }

    /// What is available now, also on the file system of the engine's data directory. For a file system that does not
    /// answer, the last known value is used.
    pub async fn observe(&mut self, data_root: &Path) -> Observed {
        self.available(data_root).await.observed()
    }

    async fn available(&mut self, data_root: &Path) -> Available {
        if self.image.directory != data_root {
            self.image = DiskProbe::at(data_root);
        }
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let meminfo = text("meminfo");
        let capacity = u64::try_from(machine::memory_in(&meminfo)).unwrap_or_default();
        let memory = machine::memory_available_in(&meminfo).map(|available| Amount { capacity, available });
        let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(text);
        let pids = pids_in(&text("loadavg"), [&limits[0], &limits[1]]);
        // One after the other, so that one thread is enough.
        let (node_disk, image_disk) = (self.node.read().await, self.image.read().await);
        Available { memory, node_disk, image_disk, pids }
    }
}

/// A file system with at most one pending query.
struct DiskProbe {
    directory: PathBuf,
    last: Option<Disk>,
    pending: Option<JoinHandle<Option<Disk>>>,
}

impl DiskProbe {
    /// The file system of a directory, before its first query.
    fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), last: None, pending: None }
    }

    async fn read(&mut self) -> Option<Disk> {
        let directory = self.directory.clone();
        self.poll(disk::run(move || Disk::of(&directory))).await
    }

    /// The result of the query. If it is not ready, the last known value. If an earlier query is pending, `query`
    /// is dropped.
    async fn poll(&mut self, query: impl Future<Output = Option<Disk>> + Send + 'static) -> Option<Disk> {
        let within = if self.pending.is_some() { Duration::ZERO } else { DISK_TIMEOUT };
        let pending = self.pending.get_or_insert_with(|| tokio::spawn(query));
        if let Ok(done) = timeout(within, pending).await {
            self.pending = None;
            self.last = done.unwrap_or_default();
        }
        self.last
    }
}

#[cfg(test)]
mod tests;
