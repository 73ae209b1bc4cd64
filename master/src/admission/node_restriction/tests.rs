//! Writes of nodes through the whole API, and the error messages of rejected ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use apiserver::registry::Registry;
use apiserver::{Api, Catalog, Identity, VERSION, kinds, storage};
use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;

/// A change to a pod.
type Change = Box<dyn FnOnce(&mut Value)>;

/// The API with this admission plugin only, and two nodes with a pod and a claim each.
async fn bed() -> Router {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let restriction = NodeRestriction::new(Lister::new(registry.clone()));
    let router = Api::writable(registry, vec![Arc::new(restriction)], VERSION).router();
    for node in ["a", "b"] {
        let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
        let labels = json!({"kubernetes.io/hostname": node, "tier": "one"});
        let of_node = json!({"metadata": {"name": node, "labels": labels}, "spec": {"taints": taints}});
        made(&router, "/api/v1/nodes", of_node).await;
        let name = format!("of-{node}");
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec});
        made(&router, "/api/v1/namespaces/shop/pods", pod).await;
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let claim = json!({"metadata": {"name": name}, "spec": spec});
        made(&router, "/api/v1/namespaces/shop/persistentvolumeclaims", claim).await;
        let spec = json!({"driver": "d", "nodeName": node, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
        let slice = json!({"metadata": {"name": name}, "spec": spec});
        made(&router, "/apis/resource.k8s.io/v1/resourceslices", slice).await;
    }
    router
}

async fn made(router: &Router, path: &str, object: Value) {
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    let (code, answer) = send_request(router, &admin, &format!("POST {path}"), &object).await;
    assert_eq!(code, 201, "{path} {answer}");
}

async fn send_request(router: &Router, who: &Identity, line: &str, body: &Value) -> (u16, Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = router.clone().oneshot(request.extension(who.clone()).body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
}

fn node(user: &str) -> Identity {
    Identity::authenticated(user, ["system:nodes".to_owned()])
}

/// Sends a request as a node, and checks the end of the error message; empty means success.
async fn check(router: &Router, who: &Identity, line: &str, body: &Value, expected: &str) {
    let (code, answer) = send_request(router, who, line, body).await;
    if expected.is_empty() {
        assert!((200..300).contains(&code), "{} {line} {body}: {answer}", who.user);
    } else {
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            code == 403 && message.ends_with(&format!("is forbidden: {expected}")),
            "{} {line} {body}: {answer}",
            who.user
        );
    }
}

#[tokio::test]
async fn node_may_update_itself_but_not_its_taints_or_restricted_labels() {
    let router = bed().await;
    let label = |name: &str, value: Value| json!({"metadata": {"labels": {name: value}}});
    let refused = |what: &str| format!("is not allowed to modify labels: {what}");
    let taints = "node \"a\" is not allowed to modify taints";
    let other = "node \"a\" is not allowed to modify node \"b\"";
    for user in ["system:node:a", "kubelet:a"] {
        let who = node(user);
        for (line, body, expected) in [
            ("PATCH /api/v1/nodes/a", label("tier", json!("two")), String::new()),
            ("PATCH /api/v1/nodes/a", label("topology.kubernetes.io/zone", json!("z")), String::new()),
            ("PATCH /api/v1/nodes/a", label("node.kubernetes.io/x", json!("y")), String::new()),
            (
                "PATCH /api/v1/nodes/a",
                label("node-restriction.kubernetes.io/tier", json!("gold")),
                refused("node-restriction.kubernetes.io/tier"),
            ),
            (
                "PATCH /api/v1/nodes/a",
                label("node-role.kubernetes.io/control-plane", json!("")),
                refused("node-role.kubernetes.io/control-plane"),
            ),
            (
                "PATCH /api/v1/nodes/a",
                json!({"metadata": {"labels": {"x.k8s.io/b": "1", "kubernetes.io/a": "1", "fine": "1"}}}),
                refused("kubernetes.io/a, x.k8s.io/b"),
            ),
            ("PATCH /api/v1/nodes/a", json!({"spec": {"taints": null}}), taints.to_owned()),
            (
                "PATCH /api/v1/nodes/a",
                json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
                taints.to_owned(),
            ),
            (
                "PATCH /api/v1/nodes/a",
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "u"}]}}),
                "node \"a\" is not allowed to modify ownerReferences".to_owned(),
            ),
            ("PATCH /api/v1/nodes/a", json!({"spec": {"unschedulable": true}}), String::new()),
            (
                "PATCH /api/v1/nodes/a/status",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                String::new(),
            ),
            ("PATCH /api/v1/nodes/b", label("tier", json!("two")), other.to_owned()),
            ("PATCH /api/v1/nodes/b/status", json!({"status": {}}), other.to_owned()),
            ("DELETE /api/v1/nodes/b", Value::Null, other.to_owned()),
            (
                "POST /api/v1/nodes",
                json!({"metadata": {"name": "c"}}),
                "node \"a\" is not allowed to modify node \"c\"".to_owned(),
            ),
        ] {
            check(&router, &who, line, &body, &expected).await;
        }
    }
    let late = node("kubelet:late");
    let with = |label: &str| json!({"metadata": {"name": "late", "labels": {label: "x"}}});
    let why = "node \"late\" is not allowed to set the following labels: node-role.kubernetes.io/x";
    check(&router, &late, "POST /api/v1/nodes", &with("node-role.kubernetes.io/x"), why).await;
    // It may register with taints, which keep pods away.
    let mut tainted = with("kubernetes.io/arch");
    tainted["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    check(&router, &late, "POST /api/v1/nodes", &tainted, "").await;
    let nameless = node("system:node:");
    let why = "could not determine node from user \"system:node:\"";
    check(&router, &nameless, "PATCH /api/v1/nodes/a", &json!({}), why).await;
}

