//! The scale subresource.

use api::patch::{json, merge, strategic};
use api::strategy::{Cause, Json};
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::body::{self, Sent};
use super::patch::{JSON_PATCH, MERGE, STRATEGIC, unsupported};
use super::{Write, object_meta, response};
use crate::resource::Replicas;
use crate::selector;
use crate::status::Status;

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Returns the `Scale` of an object.
pub(crate) fn scale(object: &Json, replicas: &Replicas) -> Json {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut scale = json!({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": metadata,
        "spec": {}, "status": {"replicas": number(&replicas.actual)},
    });
    let wanted = number(&replicas.wanted);
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    let selector = replicas.selector.as_deref().and_then(|path| at(object, path)).map(selector::text);
    if let Some(selector) = selector.filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    super::commit::tree(scale)
}

impl Write<'_> {
    /// Updates the number of replicas. Other fields of the scale are ignored.
    pub(super) async fn scale(
        &self,
        method: &Method,
        name: &str,
        replicas: &Replicas,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Response, Status> {
        let document = match *method {
            Method::PUT => body::document(media_type, bytes)?,
            _ if matches!(media_type, JSON_PATCH | MERGE | STRATEGIC) => {
                body::document("application/json", bytes)?
            }
            _ => return Err(unsupported(media_type, true)),
        };
        let wanted = |old: &Json| -> Result<Json, Status> {
            let is = Value::Object(scale(old, replicas));
            let patched = match media_type {
                _ if *method == Method::PUT => Ok(document.clone()),
                JSON_PATCH => json::apply(is, &document),
                STRATEGIC => strategic::apply(is, &document, api::schema::shape(API_VERSION, KIND)),
                _ => merge::apply(is, &document),
            };
            let patched = patched.map_err(|error| self.refused(name, &error))?;
            let wanted = body::of_kind(patched, &[API_VERSION], KIND)?;
            check(old, name, &wanted)?;
            Ok(wanted)
        };
        let is_pinned = document.pointer("/metadata/resourceVersion").is_some_and(Value::is_string);
        let written = self.change(name, is_pinned, |old, _| {
            let wanted = wanted(old)?;
            let number = at(&wanted, "spec.replicas").and_then(Value::as_i64).unwrap_or(0);
            let version = object_meta::text(&wanted, "resourceVersion");
            let mut object = old.clone();
            put(&mut object, &replicas.wanted, number.into());
            if !version.is_empty() {
                object_meta::metadata(&mut object).insert("resourceVersion".to_owned(), version.into());
            }
            Ok(Sent::decided(object))
        });
        let object = written.await?.into_object();
        let body = serde_json::to_vec(&scale(&object, replicas)).unwrap_or_default();
        Ok(response(StatusCode::OK, body, &[]))
    }
}

/// Rejects a scale of another object, and invalid replicas.
fn check(old: &Json, name: &str, wanted: &Json) -> Result<(), Status> {
    let given = object_meta::text(wanted, "name");
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let uid = object_meta::text(wanted, "uid");
    let mut causes = Vec::new();
    if !uid.is_empty() && uid != object_meta::text(old, "uid") {
        causes.push(Cause::invalid("metadata.uid", format!("\"{uid}\""), "field is immutable"));
    }
    match at(wanted, "spec.replicas") {
        None | Some(Value::Null) => {}
        Some(number) if number.as_i64().is_some_and(|number| number > i64::from(i32::MAX)) => {
            causes.push(Cause::invalid("spec.replicas", number, "must be a number of 32 bits"));
        }
        Some(number) if number.as_i64().is_none_or(|number| number < 0) => {
            causes.push(Cause::invalid("spec.replicas", number, "must be greater than or equal to 0"));
        }
        Some(_) => {}
    }
    let refused = || Status::invalid_kind("autoscaling", KIND, name, &causes);
    if causes.is_empty() { Ok(()) } else { Err(refused()) }
}

/// Value at a path such as `spec.replicas`.
pub(super) fn at<'a>(object: &'a Json, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

/// Sets the value at a path. Intermediate values that are not objects are replaced.
pub(super) fn put(object: &mut Json, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(object.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            if let Some(inner) = inner.as_object_mut() {
                put(inner, rest, value);
            }
        }
    }
}
