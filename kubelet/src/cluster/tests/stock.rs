//! An API server that keeps objects and applies strategic merge patches as kube-apiserver does before 1.30.
//!
//! Directives are obeyed only where the list or map that they change exists; over a missing one they stay in the object, and validation
//! rejects it with 422. The order of list elements is not modelled, and neither are the directives that the kubelet never sends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request, StatusCode};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::fake::client;
use crate::identity::Api;

/// The lists of PodStatus and NodeStatus that are merged by key: `patchMergeKey` of the Go types.
const KEYS: [(&str, &str); 4] =
    [("podIPs", "ip"), ("hostIPs", "ip"), ("conditions", "type"), ("addresses", "type")];
const DIRECTIVE: &str = "$patch";

/// Objects by their path.
#[derive(Clone, Debug, Default)]
pub struct Stock(Arc<Mutex<State>>, watch::Sender<u64>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Requests that failed validation.
    rejected: Vec<String>,
    /// Patches that changed an object.
    writes: usize,
}

impl Stock {
    /// A server with these objects, and a client of it.
    pub async fn start(objects: &[(&str, Value)]) -> (Self, Arc<Api>) {
        let stock = Self::default();
        objects.iter().for_each(|(path, object)| drop(stock.put(path, object.clone())));
        let own = stock.clone();
        let answer = move |request: Request<Body>| {
            let own = own.clone();
            async move { own.answer(request).await }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        (stock, client(&format!("http://{address}")))
    }

    pub fn object(&self, path: &str) -> Value {
        self.0.lock().unwrap().objects[path].clone()
    }

    /// Writes an object as another client would. Returns it with its new version.
    pub fn put(&self, path: &str, mut object: Value) -> Value {
        let mut state = self.0.lock().unwrap();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.objects.insert(path.to_owned(), object.clone());
        self.1.send_replace(state.version);
        object
    }

    /// Changes with every write.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.1.subscribe()
    }

    /// The requests that failed validation since the last call.
    pub fn rejected(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().rejected)
    }

    /// How many patches changed an object.
    pub fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    async fn answer(&self, request: Request<Body>) -> (StatusCode, String) {
        let line = format!("{} {}", request.method(), request.uri());
        let method = request.method().clone();
        let path = request.uri().path().trim_end_matches("/status").to_owned();
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut state = self.0.lock().unwrap();
        // An object is created in its collection.
        let path = match body["metadata"]["name"].as_str() {
            Some(name) if method == Method::POST => format!("{path}/{name}"),
            _ => path,
        };
        let answer = match (state.objects.get(&path).cloned(), method) {
            (Some(object), Method::GET) => Ok(object),
            (Some(object), Method::PATCH) if is_stale(&object, &body) => {
                Err((409, "it has changed".to_owned()))
            }
            (Some(object), Method::PATCH) => merged(&object, &body).map_err(|why| (422, why)),
            (Some(_), Method::POST) => Err((409, "it exists".to_owned())),
            (None, Method::POST) => Ok(body),
            (found, method) => {
                let code = if found.is_some() { 405 } else { 404 };
                Err((code, format!("{method} is not answered")))
            }
        };
        let (code, answer) = match answer {
            Ok(mut object) => {
                if state.objects.get(&path) != Some(&object) {
                    state.version += 1;
                    state.writes += 1;
                    object["metadata"]["resourceVersion"] = state.version.to_string().into();
                    state.objects.insert(path, object.clone());
                    self.1.send_replace(state.version);
                }
                (200, object)
            }
            Err((code, why)) => {
                if code == 422 {
                    state.rejected.push(format!("{line}: {why}"));
                }
                (code, json!({"kind": "Status", "code": code, "message": why}))
            }
        };
        (StatusCode::from_u16(code).unwrap(), answer.to_string())
    }
}

/// Whether a patch expects another version of the object.
fn is_stale(object: &Value, patch: &Value) -> bool {
    let expected = &patch["metadata"]["resourceVersion"];
    expected.is_string() && *expected != object["metadata"]["resourceVersion"]
}

/// The object after a strategic merge patch, or why validation rejects the result.
fn merged(object: &Value, patch: &Value) -> Result<Value, String> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err("no object".to_owned());
    };
    let merged = Value::Object(merge_map(object.clone(), patch)?);
    if merged.to_string().contains("\"$") {
        return Err(format!("an element has no valid key: {merged}"));
    }
    Ok(merged)
}

fn merge_map(
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                let rest = patch.iter().filter(|(name, _)| *name != DIRECTIVE);
                Ok(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(format!("{directive} is no directive of a map")),
        };
    }
    for (name, change) in patch {
        let merged = match (object.remove(name), change) {
            (_, Value::Null) => continue,
            (Some(Value::Object(before)), Value::Object(change)) => merge_map(before, change)?.into(),
            (Some(Value::Array(before)), Value::Array(change)) => {
                match KEYS.iter().find(|(list, _)| list == name) {
                    Some((_, key)) => merge_list(before, change, key)?.into(),
                    None => change.clone().into(),
                }
            }
            // A missing value takes what the patch has, directives included.
            (_, change) => change.clone(),
        };
        object.insert(name.clone(), merged);
    }
    Ok(object)
}

fn merge_list(mut list: Vec<Value>, patch: &[Value], key: &str) -> Result<Vec<Value>, String> {
    for special in patch.iter().filter(|element| element.get(DIRECTIVE).is_some()) {
        match special[DIRECTIVE].as_str() {
            Some("replace") => {
                return Ok(patch
                    .iter()
                    .filter(|element| element.get(DIRECTIVE).is_none())
                    .cloned()
                    .collect());
            }
            Some("delete") => list.retain(|element| element[key] != special[key]),
            _ => return Err(format!("{special} is no directive of a list")),
        }
    }
    for change in patch.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        let Some(value) = change.get(key) else { return Err(format!("{change} has no {key}")) };
        let change = change.as_object().cloned().unwrap_or_default();
        match list.iter_mut().find(|element| element[key] == *value) {
            Some(Value::Object(before)) => *before = merge_map(before.clone(), &change)?,
            _ => list.push(change.into()),
        }
    }
    Ok(list)
}

#[test]
fn patch_directive_needs_an_existing_list() {
    let patch = json!({"status": {"podIPs": [{"ip": "10.0.0.2"}, {"$patch": "replace"}]}});
    let before = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}});
    assert_eq!(merged(&before, &patch).unwrap()["status"]["podIPs"], json!([{"ip": "10.0.0.2"}]));
    assert!(merged(&json!({"status": {"phase": "Pending"}}), &patch).is_err());
}
