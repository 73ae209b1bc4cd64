//! Stores the Services and EndpointSlices on disk. A kubelet that starts while no API server answers serves these.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::objects::{EndpointSlice, Service, ServiceName};
use super::snapshot::ServiceSnapshot;
use crate::cluster::{directory, stored};

/// Largest file that is read, in bytes. 100,000 endpoints of about 200 bytes need a third of it.
const MAX_BYTES: u64 = 64 << 20;
/// Changes within this time are written together. Endpoints change often, and the file contains all of them.
const WRITE_DELAY: Duration = Duration::from_secs(5);

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Content {
    services: Vec<(Arc<ServiceName>, Arc<Service>)>,
    endpoint_slices: Vec<Arc<EndpointSlice>>,
}

/// The file `services.json` that stores Services and EndpointSlices.
#[derive(Clone, Debug)]
pub struct ServicesFile(PathBuf);

impl ServicesFile {
    /// The file in the root directory of the kubelet.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("services.json"))
    }

    /// Reads the file. Returns `None` if it does not exist. A file that cannot be parsed is logged and ignored.
    pub async fn read(&self) -> Option<ServiceSnapshot> {
        stored::read(&self.0, load, "cannot read the stored Services; they work once the API server answers")
            .await
    }

    /// Writes each update until the sender is dropped.
    pub async fn write(self, updates: watch::Receiver<Arc<ServiceSnapshot>>) {
        let failure = "cannot store the Services; after a restart they are unknown until the \
                       API server answers";
        stored::write(self.0, updates, WRITE_DELAY, save, failure).await;
    }
}

fn load(path: &Path) -> io::Result<Option<ServiceSnapshot>> {
    let Some(content) = stored::load::<Content>(path, MAX_BYTES)? else { return Ok(None) };
    let mut snapshot = ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() };
    snapshot.services.extend(content.services);
    for slice in content.endpoint_slices {
        snapshot.put_slice(Arc::unwrap_or_clone(slice));
    }
    Ok(Some(snapshot))
}

fn save(path: &Path, snapshot: &ServiceSnapshot) -> io::Result<()> {
    let services = snapshot.services.iter().map(|(name, service)| (name.clone(), service.clone()));
    let endpoint_slices = snapshot.endpoint_slices.values().flat_map(|slices| slices.iter().cloned());
    let content = Content { services: services.collect(), endpoint_slices: endpoint_slices.collect() };
    stored::save(path, &serde_json::to_string(&content)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of the stored Services.
    use super::super::tests::{informer, service, slice};
    use super::{load, save};

    #[test]
    fn a_stored_snapshot_is_read_back_as_it_was() {
        let mut informer = informer();
        informer.apply_services(client::Delta::Applied(service("web", "10.96.0.9")));
        informer.apply_slices(client::Delta::Applied(slice("web-1", "web", &["10.0.0.2", "10.0.0.3"])));
        let snapshot = informer.complete().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster/services.json");
        assert_eq!(load(&path).unwrap(), None, "there is no file yet");
        save(&path, &snapshot).unwrap();
        assert_eq!(load(&path).unwrap(), Some(snapshot));
        std::fs::write(&path, "{\"services\": 7}").unwrap();
        assert!(load(&path).is_err());
    }
}
