//! Field labels of the built-in kinds, as defined by Kubernetes 1.36. Other kinds support only
//! `metadata.name` and `metadata.namespace`.
//!
//! The sources are the `AddFieldLabelConversionFunc` and `ToSelectableFields` functions of the kinds.

use crate::resource::{Field, Source};
use Source::{Alias, FirstOf, Or, Path};

/// Field labels of Pods.
pub(super) const POD: &[Field] = &[
    Field::new("spec.nodeName", Path),
    // Sent by clients of the first v1 servers.
    Field::new("spec.host", Alias("spec.nodeName")),
    Field::new("spec.restartPolicy", Path),
    Field::new("spec.schedulerName", Path),
    Field::new("spec.serviceAccountName", Path),
    Field::new("spec.hostNetwork", Or("spec.hostNetwork", "false")),
    Field::new("status.phase", Path),
    Field::new("status.podIP", FirstOf(&["status.podIPs[0].ip", "status.podIP"])),
    // Stock Kubernetes accepts the label and never sets it.
    Field::new("status.podIPs", FirstOf(&[])),
    Field::new("status.nominatedNodeName", Path),
    // Not a stock label: the pod initializer that must remove its scheduling gate next.
    Field::new("spec.schedulingGates[0].name", Path),
];

/// Field labels of Nodes.
pub(super) const NODE: &[Field] = &[Field::new("spec.unschedulable", Or("spec.unschedulable", "false"))];

/// Field labels of Namespaces.
pub(super) const NAMESPACE: &[Field] = &[Field::new("status.phase", Path)];

/// Field labels of Secrets.
pub(super) const SECRET: &[Field] = &[Field::new("type", Path)];

/// Field labels of Services.
pub(super) const SERVICE: &[Field] = &[Field::new("spec.clusterIP", Path), Field::new("spec.type", Path)];

/// Field labels of ReplicationControllers.
pub(super) const REPLICATION_CONTROLLER: &[Field] =
    &[Field::new("status.replicas", Or("status.replicas", "0"))];

/// Field labels of Jobs. The label `status.successful` is older than the field `status.succeeded`.
pub(super) const JOB: &[Field] = &[Field::new("status.successful", Or("status.succeeded", "0"))];

/// Field labels of CertificateSigningRequests.
pub(super) const SIGNING_REQUEST: &[Field] = &[Field::new("spec.signerName", Path)];

/// Field labels of ResourceSlices.
pub(super) const RESOURCE_SLICE: &[Field] =
    &[Field::new("spec.nodeName", Path), Field::new("spec.driver", Path)];

/// Field labels of core events.
pub(super) const EVENT: &[Field] = &[
    Field::new("involvedObject.kind", Path),
    Field::new("involvedObject.namespace", Path),
    Field::new("involvedObject.name", Path),
    Field::new("involvedObject.uid", Path),
    Field::new("involvedObject.apiVersion", Path),
    Field::new("involvedObject.resourceVersion", Path),
    Field::new("involvedObject.fieldPath", Path),
    Field::new("reason", Path),
    Field::new("reportingComponent", Path),
    Field::new("source", FirstOf(&["source.component", "reportingComponent"])),
    Field::new("type", Path),
];

/// Field labels of `events.k8s.io` events, which are stored as core events.
pub(super) const NEWER_EVENT: &[Field] = &[
    Field::new("regarding.kind", Alias("involvedObject.kind")),
    Field::new("regarding.namespace", Alias("involvedObject.namespace")),
    Field::new("regarding.name", Alias("involvedObject.name")),
    Field::new("regarding.uid", Alias("involvedObject.uid")),
    Field::new("regarding.apiVersion", Alias("involvedObject.apiVersion")),
    Field::new("regarding.resourceVersion", Alias("involvedObject.resourceVersion")),
    Field::new("regarding.fieldPath", Alias("involvedObject.fieldPath")),
    Field::new("reason", Alias("reason")),
    Field::new("reportingController", Alias("reportingComponent")),
    Field::new("type", Alias("type")),
];

#[cfg(test)]
mod tests;
