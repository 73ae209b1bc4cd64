//! Claim manager: reads the PersistentVolumeClaims of pods and their volumes, one after the other, until they are bound.

use std::sync::Arc;

use api::references::ClaimState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::Shared;
use super::claim_cache::{ClaimCall, check_node, state, volume_of};
use super::due_calls::{DueCalls, send_due_calls};
use crate::cluster::backoff::may_be_request_error;
use crate::identity::{Api, ApiError};

/// The task that reads claims.
pub(super) struct ClaimManager {
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// The name of this node.
    pub node: String,
}

impl ClaimManager {
    /// Reads claims until the kubelet stops.
    pub async fn run(self) {
        send_due_calls(&self, self.apis.clone(), self.shared.changed.subscribe()).await;
    }
}

impl DueCalls for ClaimManager {
    type Call = ClaimCall;

    fn next(&self, now: Timestamp) -> Result<ClaimCall, Option<Timestamp>> {
        self.shared.lock().reference_cache.claims.next(now)
    }

    /// Reads one claim.
    async fn send(&self, api: &Api, call: &ClaimCall) -> Result<(), ApiError> {
        let found = match resolve(api, call, &self.node).await {
            Ok(found) => found,
            // The node authorizer may not know yet that a pod of this node uses the claim.
            Err(error) if may_be_request_error(&error) => {
                let name = &call.key.claim;
                ClaimState::Waiting(format!("cannot read the persistentvolumeclaim \"{name}\": {error}"))
            }
            Err(error) => {
                self.shared.lock().reference_cache.claims.on_error(&call.key, &error);
                return Err(error);
            }
        };
        let is_new = self.shared.lock().reference_cache.claims.on_read(&call.key, found, Timestamp::now());
        if is_new {
            self.shared.changed.send_replace(());
        }
        Ok(())
    }
}

/// Reads a claim and its volume, and the labels of the node if the volume belongs to certain nodes.
async fn resolve(api: &Api, call: &ClaimCall, node: &str) -> Result<ClaimState, ApiError> {
    let (namespace, name) = (&call.namespace, &call.key.claim);
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
    let Some(claim) = get::<PersistentVolumeClaim>(api, &path).await? else {
        return Ok(ClaimState::Waiting(format!("persistentvolumeclaim \"{name}\" not found")));
    };
    let volume = match claim.as_ref().map_err(String::clone).and_then(volume_of) {
        Ok(volume) => volume.to_owned(),
        Err(why) => return Ok(ClaimState::Waiting(why)),
    };
    let path = format!("/api/v1/persistentvolumes/{volume}");
    let found = get::<PersistentVolume>(api, &path).await?;
    Ok(match (claim, found) {
        (Ok(claim), Some(Ok(volume))) => match state(&claim, volume) {
            ClaimState::Bound(volume)
                if volume.spec.as_ref().is_some_and(|spec| spec.node_affinity.is_some()) =>
            {
                match get::<Node>(api, &format!("/api/v1/nodes/{node}")).await? {
                    Some(Ok(node)) => check_node(volume, &node),
                    Some(Err(why)) => ClaimState::Waiting(why),
                    None => ClaimState::Waiting(format!("node \"{node}\" not found")),
                }
            }
            state => state,
        },
        (_, None) => ClaimState::Waiting(format!("persistentvolume \"{volume}\" not found")),
        (Err(why), _) | (_, Some(Err(why))) => ClaimState::Waiting(why),
    })
}

/// Reads an object: `None` if it does not exist, and an error text if it cannot be parsed.
async fn get<T: DeserializeOwned>(api: &Api, path: &str) -> Result<Option<Result<T, String>>, ApiError> {
    match api.get(path).await {
        Ok(found) => {
            let read = serde_json::from_value(found);
            Ok(Some(read.map_err(|error| format!("the object {path} does not read: {error}"))))
        }
        Err(error) if error.has_code(404) => Ok(None),
        Err(error) => Err(error),
    }
}
