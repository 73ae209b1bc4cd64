//! The objects that Pods refer to: ConfigMaps, Secrets, service-account tokens and the API Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccountTokenProjection};

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
    pub fn new(pod_uid: &str, asked: &ServiceAccountTokenProjection) -> Self {
        Self {
            pod_uid: pod_uid.to_owned(),
            audience: asked.audience.clone().unwrap_or_default(),
            seconds: asked.expiration_seconds.unwrap_or(TOKEN_SECONDS),
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

impl References {
    /// Returns the ConfigMap with the given name.
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns the Secret with the given name.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Arc<Secret>> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The tokens of a pod.
    pub fn tokens_of(&self, pod_uid: &str) -> impl Iterator<Item = &Arc<TokenRequest>> {
        let first = TokenKey { pod_uid: pod_uid.to_owned(), audience: String::new(), seconds: i64::MIN };
        let uid = first.pod_uid.clone();
        self.tokens.range(first..).take_while(move |(key, _)| key.pod_uid == uid).map(|(_, token)| token)
    }
}
