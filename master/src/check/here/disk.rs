//! Whether the master's disk has room, and how large its store has become. Pure.

use super::super::finding::{Finding, Severity};

const MIB: u64 = 1 << 20;
/// With less the store stops taking writes at any moment: a commit writes pages anew before it frees the old ones.
const FULL_BYTES: u64 = 256 * MIB;
/// With less it is time to make room.
const SHORT_BYTES: u64 = 1024 * MIB;
/// Files that must still find room: those of a renewal, a backup and a restore are a few dozen.
const FEW_FILES: u64 = 1000;
/// A store is read and checked whole at each start, about a second each GB.
const LARGE_STORE_BYTES: u64 = 4096 * MIB;

/// What is left on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub free_bytes: u64,
    /// Files, where their number has a limit.
    pub free_files: Option<u64>,
}

/// What is wrong with the disk of that directory.
pub fn findings(directory: &str, room: &Result<Room, String>, store_bytes: Option<u64>) -> Vec<Finding> {
    let mut found = Vec::new();
    match room {
        Err(why) => {
            let what = "nobody can say how much room is left";
            let remedy = "look whether the directory is there and its disk mounted";
            found.push(Finding::problem(directory, what, remedy).because(why));
        }
        Ok(room) => found.extend(short(directory, *room, store_bytes)),
    }
    if let Some(bytes) = store_bytes.filter(|bytes| *bytes > LARGE_STORE_BYTES) {
        let what = format!("the store has {} MiB", bytes / MIB);
        let remedy = "look what there is so much of (the metric apiserver_storage_objects of /metrics) and delete what nobody needs; \
                      `master backup` and `master restore --replace` give back the room of what was deleted";
        let cause = "every start reads it whole, so that a restart takes seconds";
        found.push(Finding::warning(directory, what, remedy).because(cause));
    }
    found
}

fn short(directory: &str, room: Room, store_bytes: Option<u64>) -> Option<Finding> {
    let Room { free_bytes, free_files } = room;
    let left = format!("{} MiB are left on its disk", free_bytes / MIB);
    let make_room = "delete or move away what else lies there, or give the directory a larger disk";
    if free_bytes < FULL_BYTES {
        let cause = "without room nothing can be written, not even a deletion";
        return Some(Finding::problem(directory, left, make_room).because(cause));
    }
    if let Some(files) = free_files.filter(|files| *files < FEW_FILES) {
        let severity = if files == 0 { Severity::Problem } else { Severity::Warning };
        let what = format!("{files} more files find room on its disk (inodes)");
        let remedy = "delete what many small files lie there, or give the directory another disk";
        return Some(Finding::problem(directory, what, remedy).graded(severity));
    }
    let is_short = free_bytes < SHORT_BYTES;
    let no_backup = store_bytes.is_some_and(|bytes| free_bytes < bytes);
    let cause = if no_backup { "a backup passes through it and needs as much room as the store" } else { "" };
    (is_short || no_backup).then(|| Finding::warning(directory, left, make_room).because(cause))
}
