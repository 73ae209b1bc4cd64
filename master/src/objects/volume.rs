//! PersistentVolumes, PersistentVolumeClaims and StorageClasses.

use serde::Deserialize;

use super::meta::ObjectMeta;
use super::resources::ResourceRequirements;
use super::selector::NodeSelector;
use super::values::List;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta<ClaimAnnotations>,
    /// The desired state, `spec`.
    pub spec: PersistentVolumeClaimSpec,
    pub status: PersistentVolumeClaimStatus,
}

/// Annotations of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimAnnotations {
    /// Set by the PV controller when it has bound the claim.
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    pub bind_completed: Option<Box<str>>,
}

/// `spec` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// The bound volume. Empty if there is none.
    pub volume_name: Box<str>,
    /// Storage class. `None` means the default class, and an empty name means no class.
    pub storage_class_name: Option<Box<str>>,
    /// Access modes, such as `ReadWriteOncePod`.
    pub access_modes: List<Box<str>>,
    /// Requested storage.
    pub resources: ResourceRequirements,
}

/// `status` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimStatus {
    /// Phase: `Pending`, `Bound` or `Lost`.
    pub phase: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: PersistentVolumeSpec,
}

/// `spec` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// Nodes that can access the volume. `None` for all nodes.
    pub node_affinity: Option<VolumeNodeAffinity>,
}

/// Nodes that can access a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// Required terms. One of them must match.
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    pub metadata: ObjectMeta,
    /// Binding mode: `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Box<str>,
    /// Provisioner of new volumes.
    pub provisioner: Box<str>,
}
