//! Every verb on every resource for nodes and others; decisions follow the watch cache immediately.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::auth::rbac::bootstrap_policy;
use crate::auth::{Auth, Issuer, On, ResourceAttributes, Signer};
use crate::kinds;
use crate::selector::FieldSelector;
use crate::watch_cache::Draft;

/// All verbs.
const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
    "approve",
    "sign",
    "use",
    "proxy",
];

/// Names of requests: objects that pods of two nodes reference, the nodes themselves, and others.
const NAMES: &[&str] = &["", "a", "b", "of-a", "of-b", "through-a", "through-b"];

/// Permissions of node `a`: verbs, resource and names; `*` for any name.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("create", "selfsubjectreviews.authentication.k8s.io", "*"),
    ("create", "selfsubjectaccessreviews.authorization.k8s.io", "*"),
    ("create", "selfsubjectrulesreviews.authorization.k8s.io", "*"),
    ("create", "tokenreviews.authentication.k8s.io", "*"),
    ("create", "subjectaccessreviews.authorization.k8s.io", "*"),
    ("create", "localsubjectaccessreviews.authorization.k8s.io", "*"),
    ("create get list watch", "certificatesigningrequests.certificates.k8s.io", "*"),
    ("create patch update", "events", "*"),
    ("create patch update", "events.events.k8s.io", "*"),
    ("get list watch", "services", "*"),
    ("get", "endpoints", "*"),
    ("get list watch", "endpointslices.discovery.k8s.io", "*"),
    ("get list watch", "namespaces", "*"),
    ("get list watch", "networkpolicies.networking.k8s.io", "*"),
    ("get list watch", "ingresses.networking.k8s.io", "*"),
    ("get list watch", "csidrivers.storage.k8s.io", "*"),
    ("get list watch", "runtimeclasses.node.k8s.io", "*"),
    // Admission restricts these to the node's own objects.
    ("create patch update", "nodes", "*"),
    ("patch update", "nodes/status", "*"),
    ("get list watch", "nodes", "*"),
    ("create delete", "pods", "*"),
    ("patch update", "pods/status", "*"),
    ("create", "pods/eviction", "*"),
    ("get list watch", "pods", "of-a"),
    ("create", "leases.coordination.k8s.io", "*"),
    ("delete get patch update", "leases.coordination.k8s.io", "a"),
    ("create", "csinodes.storage.k8s.io", "*"),
    ("delete get patch update", "csinodes.storage.k8s.io", "a"),
    ("create", "resourceslices.resource.k8s.io", "*"),
    ("delete get patch update", "resourceslices.resource.k8s.io", "of-a"),
    // Objects that its pods reference, directly or indirectly.
    ("get list watch", "secrets", "of-a through-a"),
    ("get list watch", "configmaps", "of-a"),
    ("get", "persistentvolumeclaims", "of-a"),
    ("patch update", "persistentvolumeclaims/status", "of-a"),
    ("get", "persistentvolumes", "of-a"),
    ("get", "volumeattachments.storage.k8s.io", "of-a"),
    ("get", "resourceclaims.resource.k8s.io", "of-a"),
    ("get", "serviceaccounts", "of-a"),
    ("create", "serviceaccounts/token", "of-a"),
];

/// Number of permissions of every authenticated user.
const EVERYBODY: usize = 3;

fn put(store: &WatchCache, resource: &str, object: &Value) {
    store.put(resource, &Draft::new(object.as_object().unwrap(), &[].into()));
}

/// A pod on a node that references a Secret, ConfigMap, claim, service account and device of the same name.
fn pod(node: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "nodeName": node, "serviceAccountName": name,
            "volumes": [
                {"name": "s", "secret": {"secretName": name}}, {"name": "c", "configMap": {"name": name}},
                {"name": "v", "persistentVolumeClaim": {"claimName": name}},
            ],
            "resourceClaims": [{"name": "d", "resourceClaimName": name}],
        },
    })
}

/// A watch cache in which each of two nodes has one object of each kind.
fn two_nodes() -> WatchCache {
    let store = WatchCache::new(1);
    for (kind, object) in bootstrap_policy::objects() {
        put(&store, &kind.qualified(), &Value::Object(object));
    }
    for node in ["a", "b"] {
        let name = format!("of-{node}");
        put(&store, "pods", &pod(node, &name));
        let csi = json!({"nodeStageSecretRef": {"namespace": "shop", "name": format!("through-{node}")}});
        let spec = json!({"claimRef": {"namespace": "shop", "name": name}, "csi": csi});
        put(&store, "persistentvolumes", &json!({"metadata": {"name": name}, "spec": spec}));
        for kind in [Kind::Attachment, Kind::Slice] {
            put(&store, kind.resource(), &json!({"metadata": {"name": name}, "spec": {"nodeName": node}}));
        }
    }
    store
}

