//! Restricts the mirror pods that a node creates. They must be bound to the node, owned by its Node, and without
//! references to other objects. Pure.

use api::strategy::Json;
use apiserver::auth::nodes::Kind;
use apiserver::auth::nodes::references::{MIRROR, is_mirror, of_pod};
use serde_json::Value;

use super::super::pods::{list, spec, text};
use super::{node_name, part};
use crate::objects::{self, OwnerReference, PartialObject};

/// The owner reference of a mirror pod. The owner must be the Node of the node.
///
/// # Errors
/// If the pod is not a valid mirror pod of this node. The error is the stock message.
pub(super) fn owner(node: &str, pod: &Json) -> Result<OwnerReference, String> {
    if !is_mirror(pod) {
        return Err(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    let only = |what: &str| Err(format!("node {node:?} can only create pods with {what} set to itself"));
    if node_name(pod) != node {
        return only("spec.nodeName");
    }
    let PartialObject { metadata } = objects::read(pod);
    let owner = match &*metadata.owner_references {
        [owner] => owner,
        [] => return only("an owner reference"),
        _ => return only("a single owner reference"),
    };
    if [&*owner.api_version, &owner.kind, &owner.name] != ["v1", "Node", node] {
        return only("an owner reference");
    }
    if !owner.controller {
        return only("a controller owner reference");
    }
    if owner.block_owner_deletion {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    Ok(owner.clone())
}

/// Rejects a mirror pod whose owner has another UID, or that refers to other objects.
///
/// # Errors
/// If the request is rejected. The error is the stock message.
pub(super) fn check(node: &str, pod: &Json, owner: &OwnerReference, uid: &str) -> Result<(), String> {
    let given = &owner.uid;
    if **given != *uid {
        return Err(format!("node {node} UID mismatch: expected {given} got {uid}"));
    }
    match named(pod) {
        Some(what) => Err(format!("node {node:?} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// The first kind of API object that a pod refers to.
fn named(pod: &Json) -> Option<&'static str> {
    let named = of_pod(pod);
    let has = |kind: Kind| named.iter().any(|object| object.kind == kind);
    let spec = spec(pod)?;
    if has(Kind::ServiceAccount) || !text(spec, "serviceAccount").is_empty() {
        return Some("serviceaccounts");
    }
    if has(Kind::Secret) {
        return Some("secrets");
    }
    if has(Kind::ConfigMap) {
        return Some("configmaps");
    }
    if list(spec, "resourceClaims").next().is_some() {
        return Some("resourceclaims");
    }
    list(spec, "volumes").find_map(in_volume)
}

/// The kind of API object that a volume refers to.
fn in_volume(volume: &Value) -> Option<&'static str> {
    let of = |places: &[(&str, &'static str)], value: &Value| {
        places.iter().find(|(field, _)| value.get(*field).is_some()).map(|(_, what)| *what)
    };
    let sources = volume.get("projected").and_then(|projected| projected.get("sources")?.as_array());
    of(VOLUMES, volume).or_else(|| sources.into_iter().flatten().find_map(|source| of(SOURCES, source)))
}

/// Volume sources that refer to API objects.
const VOLUMES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to API objects.
const SOURCES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Rejects status updates that change labels or resource claim statuses.
pub(super) fn check_status(node: &str, old: &Json, new: &Json) -> Result<(), String> {
    let differs = |of: &str, name: &str| part(old, of, name) != part(new, of, name);
    if differs("metadata", "labels") {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    if differs("status", "resourceClaimStatuses") {
        return Err(format!("node {node:?} cannot update resource claim statues"));
    }
    if differs("status", "extendedResourceClaimStatus") {
        return Err(format!("node {node:?} cannot update extended resource claim status"));
    }
    Ok(())
}
