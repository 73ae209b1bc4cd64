//! The objects that Pods refer to: ConfigMaps, Secrets, service-account tokens, claims and the API Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, Secret, Service, ServiceAccountTokenProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Default lifetime of a token in seconds, as in the API.
const TOKEN_SECONDS: i64 = 3600;

/// The shared objects that Pods refer to. Clones are cheap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    /// ConfigMaps by namespace and name.
    pub config_maps: BTreeMap<(String, String), Arc<ConfigMap>>,
    /// Secrets by namespace and name.
    pub secrets: BTreeMap<(String, String), Arc<Secret>>,
    /// Service-account tokens by pod, audience and lifetime.
    pub tokens: BTreeMap<TokenKey, Arc<TokenRequest>>,
    /// PersistentVolumeClaims of pods, with their volumes.
    pub claims: BTreeMap<ClaimKey, Arc<PodClaim>>,
    /// Services of this node by namespace and name.
    pub services: BTreeMap<(String, String), Arc<Service>>,
    /// The Service of the API server.
    pub api_service: Option<Arc<Service>>,
}

/// The key of a service-account token. Volumes of a pod with equal requests share one token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenKey {
    /// UID of the pod that the token is bound to.
    pub pod_uid: String,
    /// The audience; empty for the API server.
    pub audience: String,
    /// The requested lifetime in seconds.
    pub seconds: i64,
}

impl TokenKey {
    /// The key of the token that a volume of the pod requests.
    pub fn new(pod_uid: &str, projection: &ServiceAccountTokenProjection) -> Self {
        Self {
            pod_uid: pod_uid.to_owned(),
            audience: projection.audience.clone().unwrap_or_default(),
            seconds: projection.expiration_seconds.unwrap_or(TOKEN_SECONDS),
        }
    }

    /// The key of a TokenRequest.
    pub fn of(request: &TokenRequest) -> Self {
        let spec = request.spec.as_ref();
        let bound = spec.and_then(|spec| spec.bound_object_ref.as_ref());
        let audience = spec.and_then(|spec| spec.audiences.iter().flatten().next());
        Self {
            pod_uid: bound.and_then(|bound| bound.uid.clone()).unwrap_or_default(),
            audience: audience.cloned().unwrap_or_default(),
            seconds: spec.and_then(|spec| spec.expiration_seconds).unwrap_or(TOKEN_SECONDS),
        }
    }
}

/// The key of a claim as one pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimKey {
    /// The UID of the pod.
    pub pod_uid: String,
    /// The name of the claim in the namespace of the pod.
    pub claim: String,
}

/// A PersistentVolumeClaim as one pod uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodClaim {
    /// Namespace and name of the claim.
    pub metadata: ObjectMeta,
    /// The pod and the name of the claim.
    pub key: ClaimKey,
    /// Whether the pod can use the claim.
    pub state: ClaimState,
}

/// Whether a pod can use its claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClaimState {
    /// The claim is bound to this volume.
    Bound(Box<PersistentVolume>),
    /// The pod cannot use the claim yet, for this reason.
    Waiting(String),
}

impl References {
    /// Returns the ConfigMap with the given name.
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns the Secret with the given name.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Arc<Secret>> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The claims of a pod.
    pub fn claims_of(&self, pod_uid: &str) -> impl Iterator<Item = &Arc<PodClaim>> {
        let first = ClaimKey { pod_uid: pod_uid.to_owned(), claim: String::new() };
        let uid = first.pod_uid.clone();
        self.claims.range(first..).take_while(move |(key, _)| key.pod_uid == uid).map(|(_, claim)| claim)
    }

    /// The tokens of a pod.
    pub fn tokens_of(&self, pod_uid: &str) -> impl Iterator<Item = &Arc<TokenRequest>> {
        let first = TokenKey { pod_uid: pod_uid.to_owned(), audience: String::new(), seconds: i64::MIN };
        let uid = first.pod_uid.clone();
        self.tokens.range(first..).take_while(move |(key, _)| key.pod_uid == uid).map(|(_, token)| token)
    }
}
