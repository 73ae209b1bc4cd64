//! The latest events on disk, so that what happened to a pod can still be read after a restart.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::Board;
use crate::disk;

/// Events kept on disk: those of a hundred pods being born, in some 300 KiB.
const KEPT: usize = 500;
/// The longest file that is read and written; events with messages of several KiB each leave room for fewer.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// Events wait this long for others before they are written together; a kubelet that is killed loses so much.
const PAUSE: Duration = Duration::from_secs(10);
/// How long a kubelet that stops waits for the last of them to be written; a disk that answers takes milliseconds.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The file of events in the kubelet's directory.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    /// Held while the file is written: each write uses the same partial file.
    writing: Arc<Mutex<()>>,
}

impl Journal {
    /// That of a root directory.
    pub fn new(root_dir: &Path) -> Self {
        Self { path: root_dir.join("events.json"), writing: Arc::default() }
    }

    /// Shows again what an earlier kubelet showed and whose time is not over. What cannot be read is told in the log.
    pub fn restore(&self, board: &Board, now: Timestamp) {
        match self.load() {
            Ok(events) => board.restore_events(&events, now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "events from before the restart are lost; going on without them");
            }
        }
    }

    /// Keeps the file up to date for as long as the task lives.
    pub async fn keep(self, board: Arc<Board>) {
        loop {
            board.new_events().await;
            tokio::time::sleep(PAUSE).await;
            self.write_aside(board.clone()).await;
        }
    }

    /// Writes the latest events before the kubelet stops, which does not wait for a disk that hangs.
    pub async fn write_last(&self, board: Arc<Board>) {
        if timeout(LAST_WRITE, self.write_aside(board)).await.is_err() {
            let path = self.path.display();
            tracing::warn!(%path, "the disk does not answer; the latest events are lost");
        }
    }

    async fn write_aside(&self, board: Arc<Board>) {
        let journal = self.clone();
        disk::run(move || journal.write(&board)).await;
    }

    /// Writes the latest events in one atomic step; a disk that refuses is told in the log.
    fn write(&self, board: &Board) {
        // Before the events are read: who writes last writes the latest.
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.save(&board.events()) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot write events down; a restarted kubelet will not know them");
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
        // A message may quote what a container wrote.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&[&b"["[..], &lines.join(&b",\n"[..]), b"]"].concat())?;
        drop(file);
        fs::rename(&partial, &self.path)
    }
}

#[cfg(test)]
mod tests;