pub(super) fn auth(store: WatchCache) -> Arc<Auth> {
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    Auth::new(store, signer, Issuer { name: "https://issuer".to_owned(), server: "https://m".to_owned() })
}

/// Deleting the Node, or registering another key, revokes its certificates.
#[test]
fn with_registered_keys_a_certificate_alone_does_not_authenticate_a_node() {
    let store = two_nodes();
    let key_of = |node: &str, keys: &str| {
        let annotations = json!({super::keys::KEYS: keys});
        put(&store, "nodes", &json!({"metadata": {"name": node, "annotations": annotations}}));
    };
    key_of("a", "aa, bb");
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://m".to_owned() };
    let auth = Auth::with_node_keys(store.clone(), signer, issuer);
    let may = |user: &str, key: Option<&str>, resource: &str| {
        let who = Identity { key: key.map(str::to_owned), ..node(user) };
        let group = match resource {
            "selfsubjectreviews" | "tokenreviews" => "authentication.k8s.io",
            _ if resource.ends_with("accessreviews") => "authorization.k8s.io",
            _ => "",
        };
        let on = ResourceAttributes {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: node_of(&who).unwrap().to_owned(),
            ..ResourceAttributes::default()
        };
        let verb = if group.is_empty() { "get" } else { "create" };
        let attributes = Attributes::on(verb, on);
        let decision = auth.decide(&who, &attributes);
        if let Err(status) = auth.check(&who, &attributes) {
            // The kubelet reads the cause, not the message.
            let cause = &status.details.as_ref().unwrap()["causes"][0]["reason"];
            let is_unregistered = status.message.contains("is not registered for node");
            assert_eq!(cause == "NodeKeyNotRegistered", is_unregistered, "{status:?}");
        }
        decision
    };
    for (user, key, expected) in [
        ("kubelet:a", Some("aa"), true),
        ("system:node:a", Some("bb"), true),
        // A user that may impersonate.
        ("kubelet:a", None, true),
        ("kubelet:a", Some("cc"), false),
        ("kubelet:b", Some("aa"), false),
    ] {
        let decision = may(user, key, "nodes");
        assert_eq!(decision.is_allowed(), expected, "{user} {key:?} {decision:?}");
    }
    let Decision::Denied(why) = may("kubelet:a", Some("cc"), "nodes") else {
        panic!("its key is not registered")
    };
    assert!(why.contains("not registered for node \"a\""), "{why}");
    for (kind, allowed) in [
        ("selfsubjectaccessreviews", true),
        ("selfsubjectreviews", true),
        ("subjectaccessreviews", false),
        ("tokenreviews", false),
    ] {
        assert_eq!(may("kubelet:a", Some("cc"), kind).is_allowed(), allowed, "{kind}");
    }
    key_of("a", "cc");
    assert!(
        may("kubelet:a", Some("cc"), "nodes").is_allowed()
            && !may("kubelet:a", Some("aa"), "nodes").is_allowed()
    );
    store.delete("nodes", "", "a");
    assert!(!may("kubelet:a", Some("cc"), "nodes").is_allowed());
}

fn node(user: &str) -> Identity {
    Identity::authenticated(user, [NODES.to_owned()])
}

/// All resources and subresources, with a namespace.
fn resources() -> Vec<(String, String, String, &'static str)> {
    let mut all = Vec::new();
    for row in kinds::all() {
        let namespace = match (row.namespaced, row.plural.as_ref()) {
            (true, "leases") => "kube-node-lease",
            (true, _) => "shop",
            (false, _) => "",
        };
        let parts = row.subresources.iter().map(|part| part.name);
        for part in [""].into_iter().chain(parts).chain(["proxy", "log", "exec"]) {
            all.push((row.group.to_string(), row.plural.to_string(), part.to_owned(), namespace));
        }
    }
    all
}

