//! Saves recent events to disk, so that they survive a restart of the kubelet.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::StatusManager;
use crate::disk;

/// Maximum number of events that are saved. The creation of a hundred pods has as many, about 300 KiB.
const KEPT: usize = 500;
/// Maximum size of the file in bytes. With long messages it contains fewer events.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// Delay before new events are written together. A killed kubelet loses the events of this time.
const PAUSE: Duration = Duration::from_secs(10);
/// Timeout of the last write when the kubelet stops. A healthy disk takes milliseconds.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The event file in the root directory.
#[derive(Clone, Debug)]
pub struct EventLog {
    path: PathBuf,
    /// Locked during a write, because all writes use the same temporary file.
    writing: Arc<Mutex<()>>,
}

impl EventLog {
    /// The event log of a root directory.
    pub fn new(root_dir: &Path) -> Self {
        Self { path: root_dir.join("events.json"), writing: Arc::default() }
    }

    /// Restores events of an earlier kubelet process that have not expired. Errors are logged.
    pub fn restore(&self, status_manager: &StatusManager, now: Timestamp) {
        match self.load() {
            Ok(events) => status_manager.restore_events(&events, now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "cannot read saved events; continuing without them");
            }
        }
    }

    /// Writes the file after new events, until the task is aborted.
    pub async fn keep(self, status_manager: Arc<StatusManager>) {
        loop {
            status_manager.new_events().await;
            tokio::time::sleep(PAUSE).await;
            self.write_aside(status_manager.clone()).await;
        }
    }

    /// Writes the latest events before the kubelet stops. It does not wait for a hung disk.
    pub async fn write_last(&self, status_manager: Arc<StatusManager>) {
        if timeout(LAST_WRITE, self.write_aside(status_manager)).await.is_err() {
            let path = self.path.display();
            tracing::warn!(%path, "timeout while saving events; the latest events are lost");
        }
    }

    async fn write_aside(&self, status_manager: Arc<StatusManager>) {
        let event_log = self.clone();
        disk::run(move || event_log.write(&status_manager)).await;
    }

    /// Writes the latest events atomically. Errors are logged.
    fn write(&self, status_manager: &StatusManager) {
        // Taken before the events are read, so that the last writer writes the latest events.
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.save(&status_manager.events()) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot save events; they are lost after a restart");
        }
    }

    fn load(&self) -> io::Result<Vec<Map<String, Value>>> {
        let mut bytes = Vec::new();
        fs::File::open(&self.path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    fn save(&self, events: &[Map<String, Value>]) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut bytes = 2;
        for event in events.iter().rev().take(KEPT) {
            let line = serde_json::to_vec(event)?;
            bytes += line.len() + 2;
            if bytes > MOST_BYTES {
                break;
            }
            lines.push(line);
        }
        lines.reverse();
        let partial = self.path.with_extension("json.tmp");
        // Messages may quote container output.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&[&b"["[..], &lines.join(&b",\n"[..]), b"]"].concat())?;
        drop(file);
        fs::rename(&partial, &self.path)
    }
}

#[cfg(test)]
mod tests;
