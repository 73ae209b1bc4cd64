//! Writes the bindings of claims before their pod is bound: the reference of a volume to its claim, or the node for
//! which a provisioner creates a volume. The PV controller does the rest.

use serde_json::json;

use super::volumes::{ClaimBinding, ClaimTarget};
use crate::controllers::{BOUND_BY_CONTROLLER, CLAIM, Client, Error, SELECTED_NODE, VOLUME};

/// Writes the bindings of one pod.
///
/// # Errors
/// If a claim or a volume has changed since, or the API server does not answer. The pod is scheduled again.
pub(super) async fn write(client: &Client, bindings: &[ClaimBinding]) -> Result<(), Error> {
    for binding in bindings {
        let (namespace, name) = &binding.claim;
        match &binding.target {
            ClaimTarget::Volume { name: volume, resource_version } => {
                let patch = json!({
                    "metadata": {"resourceVersion": resource_version, "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                    "spec": {"claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
                        "uid": binding.claim_uid,
                    }},
                });
                client.patch(&VOLUME, "", volume, patch).await?;
            }
            ClaimTarget::Provision => {
                let metadata =
                    json!({"uid": binding.claim_uid, "annotations": {SELECTED_NODE: binding.node}});
                client.patch(&CLAIM, namespace, name, json!({"metadata": metadata})).await?;
            }
            ClaimTarget::Started => {}
        }
    }
    Ok(())
}

/// The message of the event and the condition if the claims of a pod cannot be bound.
pub(super) fn failure(why: &str) -> String {
    format!("running PreBind plugin \"VolumeBinding\": binding volumes: {why}")
}
