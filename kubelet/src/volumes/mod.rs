//! Volume manager: mounts a pod's volumes before its containers start, refreshes them, and unmounts them at the end.

mod atomic_writer;
mod content;
mod error;
mod files;
mod layout;
mod local_volumes;
mod mounting;
mod mounts;
mod plan;
mod sub_path;
mod teardown;
mod termination;
pub mod types;
mod usage;

use std::path::{Path, PathBuf};

use api::references::References;
use k8s_openapi::api::core::v1::{Container, Pod};

pub use error::Error;
pub use local_volumes::DeleteError;
pub use usage::{DiskUse, Usage, disk_use, disk_use_of_files};

use crate::disk;
use crate::observed::PodUid;
use crate::runtime::spec::Mount;
use crate::spec::{Environment, Facts, Note};
use layout::{Layout, check_name};
use local_volumes::LocalVolumes;

/// The volumes of all pods of this node.
#[derive(Clone, Debug)]
pub struct Volumes {
    layout: Layout,
    local_volumes: LocalVolumes,
}

/// Input for volume operations of a pod.
#[derive(Clone, Copy, Debug)]
pub struct VolumeInput<'a> {
    /// The pod's identity.
    pub uid: &'a PodUid,
    pub pod: &'a Pod,
    /// ConfigMaps and Secrets.
    pub references: &'a References,
    /// Node facts, for the downward API.
    pub facts: &'a Facts,
}

/// Result of a refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Volumes with updated files.
    pub changed: Vec<String>,
    /// Volumes that keep their files because the new ones are not available, with the reason.
    pub kept: Vec<Error>,
}

impl Volumes {
    /// Creates a manager for volumes below `<root-dir>/pods`.
    pub fn new(root_dir: &Path) -> Self {
        Self { layout: Layout::new(root_dir), local_volumes: LocalVolumes::new(root_dir) }
    }

    /// Mounts all volumes of the pod that are not mounted yet. Idempotent. The notes report features that a new
    /// volume lacks.
    ///
    /// # Errors
    /// If a volume cannot be mounted. The error names the volume and what is missing. Volumes that were already
    /// mounted stay.
    pub async fn mount(&self, wanted: &VolumeInput<'_>) -> Result<Vec<Note>, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = plan::plan(&self.layout, &self.local_volumes, wanted)?;
        disk::run(move || plan.iter().filter_map(|volume| volume.make().transpose()).collect()).await
    }

    /// Updates files from ConfigMaps, Secrets and the downward API, atomically per volume.
    ///
    /// # Errors
    /// If an I/O operation fails.
    pub async fn refresh(&self, wanted: &VolumeInput<'_>) -> Result<Refreshed, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = plan::plan_files(&self.layout, &self.local_volumes, wanted)?;
        if plan.is_empty() {
            return Ok(Refreshed::default());
        }
        disk::run(move || {
            let mut refreshed = Refreshed::default();
            plan.iter().try_for_each(|volume| volume.refresh(&mut refreshed))?;
            Ok(refreshed)
        })
        .await
    }

