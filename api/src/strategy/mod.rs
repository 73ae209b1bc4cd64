//! What a kind does beyond being stored: what it fills in, what it decides, what it refuses.
//!
//! Pure: an object comes as the map it is stored as, so that fields this version does not know are kept. A kind without
//! logic of its own has [`Plain`].

mod autoscaler;
mod cause;
mod causes;
mod certificates;
mod classes;
mod data;
mod event;
mod flow;
mod found;
mod heartbeat;
mod lease;
mod limits;
mod metadata;
mod namespace;
mod network;
mod node;
mod place;
mod pod;
mod policies;
mod rbac;
mod rules;
mod selectors;
mod storage;
mod template;
mod webhooks;
mod workloads;

pub use cause::{Cause, Reason};
pub use metadata::metadata;
pub use network::addresses;
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::fill;

/// An object as it is stored and sent.
pub type Json = Map<String, Value>;

/// Which part of an object a write is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// All but the status, where that has a path of its own.
    Main,
    /// The status alone.
    Status,
    /// Another part with a path of its own: `ephemeralcontainers`, `resize`, `approval`.
    Sub(&'a str),
}

/// The logic of one kind. Metadata (names, UIDs, times, generations) is not its business, nor is what is of another type
/// than its field: an object is fitted to its schema before it comes here.
pub trait Strategy: Send + Sync {
    /// Fills in what the client left out, on a create as on an update.
    fn default(&self, _object: &mut Json) {}

    /// Decides what is not the client's to decide: on a create `before` is `None`.
    fn prepare(&self, _object: &mut Json, _before: Option<&Json>, _part: &Part<'_>) {}

    /// Everything that is wrong with an object that fits its schema, or with what the update changes.
    fn validate(&self, _object: &Json, _before: Option<&Json>, _part: &Part<'_>) -> Vec<Cause> {
        Vec::new()
    }

    /// What is allowed and unwise, for `Warning` headers.
    fn warnings(&self, _object: &Json) -> Vec<String> {
        Vec::new()
    }

    /// True when an update says no more than that somebody is still there: it comes again soon, so losing it costs nothing.
    fn is_heartbeat(&self, _before: &Json, _after: &Json) -> bool {
        false
    }
}

/// That values are of another type than their fields, found when the object was fitted to its schema. They are told
/// alone: whoever validates would take them for absent.
pub fn mistyped(faults: &[Fault], object: &Json) -> Vec<Cause> {
    faults.iter().map(|fault| found::cause(fault, object)).collect()
}

/// A kind without logic of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}

/// The logic of a built-in kind; `group` is empty for the core one.
pub fn of(group: &str, kind: &str) -> &'static dyn Strategy {
    match (group, kind) {
        ("", "Pod") => &pod::RULES,
        ("", "PodTemplate") => &workloads::pod_template::RULES,
        ("", "ReplicationController") => &workloads::replicas::CONTROLLER,
        ("apps", "ReplicaSet") => &workloads::replicas::SET,
        ("apps", "Deployment") => &workloads::deployment::RULES,
        ("apps", "StatefulSet") => &workloads::stateful_set::RULES,
        ("apps", "DaemonSet") => &workloads::daemon_set::RULES,
        ("batch", "Job") => &workloads::job::RULES,
        ("batch", "CronJob") => &workloads::cron_job::RULES,
        ("", "Service") => &network::service::RULES,
        ("", "Endpoints") => &network::endpoints::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => &network::endpoints::SLICE,
        ("networking.k8s.io", "Ingress") => &network::ingress::INGRESS,
        ("networking.k8s.io", "IngressClass") => &network::ingress::CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &network::policy::RULES,
        ("", "Namespace") => &namespace::RULES,
        ("", "Node") => &node::RULES,
        ("", "ConfigMap") => &data::CONFIG_MAP,
        ("", "Secret") => &data::SECRET,
        ("apps", "ControllerRevision") => &data::REVISION,
        ("", "Event") => &event::CORE,
        ("events.k8s.io", "Event") => &event::NEW,
        ("coordination.k8s.io", "Lease") => &lease::RULES,
        ("", "LimitRange") => &limits::RANGE,
        ("", "ResourceQuota") => &limits::QUOTA,
        ("scheduling.k8s.io", "PriorityClass") => &classes::PRIORITY,
        ("node.k8s.io", "RuntimeClass") => &classes::RUNTIME,
        ("policy", "PodDisruptionBudget") => &classes::BUDGET,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::BINDING,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::CLUSTER_BINDING,
        ("", "PersistentVolume") => &storage::volume::RULES,
        ("", "PersistentVolumeClaim") => &storage::claim::RULES,
        ("storage.k8s.io", "StorageClass") => &storage::class::STORAGE,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::class::ATTRIBUTES,
        ("storage.k8s.io", "CSIDriver") => &storage::csi::DRIVER,
        ("storage.k8s.io", "CSINode") => &storage::csi::NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::csi::CAPACITY,
        ("storage.k8s.io", "VolumeAttachment") => &storage::attachment::RULES,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaler::RULES,
        ("certificates.k8s.io", "CertificateSigningRequest") => &certificates::RULES,
        ("networking.k8s.io", "IPAddress") => &network::ranges::ADDRESS,
        ("networking.k8s.io", "ServiceCIDR") => &network::ranges::RANGE,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => &webhooks::VALIDATING,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => &webhooks::MUTATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &policies::VALIDATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => &policies::VALIDATING_BINDING,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &policies::MUTATING,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => &policies::MUTATING_BINDING,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &flow::SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &flow::LEVEL,
        _ => &Plain,
    }
}

#[cfg(test)]
mod tests;
