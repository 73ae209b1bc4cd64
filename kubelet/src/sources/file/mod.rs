//! Static pod source for a directory or file. It is read again when it changes.

mod entry;
mod owners;
mod pending;
mod scan;
mod skipped;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::decode::MAX_MANIFEST_BYTES;
use api::problem::Problem;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use self::pending::PendingEvents;
use self::scan::{Scan, Scanner};
pub use self::skipped::SkippedEntry;
use crate::desired::Snapshot;
use crate::disk;
use crate::file_watch::FileWatcher;
use crate::observed::Timestamp;

/// Maximum delay of a scan during a burst of events.
const MAX_BURST: Duration = Duration::from_millis(50);

/// Settings of the file source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// File or directory; it may not exist yet.
    pub path: PathBuf,
    /// The node's name.
    pub node: String,
    /// Interval between scans without events, for file systems that send none.
    pub every: Duration,
    /// The kubelet's root directory.
    pub root_dir: PathBuf,
}

/// Sends a snapshot at once and after each change, until the receiver is dropped.
pub async fn watch(settings: Settings, snapshots: mpsc::Sender<Arc<Snapshot>>) {
    follow(settings, FileWatcher::default(), snapshots).await;
}

async fn follow(settings: Settings, mut watcher: FileWatcher, snapshots: mpsc::Sender<Arc<Snapshot>>) {
    let mut pending = PendingEvents::default();
    let mut scanner = start(&settings, &mut watcher).await;
    loop {
        let changed_files = pending.take(Instant::now());
        let looked = disk::run(move || {
            let scan = scanner.scan(&changed_files, Timestamp::now(), Instant::now().into_std());
            (scanner, scan)
        });
        let (looked, Scan { snapshot, watch_set, unsaved, next }) = looked.await;
        if let Some(snapshot) = snapshot
            && snapshots.send(snapshot).await.is_err()
        {
            return;
        }
        scanner = if unsaved.is_empty() { looked } else { save(looked, unsaved).await };
        if !watcher.watch(&watch_set) {
            let rescan = Instant::now() + settings.every;
            let rescan = next.map_or(rescan, |next| rescan.min(Instant::from_std(next)));
            wait(&mut watcher, &mut pending, rescan).await;
        }
    }
}

/// Creates a scanner with the saved manifests, and starts to watch everything that it will read.
async fn start(settings: &Settings, watcher: &mut FileWatcher) -> Scanner {
    let Settings { path, node, root_dir, .. } = settings.clone();
    let started = disk::run(move || {
        let mut scanner = Scanner::new(&path, &node, &root_dir);
        let watch_set = scanner.initial_watch_set();
        (scanner, watch_set)
    });
    let (scanner, watch_set) = started.await;
    watcher.watch(&watch_set);
    scanner
}

async fn save(scanner: Scanner, unsaved: Vec<PathBuf>) -> Scanner {
    let saved = disk::run(move || {
        scanner.save(&unsaved);
        scanner
    });
    saved.await
}

/// Content of a manifest, or the reason why it is not read.
pub type Text = Result<Vec<u8>, Box<Problem>>;

/// The manifests that a path contains.
#[derive(Debug, Default)]
pub struct Contents {
    /// Manifests of a directory in order of precedence, or the single file.
    pub manifests: Vec<(PathBuf, Text)>,
    /// Skipped entries of a directory.
    pub skipped: Vec<SkippedEntry>,
    /// Whether the path is a directory.
    pub is_directory: bool,
}

/// Reads a path once.
///
/// # Errors
/// If the path itself cannot be read.
pub fn read(path: &Path) -> io::Result<Contents> {
    if !fs::metadata(path)?.is_dir() {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let manifests = vec![(path.to_owned(), entry::bounded(bytes))];
        return Ok(Contents { manifests, ..Contents::default() });
    }
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let mut names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
    names.sort();
    let mut contents = Contents { is_directory: true, ..Contents::default() };
    for name in names {
        let path = path.join(&name);
        contents.skipped.extend(skipped::of(&name, &path));
        if scan::is_manifest(&name)
            && let Some(text) = entry::once(&path)
        {
            contents.manifests.push((path, text));
        }
    }
    Ok(contents)
}

/// Waits for events and the end of their burst, at most until `rescan`.
async fn wait(watcher: &mut FileWatcher, pending: &mut PendingEvents, rescan: Instant) {
    let mut until = rescan;
    let mut first = None;
    while let Ok(events) = timeout_at(until, watcher.next()).await {
        let now = Instant::now();
        let Some(settle_time) = pending.note(events, now) else { continue };
        let last = *first.get_or_insert(now) + MAX_BURST.max(settle_time);
        let settle_time = if until == rescan { now + settle_time } else { until.max(now + settle_time) };
        until = settle_time.min(last);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the file source with real directories and events.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod bed;
    mod changes;
    mod names;
    mod restart;
    mod strange;
    mod symlinks;
}