/// A changed mirror pod on the node `a`.
fn mirror(uid: &str, change: impl FnOnce(&mut Value)) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true});
    let mut pod = json!({
        "metadata": {
            "name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner],
        },
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
    });
    change(&mut pod);
    pod
}

#[tokio::test]
async fn node_may_create_only_mirror_pods_bound_to_itself() {
    let router = bed().await;
    let who = node("kubelet:a");
    let (_, own) = send_request(&router, &who, "GET /api/v1/nodes/a", &Value::Null).await;
    let uid = own["metadata"]["uid"].as_str().unwrap();
    let only = |what: &str| format!("node \"a\" can only create pods with {what} set to itself");
    let names = |what: &str| format!("node \"a\" can not create pods that reference {what}");
    let pods = "POST /api/v1/namespaces/shop/pods";
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        json!([volume])
    };
    let owners = |change: fn(&mut Value)| -> Change {
        Box::new(move |pod| change(&mut pod["metadata"]["ownerReferences"]))
    };
    let spec =
        |field: &'static str, value: Value| -> Change { Box::new(move |pod| pod["spec"][field] = value) };
    let of_container = |field: &'static str, value: Value| -> Change {
        Box::new(move |pod| pod["spec"]["containers"][0][field] = value)
    };
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let token = json!({"serviceAccountToken": {"path": "t"}});
    for (change, expected) in [
        (
            Box::new(|pod: &mut Value| pod["metadata"]["annotations"] = json!({})) as Change,
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"a\" can only create mirror pods".to_owned(),
        ),
        (spec("nodeName", "b".into()), only("spec.nodeName")),
        (spec("nodeName", "".into()), only("spec.nodeName")),
        (owners(|all| *all = json!([])), only("an owner reference")),
        (owners(|all| all[0]["name"] = "b".into()), only("an owner reference")),
        (owners(|all| all[0]["kind"] = "Pod".into()), only("an owner reference")),
        (owners(|all| *all = json!([all[0], all[0]])), only("a single owner reference")),
        (owners(|all| all[0]["controller"] = false.into()), only("a controller owner reference")),
        (
            owners(|all| all[0]["blockOwnerDeletion"] = true.into()),
            "node \"a\" must not set blockOwnerDeletion on an owner reference".to_owned(),
        ),
        (
            owners(|all| all[0]["uid"] = "old".into()),
            format!("node a UID mismatch: expected old got {uid}"),
        ),
        (spec("serviceAccountName", "web".into()), names("serviceaccounts")),
        (spec("imagePullSecrets", json!([{"name": "s"}])), names("secrets")),
        (spec("volumes", volume(json!({"secret": {"secretName": "s"}}))), names("secrets")),
        (of_container("envFrom", json!([{"configMapRef": {"name": "c"}}])), names("configmaps")),
        (
            of_container("env", json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])),
            names("secrets"),
        ),
        (
            spec("volumes", volume(json!({"persistentVolumeClaim": {"claimName": "c"}}))),
            names("persistentvolumeclaims"),
        ),
        (spec("volumes", projected(token)), names("serviceaccounts (via projected volumes)")),
        (spec("volumes", volume(json!({"csi": {"driver": "d"}}))), names("csidrivers (via CSI volumes)")),
        (
            spec("resourceClaims", json!([{"name": "r", "resourceClaimName": "c"}])),
            names("resourceclaims"),
        ),
        (spec("volumes", volume(json!({"hostPath": {"path": "/srv"}}))), String::new()),
    ] {
        check(&router, &who, pods, &mirror(uid, change), &expected).await;
    }
    // A user without a Node cannot create mirror pods.
    let stranger = node("kubelet:c");
    let pod = mirror(uid, |pod| {
        pod["spec"]["nodeName"] = "c".into();
        pod["metadata"]["ownerReferences"][0]["name"] = "c".into();
    });
    assert_eq!(send_request(&router, &stranger, pods, &pod).await.0, 404);
    for (line, body, expected) in [
        (
            "PATCH /api/v1/namespaces/shop/pods/m",
            json!({"metadata": {"labels": {"a": "b"}}}),
            "unexpected operation \"UPDATE\", node \"a\" can only create and delete mirror pods",
        ),
        (
            "PATCH /api/v1/namespaces/shop/pods/of-a/ephemeralcontainers",
            json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
            "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed",
        ),
        ("PATCH /api/v1/namespaces/shop/pods/of-a/status", json!({"status": {"phase": "Running"}}), ""),
        (
            "PATCH /api/v1/namespaces/shop/pods/of-b/status",
            json!({"status": {"phase": "Running"}}),
            "node \"a\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            "PATCH /api/v1/namespaces/shop/pods/of-a/status",
            json!({"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "of-b"}]}}),
            "node \"a\" cannot update resource claim statues",
        ),
        (
            "POST /api/v1/namespaces/shop/pods/of-b/eviction",
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "of-b"}}),
            "node \"a\" can only evict pods with spec.nodeName set to itself",
        ),
        (
            "DELETE /api/v1/namespaces/shop/pods/of-b",
            Value::Null,
            "node \"a\" can only delete pods with spec.nodeName set to itself",
        ),
        (
            "POST /api/v1/namespaces/shop/pods/of-a/eviction",
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "of-a"}}),
            "",
        ),
        ("DELETE /api/v1/namespaces/shop/pods/m", Value::Null, ""),
    ] {
        check(&router, &who, line, &body, expected).await;
    }
}

