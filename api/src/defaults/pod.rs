//! Defaults of a Pod's spec and its volumes.

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, EmptyDirVolumeSource, Pod, PodSpec, Volume, VolumeProjection,
};

use super::{container, fill};

/// Grace between the request to stop and the kill, in seconds.
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;
/// Mode of files that a volume makes from objects: `rw-r--r--`.
const FILE_MODE: i32 = 0o644;
/// Lifetime of a projected service account token, in seconds.
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;

/// Fills in a Pod's spec. Running it twice changes nothing.
pub fn pod(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    pod_spec(spec);
    for volume in spec.volumes.iter_mut().flatten() {
        default_volume(volume);
    }
    let host_network = spec.host_network == Some(true);
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in containers {
        container::container(container);
        if host_network {
            host_ports(container);
        }
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        container::ephemeral(container);
    }
}

fn pod_spec(spec: &mut PodSpec) {
    fill(&mut spec.dns_policy, "ClusterFirst");
    fill(&mut spec.restart_policy, "Always");
    fill(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(TERMINATION_GRACE_PERIOD_SECONDS);
    spec.enable_service_links.get_or_insert(true);
    // Two names of one field: readers of either find it.
    if spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        spec.service_account_name = spec.service_account.clone();
    }
    spec.service_account.clone_from(&spec.service_account_name);
}

/// In the host's network a port is the host's port.
fn host_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        if port.host_port.unwrap_or_default() == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

fn default_volume(volume: &mut Volume) {
    if *volume == (Volume { name: volume.name.clone(), ..Volume::default() }) {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward_api) = &mut volume.downward_api {
        downward_api.default_mode.get_or_insert(FILE_MODE);
        downward_api.items.iter_mut().flatten().for_each(field_ref);
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        projected.sources.iter_mut().flatten().for_each(projection);
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        let reference = image.reference.as_deref().unwrap_or_default();
        fill(&mut image.pull_policy, container::pull_policy(reference));
    }
    network_volume(volume);
}

/// Volume kinds that only a cluster's storage serves.
fn network_volume(volume: &mut Volume) {
    if let Some(iscsi) = &mut volume.iscsi {
        fill(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(rbd) = &mut volume.rbd {
        fill(&mut rbd.pool, "rbd");
        fill(&mut rbd.user, "admin");
        fill(&mut rbd.keyring, "/etc/ceph/keyring");
    }
    if let Some(scale_io) = &mut volume.scale_io {
        fill(&mut scale_io.storage_mode, "ThinProvisioned");
        fill(&mut scale_io.fs_type, "xfs");
    }
    if let Some(disk) = &mut volume.azure_disk {
        fill(&mut disk.caching_mode, "ReadWrite");
        fill(&mut disk.fs_type, "ext4");
        fill(&mut disk.kind, "Shared");
        disk.read_only.get_or_insert(false);
    }
    if let Some(template) = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut())
    {
        fill(&mut template.spec.volume_mode, "Filesystem");
    }
}

fn projection(source: &mut VolumeProjection) {
    if let Some(token) = &mut source.service_account_token {
        token.expiration_seconds.get_or_insert(TOKEN_EXPIRATION_SECONDS);
    }
    if let Some(downward_api) = &mut source.downward_api {
        downward_api.items.iter_mut().flatten().for_each(field_ref);
    }
}

fn field_ref(file: &mut DownwardAPIVolumeFile) {
    if let Some(field) = &mut file.field_ref {
        fill(&mut field.api_version, "v1");
    }
}
