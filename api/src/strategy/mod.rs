//! The strategies of built-in kinds: defaults, preparation and validation of objects before they are written.
//!
//! All functions are pure. Objects are JSON maps, so that unknown fields are kept. Kinds without a strategy use
//! [`Plain`].

mod admission_policies;
mod autoscaler;
mod cause;
mod causes;
mod certificates;
mod classes;
mod data;
mod event;
mod field_value;
mod flowcontrol;
mod from_field_error;
mod heartbeat;
mod kind_strategy;
mod lease;
mod limit_range;
mod metadata;
mod namespace;
mod network;
mod node;
mod pod;
mod quota;
mod rbac;
mod selectors;
mod storage;
mod template;
mod webhooks;
mod workloads;

pub use cause::{Cause, Reason};
pub use metadata::metadata;
pub use network::addresses;
use serde_json::{Map, Value};

use crate::dotted;
use crate::field_error::FieldError;

/// A JSON object as stored and served.
pub type Json = Map<String, Value>;

/// The part of an object that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The object without its status, or with it if there is no `status` subresource.
    Main,
    /// The `status` subresource.
    Status,
    /// Another subresource, such as `ephemeralcontainers`, `resize` or `approval`.
    Sub(&'a str),
}

/// Limit for the bytes of JSON that defaults may add to one object. No larger object can be stored. Without the
/// limit, defaults could multiply the size of a request with many empty list elements.
pub const MAX_DEFAULT_BYTES: usize = 1536 * 1024;

/// The error for defaults that would make an object too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of the schema would add more than {MAX_DEFAULT_BYTES} bytes")]
pub struct DefaultsTooLarge;

/// The strategy of a kind. Before it calls one, the caller handles metadata (names, UIDs, timestamps, generation)
/// and rejects values of the wrong type.
pub trait Strategy: Send + Sync {
    /// Sets the defaults of missing fields on create and update.
    ///
    /// # Errors
    /// If the defaults would make the object too large.
    fn default(&self, _object: &mut Json) -> Result<(), DefaultsTooLarge> {
        Ok(())
    }

    /// Resets fields that the client cannot set. On create, `before` is `None`.
    fn prepare(&self, _object: &mut Json, _before: Option<&Json>, _part: &Part<'_>) {}

    /// Validates an object, or an update of it.
    fn validate(&self, _object: &Json, _before: Option<&Json>, _part: &Part<'_>) -> Vec<Cause> {
        Vec::new()
    }

    /// Returns the texts of the `Warning` headers.
    fn warnings(&self, _object: &Json) -> Vec<String> {
        Vec::new()
    }

    /// True if an update is a heartbeat. A heartbeat may be lost, because the next one follows soon.
    fn is_heartbeat(&self, _before: &Json, _after: &Json) -> bool {
        false
    }
}

/// Converts type errors to causes. No other validation runs then, because it would treat these values as missing.
pub fn mistyped(errors: &[FieldError], object: &Json) -> Vec<Cause> {
    errors.iter().map(|error| from_field_error::cause(error, object)).collect()
}

/// The strategy of kinds without one of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}

/// The strategy of a built-in kind; `group` is empty for the core group.
pub fn of(group: &str, kind: &str) -> &'static dyn Strategy {
    match (group, kind) {
        ("", "Pod") => &pod::STRATEGY,
        ("", "PodTemplate") => &workloads::POD_TEMPLATE,
        ("", "ReplicationController") => &workloads::replicas::CONTROLLER,
        ("apps", "ReplicaSet") => &workloads::replicas::SET,
        ("apps", "Deployment") => &workloads::deployment::STRATEGY,
        ("apps", "StatefulSet") => &workloads::stateful_set::STRATEGY,
        ("apps", "DaemonSet") => &workloads::daemon_set::STRATEGY,
        ("batch", "Job") => &workloads::job::STRATEGY,
        ("batch", "CronJob") => &workloads::cron_job::STRATEGY,
        ("", "Service") => &network::service::STRATEGY,
        ("", "Endpoints") => &network::endpoints::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => &network::endpoints::SLICE,
        ("networking.k8s.io", "Ingress") => &network::ingress::INGRESS,
        ("networking.k8s.io", "IngressClass") => &network::ingress::CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &network::network_policy::STRATEGY,
        ("", "Namespace") => &namespace::STRATEGY,
        ("", "Node") => &node::STRATEGY,
        ("", "ConfigMap") => &data::CONFIG_MAP,
        ("", "Secret") => &data::SECRET,
        ("apps", "ControllerRevision") => &data::REVISION,
        ("", "Event") => &event::CORE,
        ("events.k8s.io", "Event") => &event::NEW,
        ("coordination.k8s.io", "Lease") => &lease::STRATEGY,
        ("", "LimitRange") => &limit_range::RANGE,
        ("", "ResourceQuota") => &quota::QUOTA,
        ("scheduling.k8s.io", "PriorityClass") => &classes::PRIORITY,
        ("node.k8s.io", "RuntimeClass") => &classes::RUNTIME,
        ("policy", "PodDisruptionBudget") => &classes::BUDGET,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::BINDING,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::CLUSTER_BINDING,
        ("", "PersistentVolume") => &storage::volume::STRATEGY,
        ("", "PersistentVolumeClaim") => &storage::claim::STRATEGY,
        ("storage.k8s.io", "StorageClass") => &storage::class::STORAGE,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::class::ATTRIBUTES,
        ("storage.k8s.io", "CSIDriver") => &storage::csi::DRIVER,
        ("storage.k8s.io", "CSINode") => &storage::csi::NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::csi::CAPACITY,
        ("storage.k8s.io", "VolumeAttachment") => &storage::volume::ATTACHMENT,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaler::STRATEGY,
        ("certificates.k8s.io", "CertificateSigningRequest") => &certificates::STRATEGY,
        ("networking.k8s.io", "IPAddress") => &network::service::ADDRESS,
        ("networking.k8s.io", "ServiceCIDR") => &network::service::RANGE,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => &webhooks::VALIDATING,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => &webhooks::MUTATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &admission_policies::VALIDATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            &admission_policies::VALIDATING_BINDING
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &admission_policies::MUTATING,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            &admission_policies::MUTATING_BINDING
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &flowcontrol::SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &flowcontrol::LEVEL,
        _ => &Plain,
    }
}

#[cfg(test)]
mod tests;
