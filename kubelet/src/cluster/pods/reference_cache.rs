//! Cache of the objects that assigned pods reference: ConfigMaps, Secrets, service-account tokens, claims and the API
//! Service. Pure.
//!
//! A deleted object is kept until the server has shown that it knows this node. If the server was restored, the
//! object is never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::auth::nodes::{Kind, Object};
use client::Delta;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde::Deserialize as _;
use serde_json::Value;

use super::claim_cache::ClaimCache;
use super::server_pod;
use super::token_cache::TokenCache;
use crate::desired::SourceObject;
use crate::identity::ApiError;
use crate::observed::PodUid;

/// Namespace and name of the Service through which pods find the API server.
pub const API_SERVICE: (&str, &str) = ("default", "kubernetes");

/// A watched object.
#[derive(Debug, Default)]
struct Watched {
    held: Option<SourceObject>,
    is_answered: bool,
    /// Whether the watch reported a deletion that is not confirmed yet.
    is_deleted: bool,
    /// The newest `resourceVersion` that was seen.
    version: Option<u64>,
    /// The last error of the object's watch.
    error: Option<ApiError>,
}

impl Watched {
    fn is_known(&self) -> bool {
        self.is_answered || self.held.is_some()
    }
}

/// A referenced object that has not been looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// The Service `default/kubernetes`.
    ApiService,
    /// A ConfigMap or Secret, and the last error if there was one.
    Object(Object, Option<ApiError>),
    /// A token of the pod's service account.
    Token,
    /// A PersistentVolumeClaim, by name, and the last error if there was one.
    Claim(String, Option<ApiError>),
}

#[derive(Debug, Default)]
pub struct ReferenceCache {
    watched: BTreeMap<Object, Watched>,
    /// The Service `default/kubernetes`. Its last state is kept even if it is deleted, because running pods use it
    /// anyway.
    api_service: Watched,
    /// Service-account tokens.
    pub tokens: TokenCache,
    /// PersistentVolumeClaims.
    pub claims: ClaimCache,
}

/// The key of a ConfigMap or Secret. `None` for other objects.
pub fn name(held: &SourceObject) -> Option<Object> {
    let kind = match held {
        SourceObject::ConfigMap(_) => Kind::ConfigMap,
        SourceObject::Secret(_) => Kind::Secret,
        SourceObject::Pod(_)
        | SourceObject::Token(_)
        | SourceObject::Claim(_)
        | SourceObject::Service(_)
        | SourceObject::ApiService(_) => return None,
    };
    let name = held.object_name();
    Some(Object::new(kind, &name.namespace, &name.name))
}

/// Parses a ConfigMap or Secret.
///
/// # Errors
/// If the object is invalid. The error starts with a verb, so that the caller can prepend the name of the object.
pub fn read(object: &Object, value: Value) -> Result<SourceObject, String> {
    let why = |error: serde_json::Error| format!("does not read: {error}");
    match object.kind {
        Kind::ConfigMap => {
            let mut map = ConfigMap::deserialize(value).map_err(why)?;
            map.metadata.managed_fields = None;
            Ok(SourceObject::ConfigMap(Arc::new(map)))
        }
        Kind::Secret => {
            let mut secret = Secret::deserialize(value).map_err(why)?;
            secret.metadata.managed_fields = None;
            Ok(SourceObject::Secret(Arc::new(secret)))
        }
        Kind::Pod
        | Kind::Claim
        | Kind::Volume
        | Kind::ServiceAccount
        | Kind::ResourceClaim
        | Kind::Attachment
        | Kind::Slice
        | Kind::Policy => Err("has a kind that pods do not reference".to_owned()),
    }
}

impl ReferenceCache {
    /// Restores the objects from the checkpoint.
    pub fn restore(&mut self, all: Vec<SourceObject>) {
        let mut tokens = Vec::new();
        for held in all {
            if let SourceObject::Token(token) = held {
                tokens.push(token);
            } else if let SourceObject::Claim(claim) = held {
                self.claims.restore(claim);
            } else if let SourceObject::ApiService(_) = held {
                self.api_service.held = Some(held);
            } else if let Some(object) = name(&held) {
                let version = held.metadata().resource_version.as_ref().and_then(|text| text.parse().ok());
                let watched = Watched { held: Some(held), version, ..Watched::default() };
                self.watched.insert(object, watched);
            }
        }
        self.tokens.restore(tokens.into_iter());
    }