/// All permissions of a user, as `verb resource/part.group name`.
fn table(auth: &Auth, who: &Identity) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for (group, resource, part, namespace) in resources() {
        for (verb, name) in VERBS.iter().flat_map(|verb| NAMES.iter().map(move |name| (*verb, *name))) {
            let on = ResourceAttributes {
                group: group.clone(),
                version: "v1".to_owned(),
                resource: resource.clone(),
                subresource: part.clone(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..ResourceAttributes::default()
            };
            if auth.decide(who, &Attributes::on(verb, on)).is_allowed() {
                allowed.insert(line(verb, &shown(&group, &resource, &part), name));
            }
        }
    }
    allowed
}

fn shown(group: &str, resource: &str, part: &str) -> String {
    let part = if part.is_empty() { String::new() } else { format!("/{part}") };
    if group.is_empty() { format!("{resource}{part}") } else { format!("{resource}{part}.{group}") }
}

fn line(verb: &str, what: &str, name: &str) -> String {
    format!("{verb} {what} {name:?}")
}

/// Expected permissions of a node, from the table.
fn expected(rows: &[(&str, &str, &str)], node: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (verbs, what, names) in rows {
        for verb in verbs.split(' ') {
            match *names {
                "*" => all.extend(NAMES.iter().map(|name| line(verb, what, name))),
                names => all.extend(names.split(' ').map(|name| {
                    let own = name.strip_suffix('a').map(|stem| format!("{stem}{node}"));
                    line(verb, what, own.as_deref().unwrap_or(name))
                })),
            }
        }
    }
    all
}

fn check(auth: &Auth, who: &Identity, expected: &BTreeSet<String>) {
    let found = table(auth, who);
    let more: Vec<_> = found.difference(expected).collect();
    let less: Vec<_> = expected.difference(&found).collect();
    assert!(
        more.is_empty() && less.is_empty(),
        "{} may, and should not: {more:#?}\nand may not, and should: {less:#?}",
        who.user
    );
}

#[test]
fn node_may_access_only_objects_of_its_pods() {
    let auth = auth(two_nodes());
    for (verbs, what, names) in ALLOWED {
        println!("{what:50} {verbs:30} {names}");
    }
    for name in ["a", "b"] {
        for prefix in PREFIXES {
            check(&auth, &node(&format!("{prefix}{name}")), &expected(ALLOWED, name));
        }
    }
    // A node without pods has the permissions of every node.
    let of_all: Vec<_> = ALLOWED.iter().filter(|(_, _, names)| *names == "*").copied().collect();
    check(&auth, &node("system:node:c"), &expected(&of_all, "c"));
}

#[test]
fn users_other_than_nodes_get_no_node_permissions() {
    let auth = auth(two_nodes());
    let everybody = expected(&ALLOWED[..EVERYBODY], "a");
    for who in [
        Identity::authenticated("joe", ["dev".to_owned()]),
        // A node name without the group, the group without a name, and similar names.
        Identity::authenticated("system:node:a", []),
        Identity::authenticated("kubelet:a", ["system:node".to_owned()]),
        node("joe"),
        node("system:nodes:a"),
        node("System:node:a"),
        node("system:node:"),
        node("kubelet:"),
    ] {
        check(&auth, &who, &everybody);
    }
    // Anonymous users may only request a node certificate.
    let asking = expected(&[("create get", "certificatesigningrequests.certificates.k8s.io", "*")], "a");
    let found = table(&auth, &Identity::anonymous());
    assert!(found.is_subset(&asking), "{found:?}");
}

