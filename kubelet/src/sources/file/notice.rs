//! inotify: which names in which directories have changed, and how.
//!
//! The kernel is asked directly: what is read here must not come back as an event, writing must be told from having
//! written, and no thread should wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::scan::{self, Sights};

/// Room for a burst of events with names of common length.
const BUFFER_BYTES: usize = 4096;

/// Directories under watch.
pub(super) struct Notice {
    queue: AsyncFd<OwnedFd>,
    watched: BTreeMap<i32, Watched>,
}

/// One directory.
struct Watched {
    path: PathBuf,
    names: Names,
}

/// Which names in it matter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    /// All that manifests may have.
    manifests: bool,
    /// These.
    these: BTreeSet<OsString>,
}

/// What happened to a name that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It was made, and may be about to be written to.
    Created(PathBuf),
    /// It is being written to.
    BeingWritten(PathBuf),
    /// It was written and closed, or moved here.
    Written(PathBuf),
    /// Its permissions or times changed.
    Touched,
    /// It was removed or moved away.
    Gone(PathBuf),
    /// A watched directory itself went.
    DirectoryGone,
    /// Events were lost: anything may have happened.
    Lost,
}

impl Notice {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the user has no inotify instance left.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; what it asks for, an OwnedFd keeps by its type"
        )]
        let queue = AsyncFd::with_interest(queue, Interest::READABLE)?;
        Ok(Self { queue, watched: BTreeMap::new() })
    }

    /// Watches exactly these from now on; true when that adds a directory: what happened in it before has gone
    /// unnoticed.
    ///
    /// # Errors
    /// When the user has no inotify watch left.
    pub fn watch(&mut self, sights: &Sights) -> io::Result<bool> {
        let nothing = || Names { manifests: false, these: BTreeSet::new() };
        let mut wanted: BTreeMap<&Path, Names> = BTreeMap::new();
        if let Some(directory) = &sights.directory {
            wanted.insert(directory, Names { manifests: true, these: BTreeSet::new() });
        }
        for place in &sights.places {
            let names = wanted.entry(&place.directory).or_insert_with(nothing);
            names.these.insert(place.name.clone());
        }
        let mut watched = BTreeMap::new();
        let mut is_news = false;
        for (path, names) in wanted {
            match inotify::add_watch(self.queue.get_ref(), path, flags()) {
                Ok(id) => {
                    is_news |= !self.watched.contains_key(&id);
                    watched.insert(id, Watched { path: path.to_owned(), names });
                }
                // It went meanwhile, or may not be read: its parent and the rescan will tell.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for id in self.watched.keys().filter(|id| !watched.contains_key(id)) {
            // One whose directory went has gone with it.
            let _ = inotify::remove_watch(self.queue.get_ref(), *id);
        }
        self.watched = watched;
        Ok(is_news)
    }

    /// Waits for events that matter; never empty.
    pub async fn next(&mut self) -> io::Result<Vec<Event>> {
        loop {
            let mut ready = self.queue.readable().await?;
            let read = ready.try_io(|queue| read(queue.get_ref(), &self.watched));
            match read {
                Ok(Ok(events)) if events.is_empty() => {}
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }
}

fn flags() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

/// One buffer of events, those that matter; fails with `WouldBlock` when there are none at all.
fn read(queue: &OwnedFd, watched: &BTreeMap<i32, Watched>) -> io::Result<Vec<Event>> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut reader = inotify::Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    loop {
        let event = reader.next()?;
        let watched = watched.get(&event.wd());
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
        events.extend(meaning(event.events(), watched, name));
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}

fn meaning(flags: ReadFlags, watched: Option<&Watched>, name: Option<&OsStr>) -> Option<Event> {
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Event::Lost);
    }
    let watched = watched?;
    if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
        return Some(Event::DirectoryGone);
    }
    let name = name?;
    let names = &watched.names;
    let matters = names.these.contains(name) || names.manifests && scan::is_manifest(name);
    if !matters {
        return None;
    }
    let path = watched.path.join(name);
    Some(if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        Event::Gone(path)
    } else if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
        Event::Written(path)
    } else if flags.contains(ReadFlags::ATTRIB) {
        Event::Touched
    } else if flags.contains(ReadFlags::MODIFY) {
        Event::BeingWritten(path)
    } else {
        Event::Created(path)
    })
}
