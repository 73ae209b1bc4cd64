//! Metadata of a file that changes when the file changes, so that unchanged files are not read again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that changed less long ago, in seconds, may change again with the same times: file systems count in steps of
/// up to two seconds.
const RECENT_SECONDS: i64 = 3;

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Seconds and nanoseconds of the last write.
    modified: (i64, i64),
    /// Seconds and nanoseconds of the last change, of metadata too.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether both are the same content of the same file. A rename changes only ctime.
    pub fn is_same_content(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }

    /// The size of the file, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether the file changed so recently that its next change may have the same stamp.
    pub fn is_recent(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_secs()).unwrap_or_default().saturating_sub(self.changed.0) < RECENT_SECONDS
    }
}
