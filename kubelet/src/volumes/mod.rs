//! A pod's volumes on the host: made before its containers, refreshed while it runs, taken down after.

mod empty_dir;
mod error;
mod host_path;
mod layout;
mod mounts;
mod plan;
mod teardown;
mod termination;

use std::path::{Path, PathBuf};

use api::references::References;
use k8s_openapi::api::core::v1::{Container, Pod};

pub use error::Error;

use crate::observed::PodUid;
use crate::runtime::spec::Mount;
use crate::spec::{Environment, Facts};
use layout::Layout;

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

impl Volumes {
    /// Volumes below `<root-dir>/pods`.
    pub fn new(root_dir: &Path) -> Self {
        Self { layout: Layout::new(root_dir) }
    }

    /// Makes every volume of the pod that is not there yet. Safe to repeat.
    ///
    /// # Errors
    /// Names the volume and what it lacks; what was made already stays.
    pub async fn mount(&self, wanted: &Wanted<'_>) -> Result<(), Error> {
        let plan = plan::plan(wanted)?;
        let (layout, uid) = (self.layout.clone(), wanted.uid.clone());
        blocking(move || plan.iter().try_for_each(|volume| volume.make(&layout, &uid))).await
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
        mounts::of(&self.layout, wanted, container, environment)
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
        let directory = self.layout.container(uid, container);
        blocking(move || termination::make(&directory, attempt)).await
    }

    /// Takes down all volumes of a pod and removes its directory. Safe to repeat; a pod that has none is fine.
    ///
    /// # Errors
    /// Something is still in use; the same call may succeed later.
    pub async fn unmount(&self, uid: &PodUid) -> Result<(), Error> {
        let directory = self.layout.pod(uid);
        blocking(move || teardown::remove(&directory)).await
    }

    /// The pods that have a directory here.
    ///
    /// # Errors
    /// The directory of pods cannot be read.
    pub fn on_disk(&self) -> Result<Vec<PodUid>, Error> {
        self.layout.pods()
    }
}

/// Runs file system work where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::pod(format!("work on volumes was cut short, it will be tried again: {e}"))),
    }
}

#[cfg(test)]
mod tests;
