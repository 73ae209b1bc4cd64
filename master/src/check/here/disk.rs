//! Checks the free space of the master's disk and the size of its store. Pure.

use super::super::finding::{Finding, Severity};

const MIB: u64 = 1 << 20;
/// Free space below which the store may stop accepting writes, in bytes. A commit writes new pages before it frees
/// old ones.
const FULL_BYTES: u64 = 256 * MIB;
/// Free space below which the administrator should free some, in bytes.
const SHORT_BYTES: u64 = 1024 * MIB;
/// Number of free files below which a finding is reported. Renewal, backup and restore need a few dozen files.
const FEW_FILES: u64 = 1000;
/// Size from which a store is reported as large, in bytes. Each start reads and verifies the store, at about 1 GB
/// per second.
const LARGE_STORE_BYTES: u64 = 4096 * MIB;

/// Free space of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub free_bytes: u64,
    /// Free inodes. `None` if the file system has no limit.
    pub free_files: Option<u64>,
}

/// The findings for the disk of a directory.
pub fn findings(directory: &str, room: &Result<Room, String>, store_bytes: Option<u64>) -> Vec<Finding> {
    let mut found = Vec::new();
    match room {
        Err(why) => {
            let what = "the free disk space is unknown";
            let remedy = "check that the directory exists and its disk is mounted";
            found.push(Finding::problem(directory, what, remedy).because(why));
        }
        Ok(room) => found.extend(short(directory, *room, store_bytes)),
    }
    if let Some(bytes) = store_bytes.filter(|bytes| *bytes > LARGE_STORE_BYTES) {
        let what = format!("the store has a size of {} MiB", bytes / MIB);
        let remedy = "find the most frequent objects (the metric apiserver_storage_objects) and delete unused ones; \
                      `master backup` and `master restore --replace` free the space of deleted objects";
        let cause = "every start reads the whole store, so that a restart takes seconds";
        found.push(Finding::warning(directory, what, remedy).because(cause));
    }
    found
}

fn short(directory: &str, room: Room, store_bytes: Option<u64>) -> Option<Finding> {
    let Room { free_bytes, free_files } = room;
    let left = format!("{} MiB are left on its disk", free_bytes / MIB);
    let make_room = "delete or move other files on it, or use a larger disk";
    if free_bytes < FULL_BYTES {
        let cause = "without free space nothing can be written, not even deletions";
        return Some(Finding::problem(directory, left, make_room).because(cause));
    }
    if let Some(files) = free_files.filter(|files| *files < FEW_FILES) {
        let severity = if files == 0 { Severity::Problem } else { Severity::Warning };
        let what = format!("{files} inodes are left on its disk");
        let remedy = "delete small files on it, or use another disk";
        return Some(Finding::problem(directory, what, remedy).graded(severity));
    }
    let is_short = free_bytes < SHORT_BYTES;
    let no_backup = store_bytes.is_some_and(|bytes| free_bytes < bytes);
    let cause = if no_backup { "a backup needs as much space as the store" } else { "" };
    (is_short || no_backup).then(|| Finding::warning(directory, left, make_room).because(cause))
}
