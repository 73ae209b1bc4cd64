//! Which volumes a pod wants, and how each is made.

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::error::Error;
use super::layout::Layout;
use super::{Wanted, empty_dir, host_path};
use crate::observed::PodUid;

/// One volume, ready to be made.
pub(super) struct Planned {
    name: String,
    kind: Kind,
}

enum Kind {
    EmptyDir(empty_dir::EmptyDir),
    HostPath(host_path::HostPath),
}

/// All volumes of a pod.
///
/// # Errors
/// Names the first volume that cannot be.
pub(super) fn plan(wanted: &Wanted<'_>) -> Result<Vec<Planned>, Error> {
    volumes(wanted.pod).map(|volume| planned(wanted, volume)).collect()
}

/// The volumes of a pod.
pub(super) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The directory below `volumes/` that a volume's plugin has; `None` for a volume that lies elsewhere.
pub(super) fn plugin(volume: &Volume) -> Option<&'static str> {
    volume.empty_dir.is_some().then_some(empty_dir::PLUGIN)
}

fn planned(wanted: &Wanted<'_>, volume: &Volume) -> Result<Planned, Error> {
    let context = wanted.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let fs_group = context.and_then(|context| context.fs_group);
    let kind = if let Some(source) = &volume.empty_dir {
        Kind::EmptyDir(empty_dir::plan(&volume.name, source, fs_group)?)
    } else if let Some(source) = &volume.host_path {
        Kind::HostPath(host_path::plan(&volume.name, source)?)
    } else {
        return Err(Error::mount(&volume.name, "this kind of volume is not supported"));
    };
    Ok(Planned { name: volume.name.clone(), kind })
}

impl Planned {
    /// Makes the volume unless it is there.
    pub fn make(&self, layout: &Layout, uid: &PodUid) -> Result<(), Error> {
        let failed = |e: &dyn std::fmt::Display| Error::mount(&self.name, e);
        match &self.kind {
            Kind::EmptyDir(volume) => {
                volume.make(&layout.volume(uid, empty_dir::PLUGIN, &self.name)).map_err(|e| failed(&e))
            }
            Kind::HostPath(volume) => volume.make().map_err(|message| failed(&message)),
        }
    }
}
