//! Stores the Ingresses and their certificates on disk, readable by the user of the kubelet only (0600).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::IngressSnapshot;
use super::objects::{Ingress, NamespacedName, TlsFiles};
use crate::cluster::{directory, stored};
use crate::disk;

/// Largest file that is read, in bytes. 500 certificates of 10 KiB need a sixth of it.
const MAX_BYTES: u64 = 32 << 20;
/// Changes within this time are written together.
const WRITE_DELAY: Duration = Duration::from_secs(1);

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    ingresses: Vec<(NamespacedName, Arc<Ingress>)>,
    certificates: Vec<(NamespacedName, Arc<TlsFiles>)>,
}

/// The file `ingresses.json` that stores Ingresses and their certificates.
#[derive(Clone, Debug)]
pub(super) struct IngressesFile(PathBuf);

impl IngressesFile {
    /// The file in the root directory of the kubelet.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("ingresses.json"))
    }

    /// Reads the file. Returns `None` if it does not exist. A file that cannot be parsed is logged and ignored.
    pub async fn read(&self) -> Option<IngressSnapshot> {
        let path = self.0.clone();
        disk::run(move || load(&path)).await.unwrap_or_else(|error| {
            let path = self.0.display();
            tracing::warn!(%path, %error, "cannot read the stored Ingresses; they work once the API server answers");
            None
        })
    }

    /// Writes each update until the sender is dropped.
    pub async fn write(self, mut updates: watch::Receiver<Arc<IngressSnapshot>>) {
        while updates.changed().await.is_ok() {
            tokio::time::sleep(WRITE_DELAY).await;
            let snapshot = updates.borrow_and_update().clone();
            let path = self.0.clone();
            if let Err(error) = disk::run(move || save(&path, &snapshot)).await {
                let path = self.0.display();
                tracing::warn!(%path, %error, "cannot store the Ingresses; after a restart they are unknown until the API \
                     server answers");
            }
        }
    }
}

fn load(path: &Path) -> io::Result<Option<IngressSnapshot>> {
    let content: Option<Content> = stored::load(path, MAX_BYTES)?;
    Ok(content.map(|content| IngressSnapshot {
        is_known: true,
        ingresses: content.ingresses.into_iter().collect(),
        certificates: content.certificates.into_iter().collect(),
        ..IngressSnapshot::default()
    }))
}

fn save(path: &Path, snapshot: &IngressSnapshot) -> io::Result<()> {
    let ingresses = snapshot.ingresses.iter().map(|(name, one)| (name.clone(), one.clone()));
    let certificates = snapshot.certificates.iter().map(|(name, files)| (name.clone(), files.clone()));
    let content = Content { ingresses: ingresses.collect(), certificates: certificates.collect() };
    stored::save(path, &serde_json::to_string(&content)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of the stored Ingresses.
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::super::objects::{NamespacedName, TlsFiles};
    use super::super::tests::snapshot;
    use super::{load, save};

    #[test]
    fn stored_ingresses_and_keys_are_read_back_and_are_private() {
        let mut snapshot = snapshot();
        let files = TlsFiles { certificate: "chain".to_owned(), key: "key".to_owned() };
        snapshot.certificates.insert(NamespacedName::new("shop", "cert"), Arc::new(files));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster/ingresses.json");
        assert_eq!(load(&path).unwrap(), None);
        save(&path, &snapshot).unwrap();
        assert_eq!(load(&path).unwrap(), Some(snapshot));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
