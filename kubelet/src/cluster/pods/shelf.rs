//! What pods of the master refer to, as the API has it: ConfigMaps, Secrets, their tokens, and the Service of the API. Pure.
//!
//! One that goes is kept until the server has shown that it knows this node, and for good where it was restored since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::auth::nodes::{Kind, Object};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde::Deserialize as _;
use serde_json::Value;

use super::line;
use super::tokens::Tokens;
use crate::cluster::follow::Told;
use crate::desired::Held;
use crate::identity::Trouble;
use crate::observed::PodUid;

/// The Service by which pods find the API: its namespace and its name.
pub const API_SERVICE: (&str, &str) = ("default", "kubernetes");

/// One that is followed.
#[derive(Debug, Default)]
struct Followed {
    held: Option<Held>,
    is_answered: bool,
    /// It is gone by what was heard, which is not confirmed yet.
    is_gone: bool,
    /// The newest version that was seen of it.
    version: Option<u64>,
    /// Why there is no answer, as far as somebody has said so.
    trouble: Option<Trouble>,
}

impl Followed {
    fn is_known(&self) -> bool {
        self.is_answered || self.held.is_some()
    }
}

/// What a pod refers to and nobody has told of yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// Where the API is.
    ApiService,
    /// One that it names, and why, where that is known.
    Object(Object, Option<Trouble>),
    /// A token of its account.
    Token,
}

/// All that are followed.
#[derive(Debug, Default)]
pub struct Shelf {
    followed: BTreeMap<Object, Followed>,
    /// What it was last: pods that run know it by that anyway.
    api_service: Followed,
    /// Tokens of service accounts.
    pub tokens: Tokens,
}

/// The name by which one is asked for.
pub fn name(held: &Held) -> Option<Object> {
    let kind = match held {
        Held::ConfigMap(_) => Kind::ConfigMap,
        Held::Secret(_) => Kind::Secret,
        Held::Pod(_) | Held::Token(_) | Held::ApiService(_) => return None,
    };
    let name = held.object_name();
    Some(Object::new(kind, &name.namespace, &name.name))
}

/// Reads one; why it is none, as the end of a sentence that begins with it.
pub fn read(object: &Object, value: Value) -> Result<Held, String> {
    let why = |error: serde_json::Error| format!("does not read: {error}");
    match object.kind {
        Kind::ConfigMap => {
            let mut map = ConfigMap::deserialize(value).map_err(why)?;
            map.metadata.managed_fields = None;
            Ok(Held::ConfigMap(Arc::new(map)))
        }
        Kind::Secret => {
            let mut secret = Secret::deserialize(value).map_err(why)?;
            secret.metadata.managed_fields = None;
            Ok(Held::Secret(Arc::new(secret)))
        }
        Kind::Pod
        | Kind::Claim
        | Kind::Volume
        | Kind::ServiceAccount
        | Kind::ResourceClaim
        | Kind::Attachment
        | Kind::Slice => Err("is nothing that is followed".to_owned()),
    }
}

impl Shelf {
    /// What an earlier kubelet held.
    pub fn restore(&mut self, all: Vec<Held>) {
        let mut tokens = Vec::new();
        for held in all {
            if let Held::Token(token) = held {
                tokens.push(token);
            } else if let Held::ApiService(_) = held {
                self.api_service.held = Some(held);
            } else if let Some(object) = name(&held) {
                let version = held.metadata().resource_version.as_ref().and_then(|text| text.parse().ok());
                let followed = Followed { held: Some(held), version, ..Followed::default() };
                self.followed.insert(object, followed);
            }
        }
        self.tokens.restore(tokens.into_iter());
    }

    /// Follows these and no others.
    pub fn follow(&mut self, wanted: &BTreeSet<Object>) {
        self.followed.retain(|object, _| wanted.contains(object));
        for object in wanted {
            self.followed.entry(object.clone()).or_default();
        }
    }

