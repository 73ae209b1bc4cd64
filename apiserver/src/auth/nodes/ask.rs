//! What a node asks for, and what it hears before anything is looked up. Pure, in the words of the stock server.
//!
//! What a write may change of an object is not known here: that nodes write only their own is what admission sees to.

use super::index::{Kind, Object};
use crate::auth::attributes::{Attributes, On, ResourceAttributes};

/// Where every node has its heartbeat.
pub const LEASES: &str = "kube-node-lease";

/// What a node hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may.
    Allowed,
    /// It may not; why, or empty where that needs no words.
    Refused(String),
    /// It may if this object is there for a pod of it.
    IfReached(Object),
    /// What is asked for is not one node's or another's: rules that hold for all nodes decide.
    ByRules,
}

/// Whether the node may do that.
pub fn answer(node: &str, asked: &Attributes) -> Answer {
    let On::Resource(on) = &asked.on else { return Answer::ByRules };
    let verb = asked.verb.as_str();
    match (on.group.as_str(), on.resource.as_str()) {
        ("", "secrets") => read(verb, Kind::Secret, on),
        ("", "configmaps") => read(verb, Kind::ConfigMap, on),
        ("", "persistentvolumeclaims") if on.subresource == "status" => match verb {
            "update" | "patch" => named(Kind::Claim, on),
            _ => refused("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims") => get(verb, Kind::Claim, on),
        ("", "persistentvolumes") => get(verb, Kind::Volume, on),
        ("resource.k8s.io", "resourceclaims") => get(verb, Kind::ResourceClaim, on),
        ("storage.k8s.io", "volumeattachments") => get(verb, Kind::Attachment, on),
        ("", "serviceaccounts") => account(verb, on),
        ("coordination.k8s.io", "leases") => lease(node, verb, on),
        ("storage.k8s.io", "csinodes") => csi_node(node, verb, on),
        ("resource.k8s.io", "resourceslices") => slice(node, verb, on),
        ("", "nodes") => of_nodes(verb, on),
        ("", "pods") => pod(node, verb, on),
        _ => Answer::ByRules,
    }
}

fn refused(why: &str) -> Answer {
    Answer::Refused(why.to_owned())
}

/// One object that has a name.
fn named(kind: Kind, on: &ResourceAttributes) -> Answer {
    if on.name.is_empty() {
        return refused("No Object name found");
    }
    Answer::IfReached(Object::new(kind, &on.namespace, &on.name))
}

fn get(verb: &str, kind: Kind, on: &ResourceAttributes) -> Answer {
    match verb {
        "get" if on.subresource.is_empty() => named(kind, on),
        "get" => refused("cannot get subresource"),
        _ => refused("can only get individual resources of this type"),
    }
}

/// Lists and watches pass when they are of one name, which [`Attributes`] takes from their selector.
fn read(verb: &str, kind: Kind, on: &ResourceAttributes) -> Answer {
    match verb {
        "get" | "list" | "watch" if !on.subresource.is_empty() => refused("cannot read subresource"),
        "get" | "list" | "watch" if on.namespace.is_empty() => {
            refused("can only read namespaced object of this type")
        }
        "get" | "list" | "watch" => named(kind, on),
        _ => refused("can only read resources of this type"),
    }
}

/// Its pods' accounts, for what tells registries who pulls, and their tokens.
fn account(verb: &str, on: &ResourceAttributes) -> Answer {
    match (verb, on.subresource.as_str()) {
        ("get", "") => read(verb, Kind::ServiceAccount, on),
        ("create", _) if on.name.is_empty() => {
            refused("can only create tokens for individual service accounts")
        }
        ("create", "token") => named(Kind::ServiceAccount, on),
        ("create", _) => refused("can only create token subresource of serviceaccount"),
        _ => refused("can only create tokens for individual service accounts"),
    }
}

/// The name of what is made is not known before it is read: admission looks at that.
fn lease(node: &str, verb: &str, on: &ResourceAttributes) -> Answer {
    if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
        return refused("can only get, create, update, patch, or delete a node lease");
    }
    if on.namespace != LEASES {
        return Answer::Refused(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    // Leases have no parts, and whatever they will have is not allowed beforehand.
    if !on.subresource.is_empty() {
        return refused("");
    }
    if verb != "create" && on.name != node {
        return refused("can only access node lease with the same name as the requesting node");
    }
    Answer::Allowed
}

fn csi_node(node: &str, verb: &str, on: &ResourceAttributes) -> Answer {
    if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
        return refused("can only get, create, update, patch, or delete a CSINode");
    }
    if !on.subresource.is_empty() {
        return refused("cannot authorize CSINode subresources");
    }
    if verb != "create" && on.name != node {
        return refused("can only access CSINode with the same name as the requesting node");
    }
    Answer::Allowed
}

fn slice(node: &str, verb: &str, on: &ResourceAttributes) -> Answer {
    if !on.subresource.is_empty() {
        return refused("cannot authorize ResourceSlice subresources");
    }
    match verb {
        "create" => Answer::Allowed,
        "get" | "update" | "patch" | "delete" => named(Kind::Slice, on),
        "watch" | "list" | "deletecollection" if on.fields.demands("spec.nodeName", node) => Answer::Allowed,
        "watch" | "list" | "deletecollection" => {
            refused("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => refused(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
             deletecollection",
        ),
    }
}

/// Nodes: it writes its own alone, which admission sees to, and reads all of them, as its pods are to reach those of all. A stock
/// server shows it no other.
fn of_nodes(verb: &str, on: &ResourceAttributes) -> Answer {
    match (on.subresource.as_str(), verb) {
        ("", "create" | "update" | "patch" | "get" | "list" | "watch") | ("status", "update" | "patch") => {
            Answer::Allowed
        }
        _ => refused(""),
    }
}

fn pod(node: &str, verb: &str, on: &ResourceAttributes) -> Answer {
    match (on.subresource.as_str(), verb) {
        ("", "get") => named(Kind::Pod, on),
        ("", "list" | "watch") if on.fields.demands("spec.nodeName", node) => Answer::Allowed,
        ("", "list" | "watch") if on.name.is_empty() => {
            refused("can only list/watch pods with spec.nodeName field selector")
        }
        ("", "list" | "watch") => named(Kind::Pod, on),
        // Images of the pods that the node has from elsewhere; admission lets it write no others.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
            Answer::Allowed
        }
        _ => refused(""),
    }
}