#[tokio::test]
async fn node_may_write_only_its_own_lease_and_the_size_of_claims() {
    let router = bed().await;
    let who = node("system:node:a");
    let named = |name: &str| json!({"metadata": {"name": name}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let claims = "/api/v1/namespaces/shop/persistentvolumeclaims";
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
    let own_lease = "can only access node lease with the same name as the requesting node";
    let own_csi_node = "can only access CSINode with the same name as the requesting node";
    let csi = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    let slice = |name: &str, node: &str| {
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        json!({"metadata": {"name": name}, "spec": {"driver": "d", "nodeName": node, "pool": pool}})
    };
    for (line, body, expected) in [
        (format!("POST {leases}"), named("a"), ""),
        (format!("PATCH {leases}/a"), json!({"spec": {"holderIdentity": "a"}}), ""),
        (format!("POST {leases}"), named("b"), own_lease),
        (format!("PUT {leases}/b"), named("b"), own_lease),
        (
            "POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases".to_owned(),
            named("a"),
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (format!("DELETE {leases}/a"), Value::Null, ""),
        (format!("POST {csi_nodes}"), csi("a"), ""),
        (format!("POST {csi_nodes}"), csi("b"), own_csi_node),
        (format!("POST {slices}"), slice("one", "a"), ""),
        (
            format!("POST {slices}"),
            slice("two", "b"),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            format!("DELETE {slices}/of-b"),
            Value::Null,
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        (format!("DELETE {slices}/of-a"), Value::Null, ""),
        (
            format!("PATCH {claims}/of-a"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            "may only update PVC status",
        ),
        (format!("PATCH {claims}/of-a/status"), json!({"status": {"capacity": {"storage": "2Gi"}}}), ""),
        (
            format!("PATCH {claims}/of-a/status"),
            json!({"status": {"phase": "Lost"}}),
            "node \"a\" is not allowed to update fields other than status.quantity and status.conditions",
        ),
    ] {
        check(&router, &who, &line, &body, expected).await;
    }
    // Users outside `system:nodes` are not restricted, whatever their name.
    for who in [Identity::authenticated("joe", []), Identity::authenticated("system:node:a", [])] {
        check(&router, &who, "PATCH /api/v1/nodes/b", &json!({"spec": {"taints": null}}), "").await;
    }
}

/// The PEM of a CSR in base64, as in `spec.request`.
fn csr_pem(common_name: &str) -> String {
    use base64::Engine as _;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    base64::engine::general_purpose::STANDARD.encode(pem)
}

#[tokio::test]
async fn node_may_request_certificates_only_for_its_own_name() {
    let router = bed().await;
    let line = "POST /apis/certificates.k8s.io/v1/certificatesigningrequests";
    let [client, serving] =
        ["kube-apiserver-client-kubelet", "kubelet-serving"].map(|name| format!("kubernetes.io/{name}"));
    let refused = "can only create a node CSR with CN=system:node:a";
    for (user, signer, name, expected) in [
        ("system:node:a", &client, "system:node:a", ""),
        ("kubelet:a", &client, "kubelet:a", ""),
        ("kubelet:a", &serving, "system:node:a", ""),
        ("kubelet:a", &client, "kubelet:b", refused),
        ("system:node:a", &serving, "system:node:b", refused),
        ("system:node:a", &client, "a", refused),
        ("system:node:a", &"example.com/own".to_owned(), "system:node:b", ""),
    ] {
        let spec = json!({"request": csr_pem(name), "signerName": signer, "usages": ["client auth"]});
        let request = json!({"metadata": {"generateName": "csr-"}, "spec": spec});
        check(&router, &node(user), line, &request, expected).await;
    }
    let spec = json!({"request": "LS0tLS1CRUdJTg==", "signerName": client, "usages": ["client auth"]});
    let broken = json!({"metadata": {"generateName": "csr-"}, "spec": spec});
    let (code, answer) = send_request(&router, &node("kubelet:a"), line, &broken).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("unable to parse csr: "), "{answer}");
}
