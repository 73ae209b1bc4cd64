//! The metadata of a live object that shows who created and manages it.
//!
//! Every applied object has an annotation with its origin. With it the add-ons also own a field of objects whose
//! manifests have no other field, such as a Namespace, and a lost inventory does not turn a user's object into one of
//! the add-ons.

use client::Json;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::NAME;
use crate::objects::{List, StringMap};

/// The annotation of applied objects with their origin. A value of the manifest is replaced.
pub const ORIGIN: &str = "addons.coracle.io/origin";
/// The origin of objects that did not exist before.
const CREATED: &str = "created";
/// The origin of objects that others created.
const ADOPTED: &str = "adopted";

/// Metadata of a live object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    pub annotations: StringMap,
    pub deletion_timestamp: Option<Box<str>>,
    managed_fields: List<ManagedFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManagedFields {
    manager: Box<str>,
    operation: Box<str>,
}

impl Metadata {
    /// Reads the metadata of an object. It is empty, and thus names no object, if it cannot be read.
    pub fn of(object: &Json) -> Self {
        let metadata = object.get("metadata").and_then(|metadata| Self::deserialize(metadata).ok());
        metadata.unwrap_or_default()
    }

    /// Whether the add-ons manage a field of the object.
    pub fn is_managed(&self) -> bool {
        let is_own = |fields: &&ManagedFields| &*fields.manager == NAME && &*fields.operation == "Apply";
        self.managed_fields.iter().find(is_own).is_some()
    }

    /// Whether an add-on directory created the object, as far as the object shows.
    pub fn is_created(&self) -> bool {
        self.is_managed() && self.annotations.get(ORIGIN) == Some(CREATED)
    }
}

/// Adds the origin to an object that is applied. An object whose metadata is not an object does not change: the API
/// server rejects it.
pub fn marked(object: &Json, is_adopted: bool) -> Json {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = Value::Object(Map::new());
        }
        if let Value::Object(annotations) = annotations {
            let origin = if is_adopted { ADOPTED } else { CREATED };
            annotations.insert(ORIGIN.to_owned(), origin.into());
        }
    }
    object
}
