//! Plans the volume mounts of a container.

use std::path::PathBuf;

use api::expand::expand_all;
use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::VolumeInput;
use super::error::Error;
use super::layout::{Layout, check_name};
use super::plan::path;
use super::sub_path::{self, SubPath};
use super::types::{self, Location};
use crate::runtime::spec::Mount;
use crate::spec::Environment;

/// A mount. Its subPath may still have to be bound.
pub(super) struct PlannedMount {
    volume: String,
    container: String,
    source: Source,
    /// The mount without its source.
    mount: Mount,
}

enum Source {
    /// The whole volume.
    Whole(PathBuf),
    /// A subPath of a volume.
    Part(SubPath),
}

/// The mounts of a container.
///
/// # Errors
/// If a mount is invalid. The error describes it.
pub(super) fn plan(
    layout: &Layout,
    wanted: &VolumeInput<'_>,
    container: &Container,
    environment: &Environment,
) -> Result<Vec<PlannedMount>, Error> {
    check_name("container", &container.name)?;
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, mount)| one(layout, wanted, container, environment, index, mount)).collect()
}

fn one(
    layout: &Layout,
    wanted: &VolumeInput<'_>,
    container: &Container,
    environment: &Environment,
    index: usize,
    mount: &VolumeMount,
) -> Result<PlannedMount, Error> {
    let wrong = |message: String| Error::container(&mount.name, &container.name, message);
    let volume = types::volumes(wanted.pod)
        .find(|volume| volume.name == mount.name)
        .ok_or_else(|| wrong("the pod has no volume with this name".to_owned()))?;
    check_name("volume", &volume.name)?;
    let location =
        types::location(volume).ok_or_else(|| wrong("this kind of volume is not supported".to_owned()))?;
    let kubelet_managed = matches!(location, Location::Files(_));
    let root = path(layout, wanted, (volume, location)).map_err(wrong)?;
    // Only the kubelet writes to the volumes that it manages.
    let is_read_only = kubelet_managed || types::of(volume).is_some_and(|source| source.is_read_only());
    let part = part(mount, environment).map_err(wrong)?;
    let source = if part.is_empty() {
        Source::Whole(root)
    } else {
        let target_path = layout.sub_path(wanted.uid, &volume.name, &container.name, index);
        Source::Part(SubPath { root, part, target_path, kubelet_managed })
    };
    Ok(PlannedMount {
        volume: volume.name.clone(),
        container: container.name.clone(),
        source,
        mount: mount_in_container(mount, is_read_only).map_err(wrong)?,
    })
}

impl PlannedMount {
    /// Binds the subPath if there is one, and returns the mount.
    pub fn make(self) -> Result<Mount, Error> {
        let source = match self.source {
            Source::Whole(path) => path,
            Source::Part(part) => {
                part.bind().map_err(|e| Error::container(&self.volume, &self.container, e))?
            }
        };
        let source = source.into_os_string().into_string().map_err(|path| {
            Error::container(&self.volume, &self.container, format!("{} is not UTF-8", path.display()))
        })?;
        Ok(Mount { source, ..self.mount })
    }
}

/// The subPath of a mount; empty for the whole volume.
fn part(mount: &VolumeMount, environment: &Environment) -> Result<String, String> {
    let plain = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let part = match (plain, expression) {
        (plain, "") => plain.to_owned(),
        ("", expression) => expand_all(expression, |name| environment.get(name)).map_err(|unknown| {
            format!("subPathExpr {expression:?}: the container has no variable {unknown}")
        })?,
        _ => return Err("subPath and subPathExpr exclude each other: write one of them".to_owned()),
    };
    sub_path::check(&part)?;
    Ok(part)
}

/// The mount without its source.
fn mount_in_container(mount: &VolumeMount, is_read_only: bool) -> Result<Mount, String> {
    if mount.recursive_read_only.as_deref() == Some("Enabled") {
        return Err("recursiveReadOnly: Enabled is not supported: use IfPossible".to_owned());
    }
    if let Some(option) = mount.bind_mount_options.iter().flatten().next() {
        return Err(format!("bindMountOptions: {option} is not supported: leave it out"));
    }
    let target = &mount.mount_path;
    Ok(Mount {
        source: String::new(),
        target: if target.starts_with('/') { target.clone() } else { format!("/{target}") },
        read_only: is_read_only || mount.read_only == Some(true),
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => "rslave",
            Some("Bidirectional") => "rshared",
            _ => "rprivate",
        }
        .to_owned(),
    })
}