    /// Takes what was heard of one.
    ///
    /// # Errors
    /// Why it does not read; what was held before stays.
    pub fn hear(&mut self, object: &Object, told: Told<Value>) -> Result<(), String> {
        let Some(followed) = self.followed.get_mut(object) else { return Ok(()) };
        followed.is_answered = true;
        let is_it = |value: &Value| {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            text("/metadata/name") == &*object.name && text("/metadata/namespace") == &*object.namespace
        };
        let found = match told {
            Told::All(values, version) => {
                let found = values.into_iter().find(is_it);
                let now = version.parse().ok();
                followed.is_gone =
                    found.is_none() && followed.held.is_some() && !line::is_restored(followed.version, now);
                followed.version = now;
                found
            }
            Told::Put(value) => Some(value).filter(is_it),
            Told::Gone(value) => {
                followed.is_gone |= is_it(&value) && followed.held.is_some();
                None
            }
        };
        if let Some(value) = found {
            followed.is_gone = false;
            followed.version = followed.version.max(line::version(&value));
            let held = read(object, value)?;
            if followed.held.as_ref() != Some(&held) {
                followed.held = Some(held);
            }
        }
        Ok(())
    }

    /// Takes what was heard of the Service of the API.
    ///
    /// # Errors
    /// Why it does not read; what was held before stays.
    pub fn hear_api_service(&mut self, told: Told<Value>) -> Result<(), String> {
        self.api_service.is_answered = true;
        let found = match told {
            Told::All(values, _) => values.into_iter().next(),
            Told::Put(value) => Some(value),
            Told::Gone(_) => None,
        };
        let Some(value) = found else { return Ok(()) };
        let mut service = Service::deserialize(value).map_err(|error| format!("does not read: {error}"))?;
        let metadata = &mut service.metadata;
        (metadata.managed_fields, metadata.resource_version) = (None, None);
        let is_same = matches!(&self.api_service.held, Some(Held::ApiService(held)) if **held == service);
        if !is_same {
            self.api_service.held = Some(Held::ApiService(Arc::new(service)));
        }
        Ok(())
    }

    /// The server does not show it to this node.
    pub fn refused_api_service(&mut self) {
        self.api_service.is_answered = true;
    }

    /// The server does not say whether there is one.
    pub fn troubled(&mut self, object: &Object, trouble: &Trouble) {
        if let Some(followed) = self.followed.get_mut(object) {
            followed.trouble = Some(trouble.clone());
        }
    }

    /// The server does not give it out: it was looked for, all the same.
    pub fn refused(&mut self, object: &Object) {
        if let Some(followed) = self.followed.get_mut(object) {
            followed.is_answered = true;
        }
    }

    /// Whether something is gone that nobody has confirmed.
    pub fn is_in_doubt(&self) -> bool {
        self.followed.values().any(|followed| followed.is_gone)
    }

    /// The server knows this node: what is gone is gone, but for what pods need of which it has lost track.
    pub fn confirm(&mut self, needed: &BTreeSet<Object>) {
        for (object, followed) in &mut self.followed {
            if std::mem::take(&mut followed.is_gone) && !needed.contains(object) {
                followed.held = None;
            }
        }
    }

    /// What of all that a pod refers to, these among it, has not been looked for and is not held.
    pub fn missing(&self, uid: &PodUid, named: &BTreeSet<Object>) -> Vec<Missing> {
        let of = |object: &Object| match self.followed.get(object) {
            Some(followed) if followed.is_known() => None,
            found => Some(Missing::Object(object.clone(), found.and_then(|one| one.trouble.clone()))),
        };
        let token = (!self.tokens.has_answered(uid)).then_some(Missing::Token);
        let service = (!self.api_service.is_known()).then_some(Missing::ApiService);
        named.iter().filter_map(of).chain(token).chain(service).collect()
    }

    /// All that are there.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        let followed = self.followed.values().chain([&self.api_service]);
        followed.filter_map(|followed| followed.held.as_ref()).chain(self.tokens.held())
    }
}
