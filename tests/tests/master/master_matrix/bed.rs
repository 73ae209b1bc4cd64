//! A master that knows the public keys of its nodes, with one object of each kind for node `a`, for node `b`, and for
//! no node.

use std::collections::HashMap;

use apiserver::Identity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tests::Master;
use tests::certificates::Pair;

/// Namespace of the objects.
pub const NAMESPACE: &str = "shop";
/// Two nodes with clients, and one without.
pub const NODES: [&str; 3] = ["a", "b", "c"];
/// Resources whose objects belong to nodes.
pub const OWNED: [&str; 13] = [
    "nodes",
    "leases",
    "csinodes",
    "pods",
    "secrets",
    "configmaps",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "resourceclaims",
    "resourceslices",
    "volumeattachments",
    "certificatesigningrequests",
];

/// The node that owns the object with that name.
pub fn owner_of(name: &str) -> Option<&'static str> {
    match name {
        "a" | "of-a" => Some("a"),
        "b" | "of-b" => Some("b"),
        _ => None,
    }
}

/// The master and its administrator's client.
pub struct Bed {
    pub master: Master,
    admin: reqwest::Client,
    requests: Vec<(String, String)>,
    /// UIDs of nodes and pods, by name.
    uids: HashMap<String, String>,
}

impl Bed {
    /// A master with all objects of the matrix.
    pub async fn new() -> Self {
        // The Nodes get no taints of silent nodes, because an update of an older version would remove these.
        let mut master =
            Master::new().with_flags(["--node-admission=certificate", "--node-monitor-grace-period=1h"]);
        master.start().await;
        let admin = master.client();
        let mut bed = Self { master, admin, requests: NODES.map(request).to_vec(), uids: HashMap::new() };
        let within = format!("/api/v1/namespaces/{NAMESPACE}");
        bed.makes("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await;
        for node in NODES {
            let name = format!("of-{node}");
            let metadata = json!({"name": name});
            // The Node is trusted, whatever its keys are.
            let trusted = json!({"name": node, "annotations": {"coracle.io/trusted": "true"}});
            bed.makes("/api/v1/nodes", json!({"metadata": trusted})).await;
            let lease = json!({"metadata": {"name": node}, "spec": {"holderIdentity": node, "leaseDurationSeconds": 40}});
            bed.makes("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease).await;
            let csi = json!({"metadata": {"name": node}, "spec": {"drivers": []}});
            bed.makes("/apis/storage.k8s.io/v1/csinodes", csi).await;
            for kind in ["secrets", "configmaps", "serviceaccounts"] {
                bed.makes(&format!("{within}/{kind}"), json!({"metadata": metadata})).await;
            }
            let capacity = json!({"storage": "1Gi"});
            let claim = json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": capacity}, "volumeName": name,
                "storageClassName": "",
            });
            bed.makes(
                &format!("{within}/persistentvolumeclaims"),
                json!({"metadata": metadata, "spec": claim}),
            )
            .await;
            let volume = json!({
                "accessModes": ["ReadWriteOnce"], "capacity": capacity, "hostPath": {"path": "/x"},
                "claimRef": {"namespace": NAMESPACE, "name": name},
            });
            bed.makes("/api/v1/persistentvolumes", json!({"metadata": metadata, "spec": volume})).await;
            let attachment = json!({"attacher": "x.example.com", "nodeName": node, "source": {"persistentVolumeName": name}});
            let attachment = json!({"metadata": metadata, "spec": attachment});
            bed.makes("/apis/storage.k8s.io/v1/volumeattachments", attachment).await;
            let devices = json!({"metadata": metadata, "spec": {"devices": {}}});
            let path = format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims");
            bed.makes(&path, devices).await;
            bed.makes("/apis/resource.k8s.io/v1/resourceslices", slice(&name, node)).await;
            bed.makes(&format!("{within}/pods"), pod(node, &name)).await;
            for path in [format!("/api/v1/nodes/{node}"), format!("{within}/pods/{name}")] {
                let found = bed.get(&path).await;
                let text = |field: &str| found["metadata"][field].as_str().unwrap().to_owned();
                bed.uids.insert(text("name"), text("uid"));
            }
        }
        bed
    }

