//! Watches files with the crate `notify` (inotify), and falls back to polling at the limits of inotify.
//!
//! It serves manifests, certificates and kubeconfigs. Watches are on directories, never on files: a rename, a
//! symlink swap and a file that does not exist yet are all changes of a name in a directory. [`resolve`] lists the
//! names to watch for a path. [`FileWatcher::watch`] returns true if a change may have preceded the watch. The
//! caller then reads again.
//!
//! `notify` opens no file. It uses one inotify instance and one thread per [`FileWatcher`].

mod queue;
mod symlinks;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{ErrorKind, RecursiveMode, Watcher};
use tokio::time::sleep;

use crate::disk;
use queue::EventQueue;
pub use symlinks::{ResolvedPath, WatchedName, resolve};

/// How often changes are polled if inotify is not available.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The names to watch.
#[derive(Debug, Default)]
pub struct WatchSet {
    /// A directory in which every relevant name is watched.
    pub directory: Option<WatchedDirectory>,
    /// Single names.
    pub places: BTreeSet<WatchedName>,
}

/// A directory, and which names in it are relevant.
#[derive(Clone, Debug)]
pub struct WatchedDirectory {
    /// The directory, without symlinks.
    pub path: PathBuf,
    /// Whether a name is relevant.
    pub is_relevant: fn(&OsStr) -> bool,
}

/// A change of a relevant name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file was created; a write may follow.
    Created(PathBuf),
    BeingWritten(PathBuf),
    /// The file was written and closed, or moved here.
    Written(PathBuf),
    /// Permissions or times of the file changed.
    Touched(PathBuf),
    /// The file was removed or moved away.
    Gone(PathBuf),
    /// A watched directory was removed or moved.
    DirectoryGone,
    /// Anything may have changed: events were lost, or the watcher polls.
    Lost,
}

/// Creates the watcher of the operating system.
type Connect = Box<dyn Fn(Arc<EventQueue>) -> notify::Result<Box<dyn Watcher + Send>> + Send>;

/// A set of watches, and the queue of their events.
pub struct FileWatcher {
    connect: Connect,
    /// The inotify connection. `None` before the first call of [`Self::watch`], and while inotify is not available.
    connection: Option<Connection>,
    is_warned: bool,
}

struct Connection {
    watcher: Box<dyn Watcher + Send>,
    queue: Arc<EventQueue>,
    watched: BTreeMap<PathBuf, Watched>,
}

/// A watched directory.
struct Watched {
    /// Device and inode. They change if another directory takes its place.
    id: (u64, u64),
    names: Names,
}

/// The relevant names in a directory.
#[derive(Clone, Default)]
struct Names {
    is_relevant: Option<fn(&OsStr) -> bool>,
    these: BTreeSet<OsString>,
}

impl Default for FileWatcher {
    fn default() -> Self {
        Self::new(Box::new(|queue| {
            let handler = move |event| queue.push(event);
            Ok(Box::new(notify::recommended_watcher(handler)?))
        }))
    }
}

impl FileWatcher {
    fn new(connect: Connect) -> Self {
        Self { connect, connection: None, is_warned: false }
    }

    /// Creates a watcher that cannot use inotify, as if the limit of inotify instances were reached.
    #[cfg(test)]
    pub fn polling() -> Self {
        Self::new(Box::new(|_| Err(notify::Error::new(ErrorKind::MaxFilesWatch))))
    }

    /// Replaces the watches. Returns true if the caller must read again, because a directory is gone, or is watched for
    /// the first time and may have changed before.
    ///
    /// If inotify is not available, the watcher polls until the next call.
    pub fn watch(&mut self, watch_set: &WatchSet) -> bool {
        match self.try_watch(watch_set) {
            Ok(must_read_again) => {
                self.is_warned = false;
                must_read_again
            }
            Err(error) => {
                self.connection = None;
                if !std::mem::replace(&mut self.is_warned, true) {
                    let remedy = "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches";
                    tracing::warn!(%error, "cannot watch for changes, polling every second instead; {remedy}");
                }
                false
            }
        }
    }

    fn try_watch(&mut self, watch_set: &WatchSet) -> notify::Result<bool> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.connect)?),
        };
        connection.watch(watch_set)
    }

    /// Waits for relevant events, and returns at least one. Cancel safe.
    pub async fn next(&mut self) -> Vec<Event> {
        let Some(connection) = &mut self.connection else {
            sleep(POLL_INTERVAL).await;
            return vec![Event::Lost];
        };
        loop {
            let events = match connection.queue.take().await {
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!(%error, "watching files failed; starting again");
                    self.connection = None;
                    return vec![Event::Lost];
                }
            };
            let events: Vec<Event> =
                events.into_iter().filter_map(|event| connection.relevant(event)).collect();
            if !events.is_empty() {
                return events;
            }
        }
    }
}