#[test]
fn node_rejection_contains_the_reason() {
    let auth = auth(two_nodes());
    let no_relation = "no relationship found between node 'a' and this object";
    for (verb, what, expected) in [
        ("get", "shop secrets of-b", no_relation),
        ("get", "other secrets of-a", no_relation),
        ("get", "shop secrets absent", no_relation),
        ("list", "shop secrets", "No Object name found"),
        ("list", "- secrets", "can only read namespaced object of this type"),
        ("delete", "shop secrets of-a", "can only read resources of this type"),
        ("get", "shop secrets/x of-a", "cannot read subresource"),
        ("list", "shop persistentvolumeclaims of-a", "can only get individual resources of this type"),
        ("get", "shop persistentvolumeclaims/status of-a", "can only get/update/patch this type"),
        ("get", "- persistentvolumes/status of-a", "cannot get subresource"),
        ("get", "shop pods of-b", no_relation),
        ("list", "shop pods", "can only list/watch pods with spec.nodeName field selector"),
        ("watch", "- pods", "can only list/watch pods with spec.nodeName field selector"),
        ("patch", "shop pods of-a", ""),
        ("get", "shop pods/log of-a", ""),
        ("delete", "- nodes a", ""),
        (
            "update",
            "shop leases.coordination.k8s.io a",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            "update",
            "kube-node-lease leases.coordination.k8s.io b",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "list",
            "kube-node-lease leases.coordination.k8s.io",
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            "get",
            "- csinodes.storage.k8s.io b",
            "can only access CSINode with the same name as the requesting node",
        ),
        ("list", "- csinodes.storage.k8s.io a", "can only get, create, update, patch, or delete a CSINode"),
        ("update", "- csinodes/status.storage.k8s.io a", "cannot authorize CSINode subresources"),
        (
            "list",
            "- resourceslices.resource.k8s.io",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("create", "shop serviceaccounts x", "can only create token subresource of serviceaccount"),
        ("list", "shop serviceaccounts of-a", "can only create tokens for individual service accounts"),
        ("create", "shop serviceaccounts/token of-b", no_relation),
        ("get", "shop deployments.apps x", ""),
    ] {
        let mut words = what.split(' ');
        let namespace = words.next().filter(|namespace| *namespace != "-").unwrap_or_default();
        let (qualified, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let (resource, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let own = str::to_owned;
        let on = ResourceAttributes {
            group: own(group),
            resource: own(resource),
            subresource: own(part),
            name: own(name),
            namespace: own(namespace),
            ..ResourceAttributes::default()
        };
        let found = auth.decide(&node("system:node:a"), &Attributes::on(verb, on));
        assert_eq!(found, Decision::Denied(expected.to_owned()), "{verb} {what}");
    }
    let nameless = auth.decide(&node("system:node:"), &Attributes::on_path("get", "/nowhere"));
    assert_eq!(nameless, Decision::Denied("unknown node for user \"system:node:\"".to_owned()));
}

#[test]
fn node_may_list_pods_only_with_its_node_name_selector() {
    let auth = auth(two_nodes());
    for (path, expected) in [
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Da", true),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3D%3Da&watch=true", true),
        ("/api/v1beta3/pods?fieldSelector=spec.nodeName%3Da", true),
        ("/api/v1/namespaces/shop/pods?fieldSelector=status.phase!%3DFailed,spec.nodeName%3Da", true),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Db", false),
        ("/api/v1/pods?fieldSelector=spec.nodeName!%3Da", false),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Da&fieldSelector=spec.nodeName%3Db", false),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Da%5C,x", false),
        ("/api/v1/pods?labelSelector=spec.nodeName%3Da", false),
        ("/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dof-a", true),
        ("/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dof-b", false),
        ("/api/v1/pods?fieldSelector=metadata.name%3Dof-a", false),
        ("/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dof-a&watch=1", true),
        ("/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dof-b&watch=1", false),
        ("/api/v1/namespaces/shop/secrets?fieldSelector=type%3Dx", false),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Da", true),
        ("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Da", true),
        ("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Db", false),
    ] {
        let request_attributes = Attributes::of(&http::Method::GET, &path.parse().unwrap()).unwrap();
        assert_eq!(auth.decide(&node("kubelet:a"), &request_attributes).is_allowed(), expected, "{path}");
    }
    let all = |path: &str| Attributes::of(&http::Method::DELETE, &path.parse().unwrap()).unwrap();
    let slices = all("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Da");
    assert!(auth.decide(&node("kubelet:a"), &slices).is_allowed());
    let pods = all("/api/v1/namespaces/shop/pods?fieldSelector=spec.nodeName%3Da");
    assert!(!auth.decide(&node("kubelet:a"), &pods).is_allowed());
}

#[test]
fn a_node_may_list_all_pods_while_a_policy_exists_in_the_namespace_of_one_of_its_pods() {
    let store = two_nodes();
    let auth = auth(store.clone());
    let may = |who: &str| {
        let uri = "/api/v1/pods?watch=1".parse().unwrap();
        let request_attributes = Attributes::of(&http::Method::GET, &uri).unwrap();
        auth.decide(&node(who), &request_attributes).is_allowed()
    };
    let policies = "networkpolicies.networking.k8s.io";
    let policy = |namespace: &str| json!({"metadata": {"name": "deny", "namespace": namespace}});
    assert!(!may("kubelet:a"));
    put(&store, policies, &policy("other"));
    assert!(!may("kubelet:a"), "the node has no pod in that namespace");
    put(&store, policies, &policy("shop"));
    assert!(may("kubelet:a") && may("kubelet:b"));
    assert!(!may("kubelet:c"), "the node has no pod");
    let mirror = json!({"metadata": {"name": "static", "namespace": "shop",
        "annotations": {"kubernetes.io/config.mirror": "1"}}, "spec": {"nodeName": "c"}});
    put(&store, "pods", &mirror);
    assert!(!may("kubelet:c"), "a mirror pod, which the node writes itself, gives no access");
    store.delete(policies, "shop", "deny");
    assert!(!may("kubelet:a"));
}

#[test]
fn node_access_follows_pod_references_immediately() {
    let store = two_nodes();
    let nodes = Nodes::new(store.clone(), false);
    let may = |who: &str, name: &str| {
        let on = ResourceAttributes {
            resource: "secrets".to_owned(),
            name: name.to_owned(),
            namespace: "shop".to_owned(),
            ..ResourceAttributes::default()
        };
        nodes.decide(&node(who), &Attributes::on("get", on)).is_allowed()
    };
    let mut late = pod("", "late");
    put(&store, "pods", &late);
    assert!(!may("kubelet:a", "late"));
    late["spec"]["nodeName"] = "a".into();
    put(&store, "pods", &late);
    assert!(may("kubelet:a", "late") && may("system:node:a", "late") && !may("kubelet:b", "late"));
    // A second pod with the same reference keeps it.
    let mut second = pod("a", "second");
    second["spec"]["volumes"][0]["secret"]["secretName"] = "late".into();
    put(&store, "pods", &second);
    store.delete("pods", "shop", "late");
    assert!(may("kubelet:a", "late"));
    // An ephemeral container adds a reference.
    second["spec"]["ephemeralContainers"] = json!([{"envFrom": [{"secretRef": {"name": "debug"}}]}]);
    put(&store, "pods", &second);
    assert!(may("kubelet:a", "debug"));
    store.delete("pods", "shop", "second");
    assert!(!may("kubelet:a", "late") && !may("kubelet:a", "debug"));
    assert!(may("kubelet:a", "through-a"));
    store.delete("persistentvolumes", "", "of-a");
    assert!(!may("kubelet:a", "through-a") && may("kubelet:b", "through-b"));
}

#[tokio::test]
async fn node_authorizer_survives_a_gap_in_the_watch_history() {
    let store = two_nodes();
    let nodes = Arc::new(Nodes::new(store.clone(), false));
    let of_b = ResourceAttributes {
        resource: "secrets".to_owned(),
        name: "of-b".to_owned(),
        namespace: "shop".to_owned(),
        ..ResourceAttributes::default()
    };
    let request_attributes = Attributes::on("get", of_b);
    assert!(nodes.decide(&node("kubelet:b"), &request_attributes).is_allowed());
    store.delete("pods", "shop", "of-b");
    for number in 0..3000 {
        put(&store, "pods", &pod("a", &format!("p{}", number % 7)));
        let mut other = pod("b", &format!("p{}", number % 7));
        other["spec"]["volumes"] = json!([]);
        put(&store, "pods", &other);
    }
    assert!(!nodes.decide(&node("kubelet:b"), &request_attributes).is_allowed());
    // The same with background updates.
    let kept = nodes.clone();
    let task = tokio::spawn(async move { kept.run_sync().await });
    tokio::task::yield_now().await;
    put(&store, "pods", &pod("b", "of-b"));
    assert!(nodes.decide(&node("kubelet:b"), &request_attributes).is_allowed());
    tokio::task::yield_now().await;
    store.delete("pods", "shop", "of-b");
    tokio::task::yield_now().await;
    assert!(!nodes.decide(&node("kubelet:b"), &request_attributes).is_allowed());
    task.abort();
}

#[test]
fn access_review_of_a_list_contains_its_selector() {
    let mut fields = FieldSelector::default();
    fields.require("spec.nodeName", "a");
    assert!(fields.demands("spec.nodeName", "a") && !fields.demands("spec.nodeName", "b"));
    let on = ResourceAttributes { resource: "pods".to_owned(), fields, ..ResourceAttributes::default() };
    assert!(matches!(&Attributes::on("list", on.clone()).on, On::Resource(own) if *own == on));
    assert!(auth(two_nodes()).decide(&node("kubelet:a"), &Attributes::on("list", on)).is_allowed());
}
