//! Which volumes a pod wants, and how each is made.

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::error::Error;
use super::files::{FilesVolume, Outcome};
use super::layout::{Layout, check_name};
use super::{Refreshed, Wanted, empty_dir, files, host_path};
use crate::observed::PodUid;
use crate::spec::Note;

/// One volume, ready to be made.
pub(super) struct Planned {
    name: String,
    kind: Kind,
}

enum Kind {
    EmptyDir(empty_dir::EmptyDir),
    HostPath(host_path::HostPath),
    Files(&'static str, FilesVolume),
}

/// All volumes of a pod.
///
/// # Errors
/// Names the first volume that cannot be.
pub(super) fn plan(wanted: &Wanted<'_>) -> Result<Vec<Planned>, Error> {
    volumes(wanted.pod).map(|volume| planned(wanted, volume)).collect()
}

/// Those volumes of a pod whose files may change while it runs.
pub(super) fn plan_files(wanted: &Wanted<'_>) -> Result<Vec<Planned>, Error> {
    let changing = volumes(wanted.pod).filter(|volume| files::plugin(volume).is_some());
    changing.map(|volume| planned(wanted, volume)).collect()
}

/// The volumes of a pod.
pub(super) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The directory below `volumes/` that a volume's plugin has; `None` for a volume that lies elsewhere.
pub(super) fn plugin(volume: &Volume) -> Option<&'static str> {
    if volume.empty_dir.is_some() { Some(empty_dir::PLUGIN) } else { files::plugin(volume) }
}

fn planned(wanted: &Wanted<'_>, volume: &Volume) -> Result<Planned, Error> {
    let name = &volume.name;
    check_name("volume", name)?;
    let context = wanted.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let group = context.and_then(|context| context.fs_group).map(u32::try_from).transpose();
    let group = group.map_err(|_| Error::mount(name, "fsGroup is not a group id"))?;
    let plugin = plugin(volume).unwrap_or_default();
    let kind = if let Some(source) = &volume.empty_dir {
        Kind::EmptyDir(empty_dir::plan(wanted, name, source, group)?)
    } else if let Some(source) = &volume.host_path {
        Kind::HostPath(host_path::plan(name, source)?)
    } else if let Some(volume) = files::plan(wanted, volume, group) {
        Kind::Files(plugin, volume)
    } else {
        return Err(Error::mount(
            name,
            "this kind of volume is not supported: use emptyDir, hostPath, configMap, secret, downwardAPI or projected",
        ));
    };
    Ok(Planned { name: name.clone(), kind })
}

impl Planned {
    /// Makes the volume unless it is there; a note tells what it had to do without.
    pub fn make(&self, layout: &Layout, uid: &PodUid) -> Result<Option<Note>, Error> {
        let path = |plugin| layout.volume(uid, plugin, &self.name);
        let made = match &self.kind {
            Kind::EmptyDir(volume) => volume.make(&path(empty_dir::PLUGIN)).map_err(|e| e.to_string()),
            Kind::HostPath(volume) => volume.make().map(|()| false),
            Kind::Files(plugin, volume) => volume.make(&path(plugin)),
        };
        let on_disk = made.map_err(|message| Error::mount(&self.name, message))?;
        Ok(on_disk.then(|| Note {
            reason: "VolumeNotInMemory",
            message: format!(
                "volume {:?} lies on disk, not in memory: the kubelet may not mount; run it as root",
                self.name
            ),
        }))
    }

    /// Refreshes the volume's files, when it has any.
    pub fn refresh(&self, layout: &Layout, uid: &PodUid, refreshed: &mut Refreshed) -> Result<(), Error> {
        let Kind::Files(plugin, volume) = &self.kind else { return Ok(()) };
        let path = layout.volume(uid, plugin, &self.name);
        if !path.exists() {
            return Ok(());
        }
        match volume.fill(&path).map_err(|e| Error::mount(&self.name, e))? {
            Outcome::Same => {}
            Outcome::Changed => refreshed.changed.push(self.name.clone()),
            Outcome::Kept(why) => refreshed.kept.push(Error::mount(&self.name, why)),
        }
        Ok(())
    }
}
