//! Plans the volumes of a pod.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Volume;

use super::error::Error;
use super::files::{FilesVolume, Outcome};
use super::layout::{Layout, check_name};
use super::local_volumes::LocalVolumes;
use super::types::{self, Create, Location, Setup};
use super::{Refreshed, VolumeInput};
use crate::spec::Note;

/// A volume of a pod and how it is created.
pub(super) struct Planned {
    name: String,
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Custom(Box<dyn Create + Send>),
    Files(FilesVolume),
    Local {
        volumes: LocalVolumes,
        /// Directory of the pod.
        pod: PathBuf,
        /// Name of the PersistentVolume.
        volume: String,
        group: Option<u32>,
    },
}

/// Plans all volumes of a pod.
///
/// # Errors
/// If a volume is invalid. The error describes the first one.
pub(super) fn plan(
    layout: &Layout,
    local_volumes: &LocalVolumes,
    wanted: &VolumeInput<'_>,
) -> Result<Vec<Planned>, Error> {
    types::volumes(wanted.pod).map(|volume| planned(layout, local_volumes, wanted, volume)).collect()
}

/// Plans the volumes whose files may change while the pod runs.
pub(super) fn plan_files(
    layout: &Layout,
    local_volumes: &LocalVolumes,
    wanted: &VolumeInput<'_>,
) -> Result<Vec<Planned>, Error> {
    let has_files = |volume: &&Volume| matches!(types::location(volume), Some(Location::Files(_)));
    let volumes = types::volumes(wanted.pod).filter(has_files);
    volumes.map(|volume| planned(layout, local_volumes, wanted, volume)).collect()
}

fn planned(
    layout: &Layout,
    local_volumes: &LocalVolumes,
    wanted: &VolumeInput<'_>,
    volume: &Volume,
) -> Result<Planned, Error> {
    let name = &volume.name;
    check_name("volume", name)?;
    let context = wanted.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let group = context.and_then(|context| context.fs_group).map(u32::try_from).transpose();
    let group = group.map_err(|_| Error::mount(name, "fsGroup is not a group id"))?;
    let (source, location) = types::of(volume).zip(types::location(volume)).ok_or_else(|| {
        let supported = types::supported();
        Error::mount(name, format!("this kind of volume is not supported: use one of {supported}"))
    })?;
    let kind = match source.plan(wanted, group).map_err(|why| Error::mount(name, why))? {
        Setup::Custom(custom) => Kind::Custom(custom),
        Setup::Local { volume, group } => {
            Kind::Local { volumes: local_volumes.clone(), pod: layout.pod(wanted.uid), volume, group }
        }
        Setup::Files { content, is_secret } => Kind::Files(FilesVolume { content, group, is_secret }),
    };
    let path = path(layout, wanted, (volume, location)).map_err(|why| Error::mount(name, why))?;
    Ok(Planned { name: name.clone(), path, kind })
}

/// The directory of a volume that containers mount.
pub(super) fn path(
    layout: &Layout,
    wanted: &VolumeInput<'_>,
    (volume, location): (&Volume, Location),
) -> Result<PathBuf, String> {
    match location.plugin() {
        Some(plugin) => Ok(layout.plugin(wanted.uid, plugin).join(&volume.name)),
        None => types::of(volume).map_or_else(|| Err(String::new()), |source| source.host_path(wanted)),
    }
}

impl Planned {
    /// Creates the volume if it does not exist. The note reports a missing feature.
    pub fn make(&self) -> Result<Option<Note>, Error> {
        let made = match &self.kind {
            Kind::Custom(volume) => volume.create(&self.path),
            Kind::Files(volume) => volume.make(&self.path),
            Kind::Local { volumes, pod, volume, group } => {
                volumes.mount(pod, volume, &self.path, *group).map(|()| false)
            }
        };
        let on_disk = made.map_err(|message| Error::mount(&self.name, message))?;
        Ok(on_disk.then(|| Note {
            reason: "VolumeNotInMemory",
            message: format!(
                "volume {:?} is on disk, not in memory, because the kubelet has no permission to mount; run it as root",
                self.name
            ),
        }))
    }

    /// Refreshes the files of the volume, if it has any.
    pub fn refresh(&self, refreshed: &mut Refreshed) -> Result<(), Error> {
        let Kind::Files(volume) = &self.kind else { return Ok(()) };
        if !self.path.exists() {
            return Ok(());
        }
        match volume.fill(&self.path).map_err(|e| Error::mount(&self.name, e))? {
            Outcome::Same => {}
            Outcome::Changed => refreshed.changed.push(self.name.clone()),
            Outcome::Kept(why) => refreshed.kept.push(Error::mount(&self.name, why)),
        }
        Ok(())
    }
}
