//! What events have said since the last look, and how long to wait for more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::notice::Event;
use super::scan::Hints;

/// After a file was written: those that are written together are read together.
const QUIET: Duration = Duration::from_millis(2);
/// After something went: editors move a file away before they write its successor.
const QUIET_GONE: Duration = Duration::from_millis(10);
/// After a whole directory went: another one may be on its way to its place.
const QUIET_DIRECTORY_GONE: Duration = Duration::from_millis(100);
/// A file that was last written so long ago is read even though nobody closed it.
const UNFINISHED: Duration = Duration::from_secs(30);

/// Events since the last look.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Files someone writes to, and when that was last seen.
    writing: BTreeMap<PathBuf, Instant>,
    created: BTreeMap<PathBuf, Instant>,
    written: BTreeSet<PathBuf>,
}

impl Pending {
    /// Takes note; `Some` when it is time for a look after so long without further events.
    pub fn note(&mut self, events: Vec<Event>, now: Instant) -> Option<Duration> {
        let mut quiet = None;
        for event in events {
            let wait = match event {
                Event::BeingWritten(path) => {
                    self.created.remove(&path);
                    self.writing.insert(path, now);
                    continue;
                }
                Event::Created(path) => {
                    self.created.insert(path, now);
                    QUIET
                }
                Event::Written(path) => {
                    self.forget(&path);
                    self.written.insert(path);
                    QUIET
                }
                Event::Touched => QUIET,
                Event::Gone(path) => {
                    self.forget(&path);
                    QUIET_GONE
                }
                Event::DirectoryGone => QUIET_DIRECTORY_GONE,
                Event::Lost => {
                    *self = Self::default();
                    QUIET
                }
            };
            quiet = quiet.max(Some(wait));
        }
        quiet
    }

    /// What the next look should know.
    pub fn take(&mut self, now: Instant) -> Hints {
        let is_fresh = |_: &PathBuf, since: &mut Instant| now.duration_since(*since) < UNFINISHED;
        self.writing.retain(is_fresh);
        self.created.retain(is_fresh);
        Hints {
            being_written: self.writing.keys().cloned().collect(),
            created: self.created.keys().cloned().collect(),
            written: std::mem::take(&mut self.written),
        }
    }

    fn forget(&mut self, path: &PathBuf) {
        self.writing.remove(path);
        self.created.remove(path);
    }
}
