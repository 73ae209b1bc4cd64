//! Restricts what a node may write to its own Node: no taints, owner references or restricted labels. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::strategy::Json;
use serde_json::{Map, Value};

use super::part;
use crate::trust;

/// Kubernetes labels that a node may set on itself.
const LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Label domains that a node may set on itself, with their subdomains.
const DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Label domains of Kubernetes, with their subdomains. A node may set only the labels above.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// The label domain by which administrators isolate nodes. No node may set it.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Rejects writes of other Nodes, and fields of the own Node that would attract pods.
///
/// # Errors
/// If the request is rejected. The error is the stock message.
pub(super) fn check(node: &str, name: &str, new: &Json, old: Option<&Json>) -> Result<(), String> {
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    // A deletion has no new object.
    if new.is_empty() {
        return Ok(());
    }
    if server_annotations(new) != old.map(server_annotations).unwrap_or_default() {
        let ours = trust::ANNOTATION_PREFIX;
        return Err(format!(
            "node {node:?} is not allowed to set or modify annotations that begin with {ours}"
        ));
    }
    let source = part(new, "spec", "configSource");
    let forbidden = forbidden_labels(new, old);
    let Some(old) = old else {
        if source.is_some() {
            return Err(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
        }
        if !forbidden.is_empty() {
            return Err(format!("node {node:?} is not allowed to set the following labels: {forbidden}"));
        }
        return Ok(());
    };
    if source.is_some() && source != part(old, "spec", "configSource") {
        return Err(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    for (of, what) in [("spec", "taints"), ("metadata", "ownerReferences")] {
        if part(new, of, what) != part(old, of, what) {
            return Err(format!("node {node:?} is not allowed to modify {what}"));
        }
    }
    if !forbidden.is_empty() {
        return Err(format!("is not allowed to modify labels: {forbidden}"));
    }
    Ok(())
}

/// The changed labels that a node may not set, sorted.
fn forbidden_labels(new: &Json, old: Option<&Json>) -> String {
    let none = Map::new();
    let labels = |of: &Json| part(of, "metadata", "labels").and_then(Value::as_object).cloned();
    let (new, old) = (labels(new).unwrap_or_default(), old.and_then(labels).unwrap_or(none));
    let all: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    let changed = all.into_iter().filter(|label| new.get(*label) != old.get(*label));
    changed.filter(|label| !may_set_label(label)).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The annotations that the server maintains, regardless of their order.
fn server_annotations(of: &Json) -> BTreeMap<&String, &Value> {
    let all = part(of, "metadata", "annotations").and_then(Value::as_object).into_iter().flatten();
    all.filter(|(name, _)| name.starts_with(trust::ANNOTATION_PREFIX)).collect()
}

/// Whether a node may set this label on itself.
fn may_set_label(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &&str| -> bool {
        domain.strip_suffix(*parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_known = LABELS.contains(&label) || DOMAINS.iter().any(is_in);
    !is_in(&RESTRICTED) && (is_known || !KUBERNETES.iter().any(is_in))
}

#[cfg(test)]
mod tests {
    //! Tests of labels and annotations that a node may set on its own Node.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn restricted_node_labels_are_recognized() {
        for (label, expected) in [
            ("tier", true),
            ("example.com/tier", true),
            ("kubernetes.io/hostname", true),
            ("topology.kubernetes.io/zone", true),
            ("node.kubernetes.io/anything", true),
            ("x.node.kubernetes.io/anything", true),
            ("kubelet.kubernetes.io/x", true),
            ("notkubernetes.io/x", true),
            ("kubernetes.io/role", false),
            ("node-role.kubernetes.io/control-plane", false),
            ("foo.k8s.io/x", false),
            ("k8s.io/x", false),
            ("node-restriction.kubernetes.io/tier", false),
            ("x.node-restriction.kubernetes.io/tier", false),
        ] {
            assert_eq!(may_set_label(label), expected, "{label}");
        }
    }

    #[test]
    fn node_must_not_change_its_trust_annotations() {
        let node = |annotations: Value| {
            let node = json!({"metadata": {"name": "a", "annotations": annotations}});
            node.as_object().unwrap().clone()
        };
        let stored = node(json!({"coracle.io/registered-from": "::1", "coracle.io/public-keys": "aa"}));
        let sorted =
            node(json!({"coracle.io/public-keys": "aa", "coracle.io/registered-from": "::1", "x": "y"}));
        assert_eq!(check("a", "a", &sorted, Some(&stored)), Ok(()));
        for other in [json!({}), json!({"coracle.io/public-keys": "bb", "coracle.io/registered-from": "::1"})]
        {
            assert!(check("a", "a", &node(other), Some(&stored)).is_err());
        }
    }
}
