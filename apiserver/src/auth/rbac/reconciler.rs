//! Reconciles the bootstrap RBAC policy and the rules of aggregated cluster roles.
//!
//! Pure functions plan the writes. The reconciler sends them through the API as a client would.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::future::join_all;
use http::{Method, Request};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

use super::aggregate::{is_aggregated, outdated};
use super::index::{RBAC, text};
use super::rule::{self, Rule};
use super::{Kind, bootstrap_policy};
use crate::identity::Identity;
use crate::watch_cache::{Scope, WatchCache};

/// Maximum size in bytes of an error response that is read.
const MAX_BYTES: usize = 64 * 1024;
/// Delay before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Plural name, namespace and name of a role or binding.
type Place = (&'static str, String, String);
/// Roles and bindings by kind, namespace and name.
type Objects = BTreeMap<Place, Map<String, Value>>;

/// A planned write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object does not exist.
    Create(Kind, Map<String, Value>),
    /// The object lacks labels, annotations, rules or subjects.
    Update(Kind, Map<String, Value>),
    /// The binding refers to another role. `roleRef` is immutable, so the binding is deleted and created.
    Replace(Kind, Map<String, Value>),
}

/// Carries out the planned writes through the API.
#[derive(Clone, Debug)]
pub struct RbacReconciler {
    api: Router,
    store: WatchCache,
}

impl RbacReconciler {
    /// Creates a reconciler that reads the watch cache and writes through the API.
    pub fn new(api: Router, store: WatchCache) -> Self {
        Self { api, store }
    }

