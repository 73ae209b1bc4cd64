//! Splits lists into single objects with their paths in the document.

use serde_json::Value;

use super::kinds::{self, Content, Form};
use crate::field_error::{FieldErrors, Target};
use crate::legacy;
use crate::path::{OwnedStep, Path, PathBuf};
use crate::schema::nearest;

/// One object of a document.
pub(super) struct Item {
    pub form: Form,
    pub value: Value,
    /// The path of the object; empty if it is not in a list.
    pub path: PathBuf,
}

/// Returns all objects in `value`, including those in nested lists.
pub(super) fn of(value: Value, errors: &mut FieldErrors) -> Vec<Item> {
    let mut items = Vec::new();
    collect(value, &Path::ROOT, &mut items, errors);
    items
}

fn collect(value: Value, path: &Path<'_>, items: &mut Vec<Item>, errors: &mut FieldErrors) {
    let value = match value {
        Value::Array(manifests) if manifests.first().is_some_and(is_container_manifest) => {
            for (index, manifest) in manifests.into_iter().enumerate() {
                collect(manifest, &path.index(index), items, errors);
            }
            return;
        }
        value => value,
    };
    match kinds::detect(&value, path, errors) {
        None => {}
        Some(Content::One(form)) => items.push(Item { form, value, path: path.to_owned() }),
        Some(Content::List) => {
            let items_path = path.field("items");
            for (index, element) in elements(value, path, errors).into_iter().enumerate() {
                collect(element, &items_path.index(index), items, errors);
            }
        }
        Some(Content::Many(form)) => many(form, value, path, items, errors),
    }
}

/// True for a ContainerManifest, which has a version and no kind. In 2014, a manifest could be an array of them.
fn is_container_manifest(value: &Value) -> bool {
    value.get("version").is_some_and(Value::is_string) && value.get("kind").is_none()
}

fn many(form: Form, list: Value, path: &Path<'_>, items: &mut Vec<Item>, errors: &mut FieldErrors) {
    let api_version = list.get("apiVersion").cloned();
    let items_path = path.field("items").to_owned();
    for (index, mut value) in elements(list, path, errors).into_iter().enumerate() {
        let mut path = items_path.clone();
        path.0.push(OwnedStep::Index(index));
        // The elements of a typed list may omit `kind` and `apiVersion`.
        if let Value::Object(fields) = &mut value
            && !matches!(form, Form::Legacy(legacy::Form::ContainerManifest | legacy::Form::BoundPod))
        {
            fields.entry("kind").or_insert_with(|| form.kind().into());
            if let Some(api_version) = &api_version {
                fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            }
        }
        items.push(Item { form, value, path });
    }
}

/// The elements of `items`; empty if there are none.
fn elements(mut list: Value, path: &Path<'_>, errors: &mut FieldErrors) -> Vec<Value> {
    let Value::Object(fields) = &mut list else { return Vec::new() };
    for name in fields.keys() {
        if !LIST_FIELDS.contains(&name.as_str()) {
            let remedy = match nearest(name, LIST_FIELDS.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "remove it: a list has only `items`".to_owned(),
            };
            errors.add_at(&path.field(name), Target::Name, format!("unknown field `{name}`"), remedy);
        }
    }
    match fields.remove("items") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(elements)) => elements,
        Some(_) => {
            errors.add(&path.field("items"), "expected a list of objects", "start each object with `- `");
            Vec::new()
        }
    }
}

/// The fields of a list. In the first API versions, metadata was at the top level.
const LIST_FIELDS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "items",
    "id",
    "uid",
    "namespace",
    "annotations",
    "host",
    "creationTimestamp",
    "selfLink",
    "resourceVersion",
];
