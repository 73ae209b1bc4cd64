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
        stored::read(&self.0, load, "cannot read the stored Ingresses; they work once the API server answers")
            .await
    }

    /// Writes each update until the sender is dropped.
    pub async fn write(self, updates: watch::Receiver<Arc<IngressSnapshot>>) {
        let failure = "cannot store the Ingresses; after a restart they are unknown until the API \
                       server answers";
        stored::write(self.0, updates, WRITE_DELAY, save, failure).await;
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