    /// Sets the objects to watch, and drops all others.
    pub fn set_watched(&mut self, wanted: &BTreeSet<Object>) {
        self.watched.retain(|object, _| wanted.contains(object));
        for object in wanted {
            self.watched.entry(object.clone()).or_default();
        }
    }

    /// Applies a delta of one object's watch.
    ///
    /// # Errors
    /// If the object cannot be parsed. The cached one then stays.
    pub fn apply(&mut self, object: &Object, delta: Delta<Value>) -> Result<(), String> {
        let Some(watched) = self.watched.get_mut(object) else { return Ok(()) };
        watched.is_answered = true;
        let is_it = |value: &Value| {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            text("/metadata/name") == &*object.name && text("/metadata/namespace") == &*object.namespace
        };
        let found = match delta {
            Delta::Replaced(values, version) => {
                let found = values.into_iter().find(is_it);
                let now = version.parse().ok();
                watched.is_deleted = found.is_none()
                    && watched.held.is_some()
                    && !server_pod::is_restored(watched.version, now);
                watched.version = now;
                found
            }
            Delta::Applied(value) => Some(value).filter(is_it),
            Delta::Deleted(value) => {
                watched.is_deleted |= is_it(&value) && watched.held.is_some();
                None
            }
        };
        if let Some(value) = found {
            watched.is_deleted = false;
            watched.version = watched.version.max(server_pod::version(&value));
            let held = read(object, value)?;
            if watched.held.as_ref() != Some(&held) {
                watched.held = Some(held);
            }
        }
        Ok(())
    }

    /// Applies a change of the Service `default/kubernetes`.
    ///
    /// # Errors
    /// If the Service cannot be parsed. The cached one then stays.
    pub fn apply_api_service(&mut self, delta: Delta<Value>) -> Result<(), String> {
        self.api_service.is_answered = true;
        let found = match delta {
            Delta::Replaced(values, _) => values.into_iter().next(),
            Delta::Applied(value) => Some(value),
            Delta::Deleted(_) => None,
        };
        let Some(value) = found else { return Ok(()) };
        let mut service = Service::deserialize(value).map_err(|error| format!("does not read: {error}"))?;
        let metadata = &mut service.metadata;
        (metadata.managed_fields, metadata.resource_version) = (None, None);
        let is_same =
            matches!(&self.api_service.held, Some(SourceObject::ApiService(held)) if **held == service);
        if !is_same {
            self.api_service.held = Some(SourceObject::ApiService(Arc::new(service)));
        }
        Ok(())
    }

    /// Records that this node may not read the API Service.
    pub fn mark_api_service_refused(&mut self) {
        self.api_service.is_answered = true;
    }

    /// Records an error of the object's watch.
    pub fn on_error(&mut self, object: &Object, error: &ApiError) {
        if let Some(watched) = self.watched.get_mut(object) {
            watched.error = Some(error.clone());
        }
    }

    /// Records that the API server refused the object. It counts as looked up.
    pub fn refused(&mut self, object: &Object) {
        if let Some(watched) = self.watched.get_mut(object) {
            watched.is_answered = true;
        }
    }

    /// Whether a deletion is not confirmed yet.
    pub fn is_unconfirmed(&self) -> bool {
        self.watched.values().any(|watched| watched.is_deleted)
    }

    /// Carries out the deletions that waited until the server had confirmed this node. Objects in `needed` are
    /// kept.
    pub fn confirm(&mut self, needed: &BTreeSet<Object>) {
        for (object, watched) in &mut self.watched {
            if std::mem::take(&mut watched.is_deleted) && !needed.contains(object) {
                watched.held = None;
            }
        }
    }

    /// The references of a pod that were not looked up and are not cached. `named` are its ConfigMaps and Secrets.
    pub fn missing(&self, uid: &PodUid, named: &BTreeSet<Object>) -> Vec<Missing> {
        let of = |object: &Object| match self.watched.get(object) {
            Some(watched) if watched.is_known() => None,
            found => Some(Missing::Object(object.clone(), found.and_then(|one| one.error.clone()))),
        };
        let token = (!self.tokens.has_answered(uid)).then_some(Missing::Token);
        let service = (!self.api_service.is_known()).then_some(Missing::ApiService);
        named.iter().filter_map(of).chain(token).chain(self.claims.missing(uid)).chain(service).collect()
    }

    /// All cached objects.
    pub fn held(&self) -> impl Iterator<Item = &SourceObject> {
        let watched = self.watched.values().chain([&self.api_service]);
        watched
            .filter_map(|watched| watched.held.as_ref())
            .chain(self.tokens.held())
            .chain(self.claims.held())
    }
}
