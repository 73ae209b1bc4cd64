//! Keeps the stock roles as they should be, and aggregated roles made of their parts.
//!
//! What is to be written is planned without a store; it is then written through the API like everybody's writes.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::future::join_all;
use http::{Method, Request};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

use super::aggregate::{is_aggregated, unsettled};
use super::index::{RBAC, text};
use super::rule::{self, Rule};
use super::{Kind, stock};
use crate::identity::Identity;
use crate::store::{Memory, Scope};

/// Longest answer that is read to tell what went wrong.
const MOST_BYTES: usize = 64 * 1024;
/// Between two tries of what could not be written.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A role or a binding by its kind, its namespace and its name.
type Place = (&'static str, String, String);
/// Roles and bindings.
type Objects = BTreeMap<Place, Map<String, Value>>;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is none of that name.
    Create(Kind, Map<String, Value>),
    /// There is one that lacks something.
    Update(Kind, Map<String, Value>),
    /// There is a binding of another role, which no binding can change.
    Replace(Kind, Map<String, Value>),
}

/// Writes what is missing.
#[derive(Clone, Debug)]
pub struct Keeper {
    api: Router,
    store: Memory,
}

impl Keeper {
    /// One that reads that store and writes through that API.
    pub fn new(api: Router, store: Memory) -> Self {
        Self { api, store }
    }

    /// Makes what is missing of the stock roles, once.
    ///
    /// # Errors
    /// What the API says to the first write that fails.
    pub async fn keep_stock(&self) -> Result<(), String> {
        let mut there = Objects::new();
        for kind in Kind::ALL {
            for object in self.store.list(&kind.qualified(), &Scope::All).objects {
                let place = (kind.plural(), object.namespace().to_owned(), object.name().to_owned());
                there.insert(place, object.decode());
            }
        }
        let (roles, bindings): (Vec<_>, Vec<_>) = plan(there).into_iter().partition(Change::is_of_role);
        // Roles first: whoever is bound to one finds it there.
        for changes in [roles, bindings] {
            join_all(changes.iter().map(|change| self.carry_out(change)))
                .await
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Keeps aggregated roles made of their parts, for as long as it is polled.
    pub async fn keep_aggregated(self) {
        let resource = Kind::ClusterRole.qualified();
        loop {
            let listing = self.store.list(&resource, &Scope::All);
            let roles: Vec<_> = listing.objects.iter().map(|object| object.decode()).collect();
            let mut changes = Vec::new();
            for (name, rules) in unsettled(&roles) {
                let role = roles.iter().find(|role| text(role, "name") == name);
                changes.extend(
                    role.map(|role| Change::Update(Kind::ClusterRole, with_rules(role.clone(), &rules))),
                );
            }
            let written = join_all(changes.iter().map(|change| self.carry_out(change))).await;
            if let Some(error) = written.into_iter().find_map(Result::err) {
                tracing::warn!(error, "an aggregated role could not be written; trying again");
                tokio::time::sleep(TRY_AGAIN).await;
                continue;
            }
            // What this has written itself wakes it once more, and finds nothing to do.
            match self.store.watch(&resource, Scope::All, listing.revision) {
                // Whatever it is that changed, or was forgotten: all of it is looked at anew.
                Ok(mut watcher) => drop(watcher.next().await),
                Err(_) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
    }

    async fn carry_out(&self, change: &Change) -> Result<(), String> {
        match change {
            Change::Create(kind, object) => self.ask(Method::POST, *kind, object).await,
            Change::Update(kind, object) => self.ask(Method::PUT, *kind, object).await,
            Change::Replace(kind, object) => {
                self.ask(Method::DELETE, *kind, object).await?;
                self.ask(Method::POST, *kind, object).await
            }
        }
    }

    async fn ask(&self, method: Method, kind: Kind, object: &Map<String, Value>) -> Result<(), String> {
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
        let bytes = to_bytes(response.into_body(), MOST_BYTES).await.unwrap_or_default();
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(failed(status["message"].as_str().unwrap_or("no reason was given").to_owned()))
    }
}

impl Change {
    fn is_of_role(&self) -> bool {
        let (Self::Create(kind, _) | Self::Update(kind, _) | Self::Replace(kind, _)) = self;
        kind.is_role()
    }
}

/// What is to be written so that every stock role and binding is there, and aggregated roles are made of their parts.
pub fn plan(mut there: Objects) -> Vec<Change> {
    let mut changes = BTreeMap::new();
    for (kind, wanted) in stock::objects() {
        let place = (kind.plural(), text(&wanted, "namespace").to_owned(), text(&wanted, "name").to_owned());
        let change = match there.get(&place) {
            None => Some(Change::Create(kind, wanted)),
            Some(found) if is_left_alone(found) => None,
            Some(found) if found.get("roleRef") != wanted.get("roleRef") => {
                Some(Change::Replace(kind, wanted))
            }
            Some(found) => amended(found, &wanted).map(|object| Change::Update(kind, object)),
        };
        if let Some(change) = change {
            let (Change::Create(_, object) | Change::Update(_, object) | Change::Replace(_, object)) =
                &change;
            there.insert(place.clone(), object.clone());
            changes.insert(place, change);
        }
    }
    let of_cluster = |place: &Place| place.0 == Kind::ClusterRole.plural();
    let roles: Vec<_> =
        there.iter().filter(|(place, _)| of_cluster(place)).map(|(_, role)| role.clone()).collect();
    for (name, rules) in unsettled(&roles) {
        let place = (Kind::ClusterRole.plural(), String::new(), name);
        let Some(role) = there.get(&place) else { continue };
        let role = with_rules(role.clone(), &rules);
        let change = match changes.get(&place) {
            Some(Change::Create(..)) => Change::Create(Kind::ClusterRole, role),
            _ => Change::Update(Kind::ClusterRole, role),
        };
        changes.insert(place, change);
    }
    changes.into_values().collect()
}

/// Whether somebody has said that the object is not to be kept.
fn is_left_alone(found: &Map<String, Value>) -> bool {
    let annotations = found.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations
        .and_then(|annotations| annotations.get(stock::AUTO_UPDATE))
        .is_some_and(|value| value == "false")
}

/// What is there with all that it lacks; `None` when it lacks nothing. Nothing is taken away.
fn amended(found: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<Map<String, Value>> {
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
    // Nearly always nothing has changed since the last start, and nothing needs to be taken apart.
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