impl Connection {
    fn open(connect: &Connect) -> notify::Result<Self> {
        let queue = Arc::new(EventQueue::default());
        Ok(Self { watcher: connect(queue.clone())?, queue, watched: BTreeMap::new() })
    }

    fn watch(&mut self, watch_set: &WatchSet) -> notify::Result<bool> {
        let mut before = std::mem::take(&mut self.watched);
        let mut must_read_again = false;
        for (path, names) in names_by_directory(watch_set) {
            // The identity is read before the watch is added. If the directory is replaced in between, the next call adds it
            // again.
            let id = match std::fs::metadata(&path) {
                Ok(found) if found.is_dir() => (found.dev(), found.ino()),
                // The directory was replaced by a file after the caller resolved its path.
                Ok(_) => {
                    must_read_again = true;
                    continue;
                }
                Err(error) if is_absent(&error) => {
                    must_read_again = true;
                    continue;
                }
                // The directory is not readable. Its parent or the next read will show a change.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(error) => return Err(error.into()),
            };
            let is_known = before.remove(&path).is_some_and(|watched| {
                // The old watch would follow the directory that was here before.
                let is_same = watched.id == id;
                if !is_same {
                    self.unwatch(&path);
                }
                is_same
            });
            // A repeated watch is harmless, and restores one that notify removed.
            match self.watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    must_read_again |= !is_known;
                    self.watched.insert(path, Watched { id, names });
                }
                Err(notify::Error { kind: ErrorKind::PathNotFound, .. }) => must_read_again = true,
                Err(notify::Error { kind: ErrorKind::Io(error), .. }) if is_absent(&error) => {
                    must_read_again = true;
                }
                Err(notify::Error { kind: ErrorKind::Io(error), .. })
                    if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        before.keys().for_each(|path| self.unwatch(path));
        Ok(must_read_again)
    }

    fn unwatch(&mut self, path: &Path) {
        // The watch of a removed directory is already gone.
        let _ = self.watcher.unwatch(path);
    }

    /// Returns the event if its name is relevant.
    fn relevant(&mut self, event: Event) -> Option<Event> {
        let path = match &event {
            Event::Lost | Event::DirectoryGone => return Some(event),
            Event::Gone(path) if self.watched.contains_key(path) => {
                // notify has ended the watches of this directory and below, so the next call must add them again.
                self.watched.retain(|watched, _| !watched.starts_with(path));
                return Some(Event::DirectoryGone);
            }
            Event::Created(path)
            | Event::BeingWritten(path)
            | Event::Written(path)
            | Event::Touched(path)
            | Event::Gone(path) => path,
        };
        let watched = self.watched.get(path.parent()?)?;
        watched.names.contains(path.file_name()?).then_some(event)
    }
}

impl Names {
    fn contains(&self, name: &OsStr) -> bool {
        self.these.contains(name) || self.is_relevant.is_some_and(|is_relevant| is_relevant(name))
    }
}

/// Waits until a path exists. Directories on the way to it may be missing, or be removed and created again.
pub async fn wait_until_exists(path: &Path, mut watcher: FileWatcher) {
    loop {
        let whole = path.to_owned();
        let mut watch_set = WatchSet::default();
        match disk::run(move || resolve(&whole)).await {
            Ok(ResolvedPath { end: Some(_), .. }) => return,
            Ok(resolved) => watch_set.places = resolved.places,
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "cannot resolve this path yet");
                sleep(POLL_INTERVAL).await;
                continue;
            }
        }
        if !watcher.watch(&watch_set) {
            watcher.next().await;
        }
    }
}

fn names_by_directory(watch_set: &WatchSet) -> BTreeMap<PathBuf, Names> {
    let mut wanted: BTreeMap<PathBuf, Names> = BTreeMap::new();
    if let Some(directory) = &watch_set.directory {
        let names = Names { is_relevant: Some(directory.is_relevant), these: BTreeSet::new() };
        wanted.insert(directory.path.clone(), names);
    }
    for place in &watch_set.places {
        let names = wanted.entry(place.directory.clone()).or_default();
        names.these.insert(place.name.clone());
    }
    wanted
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
