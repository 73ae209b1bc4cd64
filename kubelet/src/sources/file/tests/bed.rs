//! A directory under watch, and waiting for what is seen of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::desired::{Completeness, Held, Snapshot};
use crate::sources::file::{Settings, watch};

/// The longest that anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

pub struct Bed {
    pub folder: TempDir,
    pub snapshots: mpsc::Receiver<Arc<Snapshot>>,
    /// All that came, newest last.
    pub seen: Vec<Arc<Snapshot>>,
    task: JoinHandle<()>,
    path: PathBuf,
    every: Duration,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bed {
    /// Watches the directory `manifests` after `prepare` has made what should be in the folder. The rescan is so far away
    /// that only events can tell of changes.
    pub async fn start(prepare: impl FnOnce(&Path)) -> Self {
        Self::start_at("manifests", Duration::from_secs(3600), |folder| {
            fs::create_dir(folder.join("manifests")).unwrap();
            prepare(folder);
        })
        .await
    }

    /// Watches that path in a folder made by `prepare`.
    pub async fn start_at(path: &str, every: Duration, prepare: impl FnOnce(&Path)) -> Self {
        let folder = TempDir::new().unwrap();
        prepare(folder.path());
        let path = folder.path().join(path);
        let (task, snapshots) = spawn(&folder, &path, every);
        let mut bed = Self { folder, snapshots, seen: Vec::new(), task, path, every };
        bed.next().await;
        bed
    }

    /// Ends the watch and starts another, as a kubelet that restarts; `meanwhile` happens in between.
    pub async fn restart(&mut self, meanwhile: impl FnOnce(&Path)) {
        self.task.abort();
        let _ = (&mut self.task).await;
        meanwhile(self.folder.path());
        (self.task, self.snapshots) = spawn(&self.folder, &self.path, self.every);
        self.seen.clear();
        self.next().await;
    }

    /// A path in the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file of the folder in one go.
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

    /// Waits until what is in force reads so: names and images of pods, names of others, in order.
    pub async fn until(&mut self, expected: &str) {
        while self.last() != expected {
            let before = self.last();
            if timeout(DEADLINE, self.next()).await.is_err() {
                panic!("wanted {expected:?}, still {before:?}");
            }
        }
    }

    /// What is in force now.
    pub fn last(&self) -> String {
        self.seen.last().map(|snapshot| shown(snapshot)).unwrap_or_default()
    }

    /// What is wrong now, without the folder's own path.
    pub fn problems(&self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let problems = &self.seen.last().unwrap().problems;
        problems.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }

    pub fn completeness(&self) -> Completeness {
        self.seen.last().unwrap().completeness
    }
}

fn spawn(folder: &TempDir, path: &Path, every: Duration) -> (JoinHandle<()>, mpsc::Receiver<Arc<Snapshot>>) {
    let (sender, snapshots) = mpsc::channel(1);
    let root_dir = folder.path().join("state");
    let settings = Settings { path: path.to_owned(), node: "n".to_owned(), every, root_dir };
    (tokio::spawn(watch(settings, sender)), snapshots)
}

pub fn shown(snapshot: &Snapshot) -> String {
    let shown = snapshot.objects.iter().map(|found| match &found.object {
        Held::Pod(pod) => {
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            format!("{}={}", found.name.name, &image[1..])
        }
        _ => found.name.name.clone(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A pod as text, its image `v<version>`.
pub fn pod(name: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: main\n    image: v{version}\n"
    )
}

/// The same text, wrong.
pub fn broken(name: &str) -> String {
    pod(name, "0").replace("image:", "imag:")
}