    /// Reconciles the bootstrap roles and bindings once.
    ///
    /// # Errors
    /// If a write fails. The error is the API error of the first one.
    pub async fn reconcile_bootstrap_policy(&self) -> Result<(), String> {
        let mut existing = Objects::new();
        for kind in Kind::ALL {
            for object in self.store.list(&kind.qualified(), &Scope::All).objects {
                let place = (kind.plural(), object.namespace().to_owned(), object.name().to_owned());
                existing.insert(place, object.decode());
            }
        }
        let (roles, bindings): (Vec<_>, Vec<_>) = plan(existing).into_iter().partition(Change::is_of_role);
        // Roles first, so that bindings refer to existing roles.
        for changes in [roles, bindings] {
            join_all(changes.iter().map(|change| self.apply(change)))
                .await
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Reconciles aggregated cluster roles until the future is dropped.
    pub async fn run_aggregation(self) {
        let resource = Kind::ClusterRole.qualified();
        loop {
            let listing = self.store.list(&resource, &Scope::All);
            let roles: Vec<_> = listing.objects.iter().map(|object| object.decode()).collect();
            let mut changes = Vec::new();
            for (name, rules) in outdated(&roles) {
                let role = roles.iter().find(|role| text(role, "name") == name);
                changes.extend(
                    role.map(|role| Change::Update(Kind::ClusterRole, with_rules(role.clone(), &rules))),
                );
            }
            let written = join_all(changes.iter().map(|change| self.apply(change))).await;
            if let Some(error) = written.into_iter().find_map(Result::err) {
                tracing::warn!(error, "cannot update an aggregated cluster role; retrying");
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
            // The writes above wake this watch once more, without effect.
            match self.store.watch(&resource, Scope::All, listing.revision) {
                // Every change, and a watch that fell behind, triggers a full pass.
                Ok(mut watcher) => drop(watcher.next().await),
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    async fn apply(&self, change: &Change) -> Result<(), String> {
        match change {
            Change::Create(kind, object) => self.send(Method::POST, *kind, object).await,
            Change::Update(kind, object) => self.send(Method::PUT, *kind, object).await,
            Change::Replace(kind, object) => {
                self.send(Method::DELETE, *kind, object).await?;
                self.send(Method::POST, *kind, object).await
            }
        }
    }

    async fn send(&self, method: Method, kind: Kind, object: &Map<String, Value>) -> Result<(), String> {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        let namespace = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        let name_part = if method == Method::POST { String::new() } else { format!("/{name}") };
        let path = format!("/apis/{RBAC}/v1/{namespace}{}{name_part}?fieldManager=master", kind.plural());
        let body = if method == Method::DELETE {
            Body::empty()
        } else {
            Body::from(serde_json::to_vec(object).unwrap_or_default())
        };
        let failed = |why: String| format!("cannot write {} {name:?}: {why}", kind.qualified());
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let mut request = request.body(body).map_err(|error| failed(error.to_string()))?;
        request.extensions_mut().insert(Identity::server());
        let response = match self.api.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.status().is_success() {
            return Ok(());
        }
        let bytes = to_bytes(response.into_body(), MAX_BYTES).await.unwrap_or_default();
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(failed(status["message"].as_str().unwrap_or("no message").to_owned()))
    }
}

impl Change {
    fn is_of_role(&self) -> bool {
        let (Self::Create(kind, _) | Self::Update(kind, _) | Self::Replace(kind, _)) = self;
        kind.is_role()
    }
}

/// Returns the writes that create all bootstrap roles and bindings and update aggregated roles.
pub fn plan(mut existing: Objects) -> Vec<Change> {
    let mut changes = BTreeMap::new();
    for (kind, wanted) in bootstrap_policy::objects() {
        let place = (kind.plural(), text(&wanted, "namespace").to_owned(), text(&wanted, "name").to_owned());
        let change = match existing.get(&place) {
            None => Some(Change::Create(kind, wanted)),
            Some(found) if is_protected(found) => None,
            Some(found) if found.get("roleRef") != wanted.get("roleRef") => {
                Some(Change::Replace(kind, wanted))
            }
            Some(found) => reconciled(found, &wanted).map(|object| Change::Update(kind, object)),
        };
        if let Some(change) = change {
            let (Change::Create(_, object) | Change::Update(_, object) | Change::Replace(_, object)) =
                &change;
            existing.insert(place.clone(), object.clone());
            changes.insert(place, change);
        }
    }
    let of_cluster = |place: &Place| place.0 == Kind::ClusterRole.plural();
    let roles: Vec<_> =
        existing.iter().filter(|(place, _)| of_cluster(place)).map(|(_, role)| role.clone()).collect();
    for (name, rules) in outdated(&roles) {
        let place = (Kind::ClusterRole.plural(), String::new(), name);
        let Some(role) = existing.get(&place) else { continue };
        let role = with_rules(role.clone(), &rules);
        let change = match changes.get(&place) {
            Some(Change::Create(..)) => Change::Create(Kind::ClusterRole, role),
            _ => Change::Update(Kind::ClusterRole, role),
        };
        changes.insert(place, change);
    }
    changes.into_values().collect()
}

/// Whether the autoupdate annotation excludes the object from reconciliation.
fn is_protected(found: &Map<String, Value>) -> bool {
    let annotations = found.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations
        .and_then(|annotations| annotations.get(bootstrap_policy::AUTO_UPDATE))
        .is_some_and(|value| value == "false")
}

/// Adds everything to the stored object that it lacks, and removes nothing. `None` if it lacks nothing.
fn reconciled(found: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut object = found.clone();
    for field in ["labels", "annotations"] {
        let wanted =
            wanted.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        let mut own = found
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
            .and_then(Value::as_object)
            .cloned();
        for (name, value) in wanted.into_iter().flatten() {
            own.get_or_insert_default().entry(name.clone()).or_insert_with(|| value.clone());
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.extend(own.map(|own| (field.to_owned(), own.into())));
        }
    }
    if is_aggregated(wanted) && !is_aggregated(found) {
        object
            .extend(wanted.get_key_value("aggregationRule").map(|(name, rule)| (name.clone(), rule.clone())));
    }
    let mut rules = Rule::all_of(found);
    let before = rules.len();
    // Breaking rules down is expensive and rarely needed: usually nothing has changed since the last start.
    for rule in Rule::all_of(wanted).into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>() {
        let missing = rule::missing(&rules, std::slice::from_ref(&rule));
        let is_whole = missing.len() == rule.parts_count();
        rules.extend(if is_whole { vec![rule] } else { rule::compact(missing) });
    }
    if rules.len() > before {
        object = with_rules(object, &rules);
    }
    let list =
        |of: &Map<String, Value>| of.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut subjects = list(found);
    let absent: Vec<Value> = list(wanted).into_iter().filter(|subject| !subjects.contains(subject)).collect();
    if !absent.is_empty() {
        subjects.extend(absent);
        object.insert("subjects".to_owned(), subjects.into());
    }
    (object != *found).then_some(object)
}

fn with_rules(mut role: Map<String, Value>, rules: &[Rule]) -> Map<String, Value> {
    role.insert("rules".to_owned(), rules.iter().map(Rule::json).collect());
    role
}

#[cfg(test)]
mod tests;
