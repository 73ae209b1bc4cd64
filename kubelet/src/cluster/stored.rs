//! What the informers of Services, NetworkPolicies and Ingresses share: publishing snapshots, and files with the last known state.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use crate::disk;

/// Shortest time between two snapshots. Changes that arrive meanwhile are published together.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(10);

/// The state of some kinds of objects, which may be unknown.
pub(super) trait Snapshot: PartialEq {
    /// Whether the state is known, from the API server or from the disk.
    fn is_known(&self) -> bool;
}

/// Publishes the snapshot after each change. It does not return. A known state stays known, also one of the disk.
pub(super) async fn publish<S: Snapshot>(
    changed: &Notify,
    snapshot: impl Fn() -> S,
    sender: &watch::Sender<Arc<S>>,
) {
    loop {
        changed.notified().await;
        let snapshot = snapshot();
        sender.send_if_modified(|known| {
            let is_new = **known != snapshot && (snapshot.is_known() || !known.is_known());
            if is_new {
                *known = Arc::new(snapshot);
            }
            is_new
        });
        tokio::time::sleep(MIN_PUBLISH_INTERVAL).await;
    }
}

/// Reads a snapshot with `load`. A file that cannot be read is logged as `failure`, and counts as missing.
pub(super) async fn read<S: Send + 'static>(
    path: &Path,
    load: fn(&Path) -> io::Result<Option<S>>,
    failure: &str,
) -> Option<S> {
    let read = path.to_owned();
    disk::run(move || load(&read)).await.unwrap_or_else(|error| {
        let path = path.display();
        tracing::warn!(%path, %error, "{failure}");
        None
    })
}

/// Writes known snapshots with `save` until the sender is dropped. Changes within `delay` are written together. An error
/// is logged as `failure`.
pub(super) async fn write<S: Snapshot + Send + Sync + 'static>(
    path: PathBuf,
    mut updates: watch::Receiver<Arc<S>>,
    delay: Duration,
    save: fn(&Path, &S) -> io::Result<()>,
    failure: &str,
) {
    while updates.changed().await.is_ok() {
        tokio::time::sleep(delay).await;
        let snapshot = updates.borrow_and_update().clone();
        if !snapshot.is_known() {
            continue;
        }
        let written = path.clone();
        if let Err(error) = disk::run(move || save(&written, &snapshot)).await {
            let path = path.display();
            tracing::warn!(%path, %error, "{failure}");
        }
    }
}

/// Reads at most `max_bytes` of a JSON file. Returns `None` if it does not exist. Blocks.
///
/// # Errors
/// If the file cannot be read or decoded.
pub(super) fn load<T: DeserializeOwned>(path: &Path, max_bytes: u64) -> io::Result<Option<T>> {
    match File::open(path) {
        Ok(file) => Ok(Some(serde_json::from_reader(BufReader::new(file.take(max_bytes)))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file atomically. Only its owner may read it. Blocks.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn save(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let partial = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    File::open(folder)?.sync_all()
}
