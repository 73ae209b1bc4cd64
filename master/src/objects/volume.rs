//! PersistentVolumes, PersistentVolumeClaims and StorageClasses.

use api::quantity::Quantity;
use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, newest};
use super::resources::ResourceRequirements;
use super::selector::{LabelSelector, NodeSelector};
use super::values::{List, StringMap};

/// The resource name of the size of a volume.
const STORAGE: &str = "storage";
/// The default of `volumeMode`.
const FILESYSTEM: &str = "Filesystem";

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
    /// Set by the PV controller when it, not a user, has chosen the volume.
    #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
    pub bound_by_controller: Option<Box<str>>,
    /// Set by the scheduler: the node on which a provisioner creates the volume.
    #[serde(rename = "volume.kubernetes.io/selected-node")]
    pub selected_node: Option<Box<str>>,
    /// The storage class as old clients set it. It precedes the field.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub storage_class: Option<Box<str>>,
    /// Set by the PV controller: the provisioner that creates the volume.
    #[serde(rename = "volume.kubernetes.io/storage-provisioner")]
    pub storage_provisioner: Option<Box<str>>,
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
    /// Selects volumes by their labels.
    pub selector: Option<LabelSelector>,
    /// `Filesystem` or `Block`. `None` means `Filesystem`.
    pub volume_mode: Option<Box<str>>,
}

impl PersistentVolumeClaim {
    /// The storage class; empty for none.
    pub fn class(&self) -> &str {
        let of_annotation = self.metadata.annotations.storage_class.as_deref();
        of_annotation.or(self.spec.storage_class_name.as_deref()).unwrap_or_default()
    }

    /// Whether the claim leaves its class open, so that it gets the default class. An empty name means no class.
    pub fn wants_default_class(&self) -> bool {
        self.metadata.annotations.storage_class.is_none() && self.spec.storage_class_name.is_none()
    }

    /// The volume mode.
    pub fn volume_mode(&self) -> &str {
        self.spec.volume_mode.as_deref().unwrap_or(FILESYSTEM)
    }

    /// The requested size in bytes.
    pub fn requested(&self) -> Quantity {
        size(&self.spec.resources.requests)
    }

    /// Whether the volume is mounted by at most one node at a time.
    pub fn is_for_one_node(&self) -> bool {
        self.spec.access_modes.iter().all(|mode| matches!(&**mode, "ReadWriteOnce" | "ReadWriteOncePod"))
    }
}

fn size(amounts: &StringMap) -> Quantity {
    amounts.get(STORAGE).and_then(|size| size.parse().ok()).unwrap_or(Quantity::ZERO)
}

/// `status` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimStatus {
    /// Phase: `Pending`, `Bound` or `Lost`.
    pub phase: Box<str>,
    #[serde(rename = "accessModes")]
    pub access_modes: List<Box<str>>,
    pub capacity: StringMap,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta<VolumeAnnotations>,
    /// The desired state, `spec`.
    pub spec: PersistentVolumeSpec,
    pub status: PersistentVolumeStatus,
}

/// Annotations of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeAnnotations {
    /// Set by the PV controller when it, not a user, has chosen the claim.
    #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
    pub bound_by_controller: Option<Box<str>>,
    /// The provisioner that created the volume.
    #[serde(rename = "pv.kubernetes.io/provisioned-by")]
    pub provisioned_by: Option<Box<str>>,
    /// The storage class as old clients set it. It precedes the field.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub storage_class: Option<Box<str>>,
}

/// `status` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeStatus {
    /// Phase: `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: Box<str>,
}

/// `spec` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// Nodes that can access the volume. `None` for all nodes.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// The claim for which the volume is reserved, or to which it is bound.
    pub claim_ref: Option<ClaimReference>,
    pub access_modes: List<Box<str>>,
    pub capacity: StringMap,
    /// The storage class; empty for none.
    pub storage_class_name: Box<str>,
    /// `Filesystem` or `Block`. `None` means `Filesystem`.
    pub volume_mode: Option<Box<str>>,
    /// What happens to a released volume: `Retain`, `Delete` or `Recycle`. Empty means `Retain`.
    pub persistent_volume_reclaim_policy: Box<str>,
}

/// The claim of a volume. Without a UID, a user has reserved the volume for any claim of this name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ClaimReference {
    pub namespace: Box<str>,
    pub name: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: Box<str>,
}

