//! A directory or file of manifests, read again whenever something there has changed.

mod entry;
mod holders;
mod links;
mod notice;
mod pending;
mod scan;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::decode::MAX_MANIFEST_BYTES;
use api::problem::Problem;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::notice::Notice;
use self::pending::Pending;
use self::scan::{Scan, Scanner, Sights};
use crate::desired::Snapshot;
use crate::disk;
use crate::observed::Timestamp;

/// Pause between looks while nothing tells of changes.
const POLL: Duration = Duration::from_secs(1);
/// Longest wait for a burst of changes to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// What to read, and for whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// File or directory; need not be there yet.
    pub path: PathBuf,
    /// The node's name.
    pub node: String,
    /// Time between looks without an event, for file systems that send none.
    pub every: Duration,
    /// State on disk.
    pub root_dir: PathBuf,
}

/// Sends a snapshot of the path at once and whenever it changes, until dropped or until nobody listens.
pub async fn watch(settings: Settings, snapshots: mpsc::Sender<Arc<Snapshot>>) {
    let mut eyes = Eyes::default();
    let mut pending = Pending::default();
    let mut scanner = begin(&settings, &mut eyes).await;
    loop {
        let hints = pending.take(Instant::now());
        let looked = disk::run(move || {
            let scan = scanner.scan(&hints, Timestamp::now());
            (scanner, scan)
        });
        let (looked, Scan { snapshot, sights, unsaved }) = looked.await;
        if let Some(snapshot) = snapshot
            && snapshots.send(snapshot).await.is_err()
        {
            return;
        }
        scanner = if unsaved.is_empty() { looked } else { save(looked, unsaved).await };
        if !eyes.open(&sights) {
            eyes.wait(&mut pending, settings.every).await;
        }
    }
}

/// A scanner that begins with what is on disk, and everything it will look at under watch.
async fn begin(settings: &Settings, eyes: &mut Eyes) -> Scanner {
    let Settings { path, node, root_dir, .. } = settings.clone();
    let begun = disk::run(move || {
        let mut scanner = Scanner::new(&path, &node, &root_dir);
        let sights = scanner.survey();
        (scanner, sights)
    });
    let (scanner, sights) = begun.await;
    eyes.open(&sights);
    scanner
}

async fn save(scanner: Scanner, unsaved: Vec<PathBuf>) -> Scanner {
    let saved = disk::run(move || {
        scanner.save(&unsaved);
        scanner
    });
    saved.await
}

/// The bytes of a manifest, or why they are not read.
pub type Text = Result<Vec<u8>, Box<Problem>>;

/// Reads the manifests of a path once, in the order in which they count: those of a directory, or whatever the path names.
///
/// # Errors
/// When the path itself cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<(PathBuf, Text)>> {
    if !fs::metadata(path)?.is_dir() {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        return Ok(vec![(path.to_owned(), entry::bounded(bytes))]);
    }
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.iter().map(fs::DirEntry::file_name).filter(|name| scan::is_manifest(name));
    let mut paths: Vec<PathBuf> = names.map(|name| path.join(name)).collect();
    paths.sort();
    Ok(paths.into_iter().filter_map(|path| Some((path.clone(), entry::once(&path)?))).collect())
}

/// How changes come to be known.
#[derive(Default)]
struct Eyes {
    notice: Option<Notice>,
    is_told: bool,
}

impl Eyes {
    /// Watches these; true when something may have changed before it was watched.
    fn open(&mut self, sights: &Sights) -> bool {
        let mut open = || {
            let notice = match &mut self.notice {
                Some(notice) => notice,
                none => none.insert(Notice::new()?),
            };
            notice.watch(sights)
        };
        match open() {
            Ok(is_news) => {
                self.is_told = false;
                is_news
            }
            Err(error) => {
                self.notice = None;
                if !std::mem::replace(&mut self.is_told, true) {
                    let remedy = "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches";
                    tracing::warn!(%error, "cannot watch for changes, looking every second instead; {remedy}");
                }
                false
            }
        }
    }

    /// Waits until there is something to look at again.
    async fn wait(&mut self, pending: &mut Pending, every: Duration) {
        let Some(notice) = &mut self.notice else {
            return sleep_until(Instant::now() + POLL.min(every)).await;
        };
        let rescan = Instant::now() + every;
        let mut until = rescan;
        let mut first = None;
        loop {
            match timeout_at(until, notice.next()).await {
                Err(_) => return,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "inotify failed; starting it again");
                    self.notice = None;
                    return;
                }
                Ok(Ok(events)) => {
                    let now = Instant::now();
                    let Some(quiet) = pending.note(events, now) else { continue };
                    let last = *first.get_or_insert(now) + PATIENCE.max(quiet);
                    let quiet = if until == rescan { now + quiet } else { until.max(now + quiet) };
                    until = quiet.min(last);
                }
            }
        }
    }
}
