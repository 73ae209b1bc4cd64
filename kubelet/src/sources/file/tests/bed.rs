//! Test bed: a watched directory and its snapshots.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::desired::{Completeness, Snapshot, SourceObject};
use crate::file_watch::FileWatcher;
use crate::sources::file::{Settings, follow};

/// Timeout, sufficient on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

pub struct Bed {
    pub folder: TempDir,
    pub snapshots: mpsc::Receiver<Arc<Snapshot>>,
    /// All snapshots, newest last.
    pub seen: Vec<Arc<Snapshot>>,
    task: JoinHandle<()>,
    path: PathBuf,
    every: Duration,
    watcher: fn() -> FileWatcher,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bed {
    /// Watches the directory `manifests` after `prepare` has filled the folder. Periodic scans are disabled in effect, so that
    /// only events can cause snapshots.
    pub async fn start(prepare: impl FnOnce(&Path)) -> Self {
        Self::start_at("manifests", Duration::from_secs(3600), |folder| {
            fs::create_dir(folder.join("manifests")).unwrap();
            prepare(folder);
        })
        .await
    }

    /// Watches that path in a folder filled by `prepare`.
    pub async fn start_at(path: &str, every: Duration, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_with(FileWatcher::default, path, every, prepare).await
    }

    /// As [`Self::start_at`], with that watcher.
    pub async fn start_with(
        watcher: fn() -> FileWatcher,
        path: &str,
        every: Duration,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        prepare(folder.path());
        let path = folder.path().join(path);
        let (task, snapshots) = spawn(&folder, &path, every, watcher());
        let mut bed = Self { folder, snapshots, seen: Vec::new(), task, path, every, watcher };
        bed.next().await;
        bed
    }

    /// Stops and restarts the source, like a restarting kubelet; `meanwhile` runs in between.
    pub async fn restart(&mut self, meanwhile: impl FnOnce(&Path)) {
        self.task.abort();
        let _ = (&mut self.task).await;
        meanwhile(self.folder.path());
        (self.task, self.snapshots) = spawn(&self.folder, &self.path, self.every, (self.watcher)());
        self.seen.clear();
        self.next().await;
    }

    /// A path in the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file of the folder.
    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    /// Waits for the next snapshot.
    pub async fn next(&mut self) -> Arc<Snapshot> {
        let snapshot = timeout(DEADLINE, self.snapshots.recv()).await;
        let snapshot =
            snapshot.unwrap_or_else(|_| panic!("no news; at last there was {}", self.last())).unwrap();
        self.seen.push(snapshot.clone());
        snapshot
    }

    /// Waits until these objects are in use: names and images of pods, names of others, in order.
    pub async fn until(&mut self, expected: &str) {
        while self.last() != expected {
            let before = self.last();
            if timeout(DEADLINE, self.next()).await.is_err() {
                panic!("wanted {expected:?}, still {before:?}");
            }
        }
    }

    /// Waits until the last good versions of that many files are on disk, which happens after their snapshot.
    pub async fn until_saved(&self, files: usize) {
        let is_complete = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "json");
        let saved = || match fs::read_dir(self.path("state/sources/file")) {
            Ok(entries) => entries.flatten().filter(is_complete).count(),
            Err(_) => 0,
        };
        let all_saved = async {
            while saved() < files {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, all_saved).await.unwrap();
    }

    /// The objects in use.
    pub fn last(&self) -> String {
        self.seen.last().map(|snapshot| shown(snapshot)).unwrap_or_default()
    }

    /// The current problems, without the path of the folder.
    pub fn problems(&self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let problems = &self.seen.last().unwrap().problems;
        problems.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }

    pub fn completeness(&self) -> Completeness {
        self.seen.last().unwrap().completeness
    }
}

fn spawn(
    folder: &TempDir,
    path: &Path,
    every: Duration,
    watcher: FileWatcher,
) -> (JoinHandle<()>, mpsc::Receiver<Arc<Snapshot>>) {
    let (sender, snapshots) = mpsc::channel(1);
    let root_dir = folder.path().join("state");
    let settings = Settings { path: path.to_owned(), node: "n".to_owned(), every, root_dir };
    (tokio::spawn(follow(settings, watcher, sender)), snapshots)
}

pub fn shown(snapshot: &Snapshot) -> String {
    let shown = snapshot.objects.iter().map(|found| match &found.object {
        SourceObject::Pod(pod) => {
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            format!("{}={}", found.name.name, &image[1..])
        }
        _ => found.name.name.clone(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A pod manifest with the image `v<version>`.
pub fn pod(name: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: main\n    image: v{version}\n"
    )
}

/// The same manifest with an error.
pub fn broken(name: &str) -> String {
    pod(name, "0").replace("image:", "imag:")
}