    /// The mounts of a container. The pod's volumes must be mounted.
    ///
    /// # Errors
    /// If a mount fails. The error names it.
    pub async fn container_mounts(
        &self,
        wanted: &VolumeInput<'_>,
        container: &Container,
        environment: &Environment,
    ) -> Result<Vec<Mount>, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = mounts::plan(&self.layout, wanted, container, environment)?;
        disk::run(move || plan.into_iter().map(mounts::PlannedMount::make).collect()).await
    }

    /// The file for the termination message of a container attempt. It is created if it is missing.
    ///
    /// # Errors
    /// If an I/O operation fails.
    pub async fn termination_file(
        &self,
        uid: &PodUid,
        container: &str,
        attempt: u32,
    ) -> Result<PathBuf, Error> {
        check_name("UID", uid.as_str())?;
        check_name("container", container)?;
        let (directory, container) = (self.layout.termination(uid), container.to_owned());
        disk::run(move || termination::make(&directory, &container, attempt)).await
    }

    /// Unmounts all volumes of a pod, and removes its directory. Idempotent.
    ///
    /// # Errors
    /// If something is still in use. A retry may succeed.
    pub async fn unmount(&self, uid: &PodUid) -> Result<(), Error> {
        check_name("UID", uid.as_str())?;
        let directory = self.layout.pod(uid);
        disk::run(move || teardown::remove(&directory)).await
    }

    /// The disk usage of the pod's volumes that have a size limit.
    ///
    /// # Errors
    /// If a volume cannot be read.
    pub async fn usage(&self, uid: &PodUid, pod: &Pod) -> Result<Vec<Usage>, Error> {
        check_name("UID", uid.as_str())?;
        let limited = types::limited(pod).filter_map(|(volume, limit)| {
            let path = self.layout.plugin(uid, types::location(volume)?.plugin()?).join(&volume.name);
            let name = volume.name.clone();
            Some((path, Usage { volume: name, used_bytes: 0, limit_bytes: limit.bytes, limit: limit.text }))
        });
        let limited: Vec<_> = limited.collect();
        let measure = |(path, usage): (PathBuf, Usage)| {
            let failed = |e: rustix::io::Errno| error::at("measure", &path)(e.into());
            let used = disk_use(&path).map_err(|e| Error::pod(failed(e).to_string()))?;
            Ok(Usage { used_bytes: used.bytes, ..usage })
        };
        disk::run(move || limited.into_iter().map(measure).collect()).await
    }

    /// The disk usage of all scratch volumes (`emptyDir`) of the pod. Volumes in memory do not count.
    ///
    /// # Errors
    /// If a volume cannot be read.
    pub async fn scratch_use(&self, uid: &PodUid) -> Result<DiskUse, Error> {
        check_name("UID", uid.as_str())?;
        let directories: Vec<_> =
            types::scratch_plugins().map(|plugin| self.layout.plugin(uid, plugin)).collect();
        let measure = |path: PathBuf| {
            disk_use(&path).map_err(|e| Error::pod(error::at("measure", &path)(e.into()).to_string()))
        };
        let all = move || directories.into_iter().map(measure).collect::<Result<Vec<_>, _>>();
        let all = disk::run(all).await?;
        Ok(all.into_iter().fold(DiskUse::default(), DiskUse::plus))
    }

    /// Deletes the contents of the pod's scratch volumes (`emptyDir`). Idempotent. The next [`Self::mount`] creates
    /// them again.
    ///
    /// # Errors
    /// If something is still in use. A retry may succeed.
    pub async fn empty(&self, uid: &PodUid) -> Result<(), Error> {
        check_name("UID", uid.as_str())?;
        // All types, because the pod may have had other volumes before.
        let directories: Vec<_> =
            types::scratch_plugins().map(|plugin| self.layout.plugin(uid, plugin)).collect();
        disk::run(move || directories.iter().try_for_each(|directory| teardown::remove(directory))).await
    }

    /// Deletes the data of a volume of the built-in provisioner. Idempotent.
    ///
    /// # Errors
    /// If a pod uses the volume, or the data cannot be removed. A retry may succeed.
    pub async fn delete_local(&self, volume: &str) -> Result<(), DeleteError> {
        let (volumes, volume) = (self.local_volumes.clone(), volume.to_owned());
        disk::run(move || volumes.delete(&volume)).await
    }

    /// All pods that have a directory.
    ///
    /// # Errors
    /// If the directory of all pods cannot be read.
    pub fn on_disk(&self) -> Result<Vec<PodUid>, Error> {
        self.layout.pods()
    }
}

/// Whether the disk usage of the pod's volumes must be measured.
pub fn is_limited(pod: &Pod) -> bool {
    types::limited(pod).next().is_some()
}

#[cfg(test)]
mod tests;