    /// Reads a path as administrator.
    pub async fn get(&self, path: &str) -> Value {
        let (code, text) = self.master.send_request(&self.admin, path).await.unwrap();
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn makes(&self, path: &str, object: Value) {
        let url = format!("https://127.0.0.1:{}{path}", self.master.port);
        let response = self.admin.post(&url).json(&object).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 201, "{path}: {}", response.text().await.unwrap());
    }

    /// Deletes an object.
    pub async fn deletes(&self, path: &str) {
        let url = format!("https://127.0.0.1:{}{path}", self.master.port);
        assert_eq!(self.admin.delete(&url).send().await.unwrap().status().as_u16(), 200, "{path}");
    }

    /// Records the public keys of these certificates in a Node, which is created if necessary.
    pub async fn is_known_by(&self, node: &str, pairs: &[&Pair]) {
        let key = |pair: &&Pair| {
            let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            Identity::of_certificate(&der).unwrap().key.unwrap()
        };
        let keys: Vec<String> = pairs.iter().map(key).collect();
        let annotations = json!({"coracle.io/public-keys": keys.join(",")});
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": annotations},
        });
        let name = node["metadata"]["name"].as_str().unwrap();
        let url = format!(
            "https://127.0.0.1:{}/api/v1/nodes/{name}?fieldManager=test&force=true",
            self.master.port
        );
        let request = self.admin.patch(&url).header("content-type", "application/apply-patch+yaml");
        let response = request.body(node.to_string()).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    }

    /// The current object, for an update; an empty object if there is none.
    pub async fn object(&self, path: &str) -> Value {
        let (code, text) = self.master.send_request(&self.admin, path).await.unwrap();
        let mut object: Value =
            if code == 200 { serde_json::from_str(&text).unwrap() } else { json!({"metadata": {}}) };
        // The test is about authorization, so avoid conflicts with other writers.
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object
    }

    /// A new object that only that node, or no node, may create.
    pub fn new_object(&self, plural: &str, name: &str) -> Option<Value> {
        let node = name.trim_start_matches("of-");
        match plural {
            "pods" if owner_of(name).is_none() => Some(pod("", "new")),
            "pods" => Some(json!({
                "metadata": {
                    "name": format!("new-{node}"),
                    "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Node", "name": node, "controller": true, "uid": self.uids[node],
                    }],
                },
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
            })),
            "resourceslices" => Some(slice("new", node)),
            "certificatesigningrequests" => {
                let (_, request) = self.requests.iter().find(|(of, _)| of == node)?;
                Some(json!({
                    "metadata": {"name": "new"},
                    "spec": {
                        "request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                        "usages": ["digital signature", "client auth"],
                    },
                }))
            }
            _ => None,
        }
    }

    /// Body for creating a subresource of an object.
    pub fn new_part(&self, plural: &str, part: &str, name: &str) -> Option<Value> {
        match (plural, part) {
            ("pods", "eviction") => Some(json!({"metadata": {"name": name}})),
            ("serviceaccounts", "token") => {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": self.uids[name]});
                Some(json!({"spec": {"audiences": [], "boundObjectRef": pod}}))
            }
            _ => None,
        }
    }
}

/// A pod of a node that references one object of each kind.
fn pod(node: &str, name: &str) -> Value {
    let mut spec = json!({
        "serviceAccountName": name, "containers": [{"name": "c", "image": "i"}],
        "volumes": [
            {"name": "s", "secret": {"secretName": name}}, {"name": "m", "configMap": {"name": name}},
            {"name": "v", "persistentVolumeClaim": {"claimName": name}},
        ],
        "resourceClaims": [{"name": "d", "resourceClaimName": name}],
    });
    // A pod of no node is unscheduled.
    if owner_of(node).is_some() {
        spec["nodeName"] = node.into();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn slice(name: &str, node: &str) -> Value {
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({"metadata": {"name": name}, "spec": {"driver": "x.example.com", "pool": pool, "nodeName": node}})
}

/// A node's certificate request in base64.
fn request(node: &str) -> (String, String) {
    use base64::Engine as _;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{node}"));
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    (node.to_owned(), base64::engine::general_purpose::STANDARD.encode(pem))
}
