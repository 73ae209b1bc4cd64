//! Node authorizer rules that need no lookup. Pure; messages as in kube-apiserver.
//!
//! The rules do not look at the content of writes. Admission plugin `NodeRestriction` limits nodes to their
//! own objects.

use super::index::{Kind, Object};
use crate::auth::attributes::{Attributes, On, ResourceAttributes};

/// Namespace of node leases.
pub const LEASES: &str = "kube-node-lease";

/// Result of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeDecision {
    /// The request is allowed.
    Allowed,
    /// The request is denied; the reason may be empty.
    Denied(String),
    /// The request is allowed only if a pod of the node references this object.
    IfReachable(Object),
    /// The request is allowed only while a NetworkPolicy exists in a namespace in which the node has a pod.
    IfPolicies,
    /// The rules for nodes do not apply. The RBAC rules of the role `system:node` decide.
    ByRules,
}

/// Applies the rules to a request from a node.
pub fn authorize(node: &str, request: &Attributes) -> NodeDecision {
    let On::Resource(on) = &request.on else { return NodeDecision::ByRules };
    let verb = request.verb.as_str();
    match (on.group.as_str(), on.resource.as_str()) {
        ("", "secrets") => read(verb, Kind::Secret, on),
        ("", "configmaps") => read(verb, Kind::ConfigMap, on),
        ("", "persistentvolumeclaims") if on.subresource == "status" => match verb {
            "update" | "patch" => named(Kind::Claim, on),
            _ => denied("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims") => get(verb, Kind::Claim, on),
        ("", "persistentvolumes") => get(verb, Kind::Volume, on),
        ("resource.k8s.io", "resourceclaims") => get(verb, Kind::ResourceClaim, on),
        ("storage.k8s.io", "volumeattachments") => get(verb, Kind::Attachment, on),
        ("", "serviceaccounts") => account(verb, on),
        ("coordination.k8s.io", "leases") => lease(node, verb, on),
        ("storage.k8s.io", "csinodes") => csi_node(node, verb, on),
        ("resource.k8s.io", "resourceslices") => slice(node, verb, on),
        // kube-apiserver grants these to kube-proxy only. The kubelet contains the service proxy.
        ("discovery.k8s.io", "endpointslices")
            if on.subresource.is_empty() && matches!(verb, "get" | "list" | "watch") =>
        {
            NodeDecision::Allowed
        }
        // The kubelet enforces NetworkPolicies, whose peers it finds by the labels of namespaces and pods. Every kubelet
        // can serve Ingresses; their Secrets need a label of the Node, see `ingress`.
        ("networking.k8s.io", "networkpolicies" | "ingresses") | ("", "namespaces")
            if on.subresource.is_empty() && matches!(verb, "get" | "list" | "watch") =>
        {
            NodeDecision::Allowed
        }
        ("", "nodes") => of_nodes(verb, on),
        ("", "pods") => pod(node, verb, on),
        _ => NodeDecision::ByRules,
    }
}

fn denied(why: &str) -> NodeDecision {
    NodeDecision::Denied(why.to_owned())
}

/// Allows access to a named object if a pod of the node references it.
fn named(kind: Kind, on: &ResourceAttributes) -> NodeDecision {
    if on.name.is_empty() {
        return denied("No Object name found");
    }
    NodeDecision::IfReachable(Object::new(kind, &on.namespace, &on.name))
}

fn get(verb: &str, kind: Kind, on: &ResourceAttributes) -> NodeDecision {
    match verb {
        "get" if on.subresource.is_empty() => named(kind, on),
        "get" => denied("cannot get subresource"),
        _ => denied("can only get individual resources of this type"),
    }
}

/// Allows get, and allows list and watch if they are restricted to one name. [`Attributes`] takes the name from the
/// field selector.
fn read(verb: &str, kind: Kind, on: &ResourceAttributes) -> NodeDecision {
    match verb {
        "get" | "list" | "watch" if !on.subresource.is_empty() => denied("cannot read subresource"),
        "get" | "list" | "watch" if on.namespace.is_empty() => {
            denied("can only read namespaced object of this type")
        }
        "get" | "list" | "watch" => named(kind, on),
        _ => denied("can only read resources of this type"),
    }
}

/// Allows a node to read the service accounts of its pods, for image pull credentials, and to request their tokens.
fn account(verb: &str, on: &ResourceAttributes) -> NodeDecision {
    match (verb, on.subresource.as_str()) {
        ("get", "") => read(verb, Kind::ServiceAccount, on),
        ("create", _) if on.name.is_empty() => {
            denied("can only create tokens for individual service accounts")
        }
        ("create", "token") => named(Kind::ServiceAccount, on),
        ("create", _) => denied("can only create token subresource of serviceaccount"),
        _ => denied("can only create tokens for individual service accounts"),
    }
}

/// Allows a node to write its own lease. The path of a create has no name, so admission checks the name in the
/// body.
fn lease(node: &str, verb: &str, on: &ResourceAttributes) -> NodeDecision {
    if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
        return denied("can only get, create, update, patch, or delete a node lease");
    }
    if on.namespace != LEASES {
        return NodeDecision::Denied(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    // Leases have no subresources; a future one must not be allowed by default.
    if !on.subresource.is_empty() {
        return denied("");
    }
    if verb != "create" && on.name != node {
        return denied("can only access node lease with the same name as the requesting node");
    }
    NodeDecision::Allowed
}

fn csi_node(node: &str, verb: &str, on: &ResourceAttributes) -> NodeDecision {
    if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
        return denied("can only get, create, update, patch, or delete a CSINode");
    }
    if !on.subresource.is_empty() {
        return denied("cannot authorize CSINode subresources");
    }
    if verb != "create" && on.name != node {
        return denied("can only access CSINode with the same name as the requesting node");
    }
    NodeDecision::Allowed
}

fn slice(node: &str, verb: &str, on: &ResourceAttributes) -> NodeDecision {
    if !on.subresource.is_empty() {
        return denied("cannot authorize ResourceSlice subresources");
    }
    match verb {
        "create" => NodeDecision::Allowed,
        "get" | "update" | "patch" | "delete" => named(Kind::Slice, on),
        "watch" | "list" | "deletecollection" if on.fields.demands("spec.nodeName", node) => {
            NodeDecision::Allowed
        }
        "watch" | "list" | "deletecollection" => {
            denied("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => denied(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
             deletecollection",
        ),
    }
}

/// Allows a node to write its own Node, which admission enforces, and to read all Nodes. Pod routes need their
/// addresses. kube-apiserver shows a node only itself.
fn of_nodes(verb: &str, on: &ResourceAttributes) -> NodeDecision {
    match (on.subresource.as_str(), verb) {
        ("", "create" | "update" | "patch" | "get" | "list" | "watch") | ("status", "update" | "patch") => {
            NodeDecision::Allowed
        }
        _ => denied(""),
    }
}

fn pod(node: &str, verb: &str, on: &ResourceAttributes) -> NodeDecision {
    match (on.subresource.as_str(), verb) {
        ("", "get") => named(Kind::Pod, on),
        ("", "list" | "watch") if on.fields.demands("spec.nodeName", node) => NodeDecision::Allowed,
        ("", "list" | "watch") if on.name.is_empty() => NodeDecision::IfPolicies,
        ("", "list" | "watch") => named(Kind::Pod, on),
        // Mirror pods; admission rejects other pods.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
            NodeDecision::Allowed
        }
        _ => denied(""),
    }
}
