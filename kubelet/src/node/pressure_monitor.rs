//! Monitors memory, disks and PIDs, and publishes the pressure conditions of the node.
//!
//! A file system that hangs does not block the other checks, and is not queried again before it answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::machine;
use super::pressure::{Available, Disk, Pressure, Pressures, pids_in};
use crate::disk;

/// Interval between checks, as in the stock kubelet.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a file system may take to answer before it is skipped.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// Each known pressure, and whether the node is under it.
pub type PressureStates = Vec<(Pressure, bool)>;

/// Monitors the machine, the root directory and the engine's data directory, until the sender of `data_root` is
/// dropped. A change of the data directory triggers a check. The receiver gets each change; it has `None` before
/// the first check.
pub fn pressures(
    root_dir: &Path,
    data_root: watch::Receiver<PathBuf>,
) -> (watch::Receiver<Option<PressureStates>>, impl Future<Output = ()> + Send + use<>) {
    let (sender, receiver) = watch::channel(None);
    (receiver, run(PressureMonitor::new(Path::new("/proc"), root_dir), data_root, sender))
}

async fn run(
    mut monitor: PressureMonitor,
    mut data_root: watch::Receiver<PathBuf>,
    sender: watch::Sender<Option<PressureStates>>,
) {
    let mut pressures = Pressures::default();
    let mut due = interval(CHECK_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = due.tick() => {}
            changed = data_root.changed() => if changed.is_err() { return },
        }
        let directory = data_root.borrow_and_update().clone();
        let available = monitor.observe(&directory).await;
        let now = Some(pressures.update(&available, Instant::now()));
        sender.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
    }
}

/// Reads the resources of one machine.
struct PressureMonitor {
    /// The directory of the proc file system.
    proc: PathBuf,
    node: DiskProbe,
    image: DiskProbe,
}

impl PressureMonitor {
    fn new(proc: &Path, root_dir: &Path) -> Self {
        Self { proc: proc.to_owned(), node: DiskProbe::at(root_dir), image: DiskProbe::at(Path::new("")) }
    }

    /// The available resources. For a file system that does not answer, the last known value is used.
    async fn observe(&mut self, data_root: &Path) -> Available {
        if self.image.directory != data_root {
            self.image = DiskProbe::at(data_root);
        }
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let memory = machine::memory_available_in(&text("meminfo"));
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
