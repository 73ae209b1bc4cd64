//! Measures the local ephemeral storage of a pod: writable layers, logs and `emptyDir` volumes.

use std::path::PathBuf;

use super::Dependencies;
use crate::disk;
use crate::observed::{self, PodUid};
use crate::runtime::{self, ContainerStorage};
use crate::volumes::{self, DiskUse, disk_use, disk_use_of_files};

/// The local ephemeral storage of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStorage {
    pub containers: Vec<ContainerUse>,
    /// The `emptyDir` volumes on disk.
    pub volumes: DiskUse,
}

/// What a container uses, with its earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUse {
    pub name: String,
    /// The writable layer.
    pub layer: DiskUse,
    /// The log files.
    pub logs: DiskUse,
}

impl PodStorage {
    /// Writable layers and logs, which are in the engine's data directory.
    pub fn of_engine(&self) -> DiskUse {
        self.containers
            .iter()
            .map(|container| container.layer.plus(container.logs))
            .fold(DiskUse::default(), DiskUse::plus)
    }

    /// Everything.
    pub fn total(&self) -> DiskUse {
        self.of_engine().plus(self.volumes)
    }

    fn add(&mut self, name: &str, layer: DiskUse, logs: DiskUse) {
        match self.containers.iter_mut().find(|container| container.name == name) {
            Some(known) => {
                known.layer = known.layer.plus(layer);
                known.logs = known.logs.plus(logs);
            }
            None => self.containers.push(ContainerUse { name: name.to_owned(), layer, logs }),
        }
    }
}

/// Measures a pod. A container that disappears meanwhile does not count.
///
/// # Errors
/// If the engine does not answer, or a directory cannot be read. The message says which.
pub async fn measure(deps: &Dependencies, uid: &PodUid) -> Result<PodStorage, String> {
    let observed: std::sync::Arc<observed::Pod> = deps.pleg.pod(uid);
    let volumes = deps.volumes.scratch_use(uid).await.map_err(|error: volumes::Error| error.to_string())?;
    let mut storage = PodStorage { containers: Vec::new(), volumes };
    for container in &observed.containers {
        let place = match deps.runtime.storage(&container.id).await {
            Ok(place) => place,
            Err(runtime::Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.to_string()),
        };
        let (layer, logs) = disk::run(move || sizes(place)).await?;
        storage.add(&container.name, layer, logs);
    }
    Ok(storage)
}

/// The sizes of the writable layer and of the logs. Blocks.
fn sizes(place: ContainerStorage) -> Result<(DiskUse, DiskUse), String> {
    let layer = match place.layer {
        Some(directory) => disk_use(&directory)
            .map_err(|error| format!("cannot measure {}: {error}", directory.display()))?,
        None => DiskUse { bytes: place.layer_bytes.unwrap_or_default(), inodes: 0 },
    };
    let logs = place.log.as_ref().map(|log: &PathBuf| disk_use_of_files(log)).unwrap_or_default();
    Ok((layer, logs))
}
