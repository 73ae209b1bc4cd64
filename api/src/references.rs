//! What Pods of a node may refer to: ConfigMaps and Secrets, and of a master tokens and where its API is.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccountTokenProjection};

/// The life of a token of which a volume says none, in seconds; the API's default.
const TOKEN_SECONDS: i64 = 3600;

/// Shared, immutable data by `(namespace, name)`; cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    /// ConfigMaps by namespace and name.
    pub config_maps: BTreeMap<(String, String), Arc<ConfigMap>>,
    /// Secrets by namespace and name.
    pub secrets: BTreeMap<(String, String), Arc<Secret>>,
    /// Tokens of service accounts, by the pod that each is for and what it asked for.
    pub tokens: BTreeMap<TokenKey, Arc<TokenRequest>>,
    /// The Service by which pods find the API.
    pub api_service: Option<Arc<Service>>,
}

/// A token that a pod asks for. One pod may ask for several, and two volumes that ask for the same share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenKey {
    /// The UID of the pod.
    pub pod_uid: String,
    /// For whom; empty for the API server.
    pub audience: String,
    /// How long it is to live, in seconds.
    pub seconds: i64,
}

impl TokenKey {
    /// What a volume of that pod asks for.
    pub fn new(pod_uid: &str, asked: &ServiceAccountTokenProjection) -> Self {
        Self {
            pod_uid: pod_uid.to_owned(),
            audience: asked.audience.clone().unwrap_or_default(),
            seconds: asked.expiration_seconds.unwrap_or(TOKEN_SECONDS),
        }
    }

    /// What a request asks for.
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
    /// The ConfigMap of that name, if any local source holds it.
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The Secret of that name, if any local source holds it.
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
