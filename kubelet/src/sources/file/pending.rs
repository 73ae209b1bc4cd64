//! Collects file events between scans, and decides how long to wait for more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::scan::ChangedFiles;
use crate::file_watch::Event;

/// How long to wait after a file was written, so that files written together are read together.
const SETTLE_TIME: Duration = Duration::from_millis(2);
/// How long to wait after a removal. Editors move a file away before they write its replacement.
const SETTLE_TIME_REMOVED: Duration = Duration::from_millis(10);
/// How long to wait after a directory was removed, because a replacement may follow.
const SETTLE_TIME_DIRECTORY_REMOVED: Duration = Duration::from_millis(100);
/// How long a file may stay open without a write before it is read nevertheless.
const UNFINISHED: Duration = Duration::from_secs(30);

/// Events since the last scan.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    /// Files being written, with the time of the last write.
    writing: BTreeMap<PathBuf, Instant>,
    created: BTreeMap<PathBuf, Instant>,
    written: BTreeSet<PathBuf>,
}

impl PendingEvents {
    /// Adds events. Returns how long to wait for more before the next scan, or `None` if no scan is needed.
    pub fn note(&mut self, events: Vec<Event>, now: Instant) -> Option<Duration> {
        let mut settle_time = None;
        for event in events {
            let wait = match event {
                Event::BeingWritten(path) => {
                    self.created.remove(&path);
                    self.writing.insert(path, now);
                    continue;
                }
                Event::Created(path) => {
                    self.created.insert(path, now);
                    SETTLE_TIME
                }
                Event::Written(path) => {
                    self.forget(&path);
                    self.written.insert(path);
                    SETTLE_TIME
                }
                Event::Touched(_) => SETTLE_TIME,
                Event::Gone(path) => {
                    self.forget(&path);
                    SETTLE_TIME_REMOVED
                }
                Event::DirectoryGone => SETTLE_TIME_DIRECTORY_REMOVED,
                Event::Lost => {
                    *self = Self::default();
                    SETTLE_TIME
                }
            };
            settle_time = settle_time.max(Some(wait));
        }
        settle_time
    }

    /// Returns the changed files for the next scan, and removes them.
    pub fn take(&mut self, now: Instant) -> ChangedFiles {
        let is_fresh = |_: &PathBuf, since: &mut Instant| now.duration_since(*since) < UNFINISHED;
        self.writing.retain(is_fresh);
        self.created.retain(is_fresh);
        ChangedFiles {
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
