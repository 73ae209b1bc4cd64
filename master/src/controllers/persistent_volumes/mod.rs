//! The controllers of PersistentVolumes and PersistentVolumeClaims: binding, provisioning of `local-path` volumes,
//! reclaiming, and protection of objects in use.
//!
//! `claim_plan` and `volume_plan` decide (pure), `binder` observes and carries out the plans, `writes` has the
//! requests. `local_path` is the built-in provisioner, `protection` has the two protection controllers.

pub mod binder;
mod claim_plan;
mod local_path;
pub mod protection;
#[cfg(test)]
mod tests;
mod volume_plan;
mod writes;

use client::Kind;

/// The kind `PersistentVolumeClaim`.
pub const CLAIM: Kind = Kind::of("", "PersistentVolumeClaim", "persistentvolumeclaims", true);
/// The kind `PersistentVolume`.
pub const VOLUME: Kind = Kind::of("", "PersistentVolume", "persistentvolumes", false);
/// The kind `StorageClass`.
pub const CLASS: Kind = Kind::of("storage.k8s.io", "StorageClass", "storageclasses", false);

/// The annotation of claims and volumes whose partner the controller has chosen.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of claims that the controller has bound.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation with the node for which a provisioner creates the volume of a claim. The scheduler sets it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The finalizer of claims that pods may use.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of volumes that claims may be bound to.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The text of an event about a claim or a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether the event type is `Warning`.
    pub is_warning: bool,
    /// The reason, as in stock Kubernetes.
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}
