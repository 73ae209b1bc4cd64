//! What of a pod's volumes a container sees, and where.

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::error::Error;
use super::layout::Layout;
use super::{Wanted, plan};
use crate::runtime::spec::Mount;
use crate::spec::Environment;

pub(super) fn of(
    layout: &Layout,
    wanted: &Wanted<'_>,
    container: &Container,
    _environment: &Environment,
) -> Result<Vec<Mount>, Error> {
    container.volume_mounts.iter().flatten().map(|mount| one(layout, wanted, container, mount)).collect()
}

fn one(
    layout: &Layout,
    wanted: &Wanted<'_>,
    container: &Container,
    mount: &VolumeMount,
) -> Result<Mount, Error> {
    let wrong = |message: &str| Error::container(&mount.name, &container.name, message);
    let volume = plan::volumes(wanted.pod)
        .find(|volume| volume.name == mount.name)
        .ok_or_else(|| wrong("the pod has no volume of that name"))?;
    if mount.sub_path.is_some() || mount.sub_path_expr.is_some() {
        return Err(wrong("subPath is not supported"));
    }
    let source = match (plan::plugin(volume), &volume.host_path) {
        (Some(plugin), _) => layout.volume(wanted.uid, plugin, &volume.name).display().to_string(),
        (None, Some(host)) => host.path.clone(),
        (None, None) => return Err(wrong("this kind of volume is not supported")),
    };
    let target = &mount.mount_path;
    Ok(Mount {
        source,
        target: if target.starts_with('/') { target.clone() } else { format!("/{target}") },
        read_only: mount.read_only == Some(true),
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => "rslave",
            Some("Bidirectional") => "rshared",
            _ => "rprivate",
        }
        .to_owned(),
    })
}
