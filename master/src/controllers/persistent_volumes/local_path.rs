//! The built-in provisioner `coracle.io/local-path`: volumes that are directories of a node.
//!
//! A kubelet of this project announces the directory for these volumes in an annotation of its Node. It creates the
//! directory of a volume when a pod mounts it, and removes it when the master requests that.

use client::{Json, percent_encoded};
use serde_json::{Value, json};

use super::{BOUND_BY_CONTROLLER, VOLUME_PROTECTION};
use crate::controllers::object::Object;
use crate::objects::volume::{PersistentVolumeClaim, StorageClass};

/// The name of the provisioner.
pub const PROVISIONER: &str = "coracle.io/local-path";
/// The name of the storage class that the master creates once.
pub const CLASS_NAME: &str = "local-path";
/// The annotation of a Node with the directory of its `local-path` volumes.
pub const DIRECTORY: &str = "kubelet.coracle.io/local-path-directory";
/// The annotation of a volume with the name of its node.
pub const NODE: &str = "coracle.io/local-path-node";
/// The annotation of the namespace `kube-system` that records that the storage class was created. A user may delete
/// the class, and it is not created again.
pub const CLASS_CREATED: &str = "coracle.io/local-path-class-created";
/// The finalizer of a provisioned volume. It stays until the data is deleted.
pub const FINALIZER: &str = "kubernetes.io/pv-controller";
/// The label by which the volume is tied to its node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The name of the volume for a claim, as stock provisioners name it.
pub fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// The volume for a claim on a node. The capacity is not enforced.
///
/// # Errors
/// If the node cannot have such volumes. The error is the message of an event.
pub fn volume(claim: &PersistentVolumeClaim, class: &StorageClass, node: &Object) -> Result<Value, String> {
    let annotations = &node.node().metadata.annotations;
    let directory = annotations.get(DIRECTORY).filter(|path| path.starts_with('/')).ok_or_else(|| {
        format!(
            "the node \"{}\" has no directory for local-path volumes: its kubelet does not announce one",
            node.name
        )
    })?;
    let hostname = node.label(HOSTNAME);
    if hostname.is_empty() {
        return Err(format!("the node \"{}\" has no label {HOSTNAME}", node.name));
    }
    let metadata = &claim.metadata;
    let name = volume_name(&metadata.uid);
    let policy = if class.reclaim_policy.is_empty() { "Delete" } else { &*class.reclaim_policy };
    let terms = json!([{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [hostname]}]}]);
    let modes: Vec<&str> = claim.spec.access_modes.iter().map(|mode| &**mode).collect();
    Ok(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {
                BOUND_BY_CONTROLLER: "yes", "pv.kubernetes.io/provisioned-by": PROVISIONER, NODE: node.name,
            },
            "finalizers": [VOLUME_PROTECTION, FINALIZER],
        },
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": claim.requested().to_text()},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace, "name": metadata.name,
                "uid": metadata.uid,
            },
            "local": {"path": format!("{}/{name}", directory.trim_end_matches('/'))},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": claim.class(),
            "volumeMode": "Filesystem",
        },
    }))
}

/// The storage class. It is the default class unless another class is.
pub fn class(is_default: bool) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    if is_default {
        class["metadata"]["annotations"] = json!({StorageClass::IS_DEFAULT[0]: "true"});
    }
    class
}

/// The name of a provisioned volume's node.
pub fn node_of(volume: &Json) -> Option<&str> {
    volume.get("metadata")?.get("annotations")?.get(NODE)?.as_str()
}

/// The path at the API server through which it asks the kubelet of a node to delete the data of a volume.
/// Both names are encoded, because users may write the annotation.
pub fn data_path(node: &str, volume: &str) -> String {
    let [node, volume] = [node, volume].map(percent_encoded);
    format!("/api/v1/nodes/{node}/proxy/localVolumes/{volume}")
}
