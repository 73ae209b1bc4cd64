//! What is left of memory, disks and processes, looked at again and again, and what the machine runs short of by that.
//!
//! A disk that does not answer holds up no other look, and is not asked again before it has.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::machine;
use super::pressure::{Disk, Left, Pressure, Pressures, processes_in};
use crate::disk;

/// It is looked at so often, as the stock kubelet does.
const EVERY: Duration = Duration::from_secs(10);
/// A disk that does not say within this how full it is is not waited for.
const DISK_WITHIN: Duration = Duration::from_secs(2);

/// Of what there is too little, and of what there is enough; nothing of what is not known.
pub type Short = Vec<(Pressure, bool)>;

/// Begins to look at the machine, the kubelet's directory and the engine's, at once where that is another. What is told changes when
/// a condition does; `None` before the first look.
pub fn pressures(root_dir: &Path, data_root: watch::Receiver<PathBuf>) -> watch::Receiver<Option<Short>> {
    let (told, heard) = watch::channel(None);
    tokio::spawn(keep(Gauge::new(Path::new("/proc"), root_dir), data_root, told));
    heard
}

async fn keep(mut gauge: Gauge, mut data_root: watch::Receiver<PathBuf>, told: watch::Sender<Option<Short>>) {
    let mut pressures = Pressures::default();
    let mut due = interval(EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = due.tick() => {}
            changed = data_root.changed() => if changed.is_err() { return },
        }
        let directory = data_root.borrow_and_update().clone();
        let left = gauge.look(&directory).await;
        let now = Some(pressures.told(&left, Instant::now()));
        told.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
    }
}

/// What is read of one machine.
struct Gauge {
    /// Where its kernel tells of it: `/proc`.
    proc: PathBuf,
    node: Dial,
    image: Dial,
}

impl Gauge {
    fn new(proc: &Path, root_dir: &Path) -> Self {
        Self { proc: proc.to_owned(), node: Dial::at(root_dir), image: Dial::at(Path::new("")) }
    }

    /// What is left now; of a disk that does not answer, what it said last.
    async fn look(&mut self, data_root: &Path) -> Left {
        if self.image.directory != data_root {
            self.image = Dial::at(data_root);
        }
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let memory = machine::memory_available_in(&text("meminfo"));
        let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(text);
        let processes = processes_in(&text("loadavg"), [&limits[0], &limits[1]]);
        // One after the other: that takes one thread.
        let (node_disk, image_disk) = (self.node.read().await, self.image.read().await);
        Left { memory, node_disk, image_disk, processes }
    }
}

/// One disk, which is asked by one thread at most.
struct Dial {
    directory: PathBuf,
    said: Option<Disk>,
    asked: Option<JoinHandle<Option<Disk>>>,
}

impl Dial {
    /// That of a directory, which has not been asked yet.
    fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), said: None, asked: None }
    }

    async fn read(&mut self) -> Option<Disk> {
        let directory = self.directory.clone();
        self.ask(disk::run(move || Disk::of(&directory))).await
    }

    /// What it says, or what it said last while it does not answer. Where it has not answered yet, what asks once more is dropped.
    async fn ask(&mut self, asks: impl Future<Output = Option<Disk>> + Send + 'static) -> Option<Disk> {
        let within = if self.asked.is_some() { Duration::ZERO } else { DISK_WITHIN };
        let asked = self.asked.get_or_insert_with(|| tokio::spawn(asks));
        if let Ok(done) = timeout(within, asked).await {
            self.asked = None;
            self.said = done.unwrap_or_default();
        }
        self.said
    }
}

#[cfg(test)]
mod tests;
