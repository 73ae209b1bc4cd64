//! A pod's volumes on the host: made before its containers, refreshed while it runs, taken down after.

mod atomic;
mod content;
mod empty_dir;
mod error;
mod files;
mod host_path;
mod layout;
mod mounting;
mod mounts;
mod plan;
mod sub_path;
mod teardown;
mod termination;
mod usage;

use std::path::{Path, PathBuf};

use api::references::References;
use k8s_openapi::api::core::v1::{Container, Pod};

pub use empty_dir::is_limited;
pub use error::Error;
pub use usage::Usage;

use crate::disk;
use crate::observed::PodUid;
use crate::runtime::spec::Mount;
use crate::spec::{Environment, Facts, Note};
use layout::{Layout, check_name};

/// The volumes of all pods of this node, below one directory.
#[derive(Clone, Debug)]
pub struct Volumes {
    layout: Layout,
}

/// The pod whose volumes are meant, and what they are filled from.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The pod's identity.
    pub uid: &'a PodUid,
    /// The pod.
    pub pod: &'a Pod,
    /// ConfigMaps and Secrets.
    pub references: &'a References,
    /// Facts of the node, for the downward API.
    pub facts: &'a Facts,
}

/// What became of a pod's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Volumes that hold something new.
    pub changed: Vec<String>,
    /// Volumes that keep what they hold, because what they should hold cannot be told any more; each with the reason.
    pub kept: Vec<Error>,
}

impl Volumes {
    /// Volumes below `<root-dir>/pods`.
    pub fn new(root_dir: &Path) -> Self {
        Self { layout: Layout::new(root_dir) }
    }

    /// Makes every volume of the pod that is not there yet. Safe to repeat.
    ///
    /// # Errors
    /// Names the volume and what it lacks; what was made already stays.
    ///
    /// The notes tell what a volume that is new had to do without.
    pub async fn mount(&self, wanted: &Wanted<'_>) -> Result<Vec<Note>, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = plan::plan(wanted)?;
        let (layout, uid) = (self.layout.clone(), wanted.uid.clone());
        disk::run(move || {
            let made = plan.iter().filter_map(|volume| volume.make(&layout, &uid).transpose());
            made.collect()
        })
        .await
    }

    /// Brings the files of ConfigMaps, Secrets and the downward API up to date, each volume all at once.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn refresh(&self, wanted: &Wanted<'_>) -> Result<Refreshed, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = plan::plan_files(wanted)?;
        if plan.is_empty() {
            return Ok(Refreshed::default());
        }
        let (layout, uid) = (self.layout.clone(), wanted.uid.clone());
        disk::run(move || {
            let mut refreshed = Refreshed::default();
            plan.iter().try_for_each(|volume| volume.refresh(&layout, &uid, &mut refreshed))?;
            Ok(refreshed)
        })
        .await
    }

    /// Where each volume mount of a container comes from; the pod's volumes must be mounted.
    ///
    /// # Errors
    /// Names the mount that cannot be made.
    pub async fn container_mounts(
        &self,
        wanted: &Wanted<'_>,
        container: &Container,
        environment: &Environment,
    ) -> Result<Vec<Mount>, Error> {
        check_name("UID", wanted.uid.as_str())?;
        let plan = mounts::plan(&self.layout, wanted, container, environment)?;
        disk::run(move || plan.into_iter().map(mounts::PlannedMount::make).collect()).await
    }

    /// The file that takes the last words of a container's attempt, made when it is not there.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn termination_file(
        &self,
        uid: &PodUid,
        container: &str,
        attempt: u32,
    ) -> Result<PathBuf, Error> {
        check_name("UID", uid.as_str())?;
        check_name("container", container)?;
        let directory = self.layout.container(uid, container);
        disk::run(move || termination::make(&directory, attempt)).await
    }

    /// Takes down all volumes of a pod and removes its directory. Safe to repeat; a pod that has none is fine.
    ///
    /// # Errors
    /// Something is still in use; the same call may succeed later.
    pub async fn unmount(&self, uid: &PodUid) -> Result<(), Error> {
        check_name("UID", uid.as_str())?;
        let directory = self.layout.pod(uid);
        disk::run(move || teardown::remove(&directory)).await
    }

    /// What those `emptyDir` volumes of a pod that have a limit take of the disk; those in memory are held to their size by
    /// the kernel.
    ///
    /// # Errors
    /// A volume cannot be read.
    pub async fn usage(&self, uid: &PodUid, pod: &Pod) -> Result<Vec<Usage>, Error> {
        check_name("UID", uid.as_str())?;
        let limited = empty_dir::limited(pod).map(|(volume, limit_bytes, limit)| {
            let path = self.layout.volume(uid, empty_dir::PLUGIN, volume);
            (path, Usage { volume: volume.to_owned(), used_bytes: 0, limit_bytes, limit: limit.to_owned() })
        });
        let limited: Vec<_> = limited.collect();
        let measure = |(path, usage): (PathBuf, Usage)| {
            let failed = |e: rustix::io::Errno| error::at("measure", &path)(e.into());
            let used_bytes = usage::of(&path).map_err(|e| Error::pod(failed(e).to_string()))?;
            Ok(Usage { used_bytes, ..usage })
        };
        disk::run(move || limited.into_iter().map(measure).collect()).await
    }

    /// Takes away what the `emptyDir` volumes of a pod hold. Safe to repeat; the next [`Self::mount`] makes them anew.
    ///
    /// # Errors
    /// Something is still in use; the same call may succeed later.
    pub async fn empty(&self, uid: &PodUid) -> Result<(), Error> {
        check_name("UID", uid.as_str())?;
        let directory = self.layout.plugin(uid, empty_dir::PLUGIN);
        disk::run(move || teardown::remove(&directory)).await
    }

    /// The pods that have a directory here.
    ///
    /// # Errors
    /// The directory of pods cannot be read.
    pub fn on_disk(&self) -> Result<Vec<PodUid>, Error> {
        self.layout.pods()
    }
}

#[cfg(test)]
mod tests;
