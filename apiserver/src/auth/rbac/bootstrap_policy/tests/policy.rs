//! The bootstrap policy compared with that of a stock cluster, `policy.txt`.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const STOCK: &str = include_str!("policy.txt");

/// Permissions beyond stock Kubernetes, each with a reason.
const BEYOND: &[&str] = &[
    // The serving certificate of a node is approved together with its client certificate.
    "- system:controller:certificate-controller approve certificates.k8s.io signers kubernetes.io/kubelet-serving",
    // Nodes write events of both groups.
    "- system:node create events.k8s.io events *",
    "- system:node patch events.k8s.io events *",
    "- system:node update events.k8s.io events *",
    // CoreDNS, before its addon brings its own role.
    "- system:kube-dns list discovery.k8s.io endpointslices *",
    "- system:kube-dns watch discovery.k8s.io endpointslices *",
    // Stock Kubernetes grants it by name for coordinated leader election.
    "- system:kube-scheduler list coordination.k8s.io leases *",
    "- system:kube-scheduler watch coordination.k8s.io leases *",
];

/// Roles and bindings that stock Kubernetes does not have.
const OWN: &[&str] = &[
    // The cluster-info document, and the certificate request of a joining machine.
    "- system:bootstrap-info-viewer",
    "- system:node-requester",
    // Created by kubeadm in stock clusters.
    "- system:node-bootstrapper",
    // Created by the metrics server in stock clusters.
    "- system:aggregated-metrics-reader",
];

#[derive(Debug, Default, PartialEq, Eq)]
struct Policy {
    /// Roles by namespace and name; aggregated ones without rules.
    roles: BTreeMap<String, BTreeSet<String>>,
    bindings: BTreeMap<String, String>,
}

/// One entry per verb and resource, so that policies can be compared regardless of grouping.
fn grants(key: &str, rule: &Rule) -> Vec<String> {
    let mut grants = Vec::new();
    let any = ["*".to_owned()];
    let names = if rule.names.is_empty() { &any[..] } else { &rule.names };
    for verb in &rule.verbs {
        grants.extend(rule.paths.iter().map(|path| format!("{key} {verb} {path}")));
        for group in &rule.groups {
            for resource in &rule.resources {
                grants.extend(names.iter().map(|name| {
                    let group = if group.is_empty() { "core" } else { group };
                    format!("{key} {verb} {group} {resource} {name}")
                }));
            }
        }
    }
    grants
}

fn stock() -> Policy {
    let mut policy = Policy::default();
    for line in STOCK.lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, rule_text)) = line.split_once(" | ") {
            let role = policy.roles.entry(key.to_owned()).or_default();
            if rule_text != "aggregated" {
                let mut fields = rule_text.split(';').map(str::trim);
                let line: Line = std::array::from_fn(|_| fields.next().unwrap_or_default());
                role.extend(grants(key, &rule(&line)));
            }
        } else {
            let (key, binding) = line.split_once(" > ").unwrap();
            policy.bindings.insert(key.to_owned(), binding.trim_end_matches(": ").to_owned());
        }
    }
    policy
}

fn ours() -> Policy {
    let mut policy = Policy::default();
    for (kind, object) in objects() {
        let object = Value::Object(object);
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = match text("/metadata/namespace") {
            "" => "-",
            namespace => namespace,
        };
        let key = format!("{namespace} {}", text("/metadata/name"));
        if kind.is_role() {
            let rules = object["rules"].as_array().unwrap().iter().map(Rule::read);
            policy.roles.insert(key.clone(), rules.flat_map(|rule| grants(&key, &rule)).collect());
        } else {
            let subjects = object["subjects"].as_array().into_iter().flatten();
            let mut subjects: Vec<String> = subjects
                .map(|subject| {
                    let text = |field: &str| subject[field].as_str().unwrap_or_default();
                    match text("kind") {
                        "ServiceAccount" => format!("account:{}/{}", text("namespace"), text("name")),
                        kind => format!("{}:{}", kind.to_lowercase(), text("name")),
                    }
                })
                .collect();
            subjects.sort();
            let role = format!("{} {}", text("/roleRef/kind"), text("/roleRef/name"));
            let binding = format!("{role}: {}", subjects.join(" "));
            policy.bindings.insert(key, binding.trim_end_matches(": ").to_owned());
        }
    }
    policy
}

#[test]
fn bootstrap_policy_equals_that_of_the_stock_server() {
    let (stock, mut ours) = (stock(), ours());
    assert!(stock.roles.len() > 70 && stock.bindings.len() > 55, "the file was read");
    let own: BTreeSet<&str> = OWN.iter().copied().collect();
    ours.roles.retain(|key, _| stock.roles.contains_key(key) || !own.contains(key.as_str()));
    ours.bindings.retain(|key, _| !own.contains(key.as_str()));
    for grant in BEYOND {
        let role = ours.roles.values_mut().find(|role| role.contains(*grant));
        role.unwrap_or_else(|| panic!("{grant} is not granted any more")).remove(*grant);
    }
    for (key, grants) in &stock.roles {
        let Some(found) = ours.roles.get(key) else { panic!("{key} is missing") };
        let missing: Vec<_> = grants.difference(found).collect();
        let beyond: Vec<_> = found.difference(grants).collect();
        assert!(
            missing.is_empty() && beyond.is_empty(),
            "{key}: missing {missing:?}, beyond stock {beyond:?}"
        );
    }
    let unknown: Vec<_> = ours.roles.keys().filter(|key| !stock.roles.contains_key(*key)).collect();
    assert!(unknown.is_empty(), "roles that a stock server does not have: {unknown:?}");
    assert_eq!(ours.bindings, stock.bindings);
}
