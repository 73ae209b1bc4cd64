//! Waits for a file that does not exist yet. Its directories may also be missing.

use std::path::Path;
use std::time::Duration;

use crate::file_watch::{self, FileWatcher};

/// Returns when the file exists, or when `at_most` has passed.
pub async fn wait_for_path(path: &Path, at_most: Duration) {
    // The caller reads the file in any case.
    let _ = tokio::time::timeout(at_most, file_watch::wait_until_exists(path, FileWatcher::default())).await;
}