impl ClaimReference {
    /// Whether the reference names this claim.
    pub fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        let metadata = &claim.metadata;
        (&self.namespace, &self.name) == (&metadata.namespace, &metadata.name)
            && (self.uid.is_empty() || self.uid == metadata.uid)
    }
}

impl PersistentVolume {
    /// The storage class; empty for none.
    pub fn class(&self) -> &str {
        self.metadata.annotations.storage_class.as_deref().unwrap_or(&self.spec.storage_class_name)
    }

    /// The volume mode.
    pub fn volume_mode(&self) -> &str {
        self.spec.volume_mode.as_deref().unwrap_or(FILESYSTEM)
    }

    /// The size in bytes.
    pub fn size(&self) -> Quantity {
        size(&self.spec.capacity)
    }

    /// Whether the volume is reserved for this claim or bound to it.
    pub fn is_claimed_by(&self, claim: &PersistentVolumeClaim) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|reference| reference.is_for(claim))
    }

    /// Why the volume cannot be bound to a claim that names it, in the words of the stock controller. `None` if it
    /// can. The selector of the claim does not count.
    pub fn mismatch(&self, claim: &PersistentVolumeClaim) -> Option<&'static str> {
        let has_mode = |mode: &str| self.spec.access_modes.iter().any(|own| **own == *mode);
        if self.size() < claim.requested() {
            Some("requested PV is too small")
        } else if self.class() != claim.class() {
            Some("storageClassName does not match")
        } else if self.volume_mode() != claim.volume_mode() {
            Some("incompatible volumeMode")
        } else if !claim.spec.access_modes.iter().all(|mode| has_mode(mode)) {
            Some("incompatible accessMode")
        } else {
            None
        }
    }

    /// Whether the volume is free and the claim may be bound to it.
    pub fn is_available_for(&self, claim: &PersistentVolumeClaim) -> bool {
        let is_selected =
            || claim.spec.selector.as_ref().is_none_or(|selector| selector.matches(&self.metadata.labels));
        self.spec.claim_ref.is_none()
            && &*self.status.phase == "Available"
            && !self.metadata.is_terminating()
            && self.mismatch(claim).is_none()
            && is_selected()
    }
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
    pub metadata: ObjectMeta<StringMap>,
    /// Binding mode: `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Box<str>,
    /// Provisioner of new volumes.
    pub provisioner: Box<str>,
    /// Reclaim policy of new volumes. Empty means `Delete`.
    pub reclaim_policy: Box<str>,
    /// Whether claims may be expanded.
    pub allow_volume_expansion: bool,
    /// Topologies in which the provisioner may create volumes; empty for all.
    pub allowed_topologies: List<TopologySelectorTerm>,
}

impl StorageClass {
    /// The annotations that mark the default class, current and beta.
    pub const IS_DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

    /// Whether claims are bound when a pod that uses them is scheduled.
    pub fn waits_for_consumer(&self) -> bool {
        &*self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether the class has a provisioner. Other classes have only volumes that users create.
    pub fn has_provisioner(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != NO_PROVISIONER
    }

    /// Whether the class is marked as the default class.
    pub fn is_default(&self) -> bool {
        Self::IS_DEFAULT.iter().any(|name| self.metadata.annotations.get(name) == Some("true"))
    }

    /// The name of the default class.
    pub fn default_of<'a>(classes: impl IntoIterator<Item = &'a Self>) -> Option<&'a str> {
        newest(classes.into_iter().filter(|class| class.is_default()).map(|class| &class.metadata))
    }

    /// Whether the provisioner may create a volume for a node with these labels.
    pub fn allows_topology(&self, labels: &StringMap) -> bool {
        let is_met = |one: &TopologySelectorRequirement| {
            labels.get(&one.key).is_some_and(|value| one.values.iter().any(|own| **own == *value))
        };
        self.allowed_topologies.is_empty()
            || self.allowed_topologies.iter().any(|term| term.match_label_expressions.iter().all(is_met))
    }
}

/// The provisioner of classes without provisioner.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A term of `allowedTopologies`: all requirements must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorTerm {
    pub match_label_expressions: List<TopologySelectorRequirement>,
}

/// A label that must have one of these values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologySelectorRequirement {
    pub key: Box<str>,
    pub values: List<Box<str>>,
}
