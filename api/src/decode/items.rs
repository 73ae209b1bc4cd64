//! Takes lists apart: what is left are single objects, each with its path in the document.

use serde_json::Value;

use super::kinds::{self, Form, Holds};
use crate::fault::{Aim, Faults};
use crate::legacy;
use crate::path::{OwnedStep, Path, PathBuf};
use crate::schema::nearest;

/// One object of a document.
pub(super) struct Item {
    pub form: Form,
    pub value: Value,
    /// Where it stands in the document; empty unless it is an element of a list.
    pub path: PathBuf,
}

/// Every object that `value` holds, lists in lists included.
pub(super) fn of(value: Value, faults: &mut Faults) -> Vec<Item> {
    let mut items = Vec::new();
    collect(value, &Path::ROOT, &mut items, faults);
    items
}

fn collect(value: Value, path: &Path<'_>, items: &mut Vec<Item>, faults: &mut Faults) {
    match kinds::tell(&value, path, faults) {
        None => {}
        Some(Holds::One(form)) => items.push(Item { form, value, path: path.to_owned() }),
        Some(Holds::List) => {
            let items_path = path.field("items");
            for (index, element) in elements(value, path, faults).into_iter().enumerate() {
                collect(element, &items_path.index(index), items, faults);
            }
        }
        Some(Holds::Many(form)) => many(form, value, path, items, faults),
    }
}

fn many(form: Form, list: Value, path: &Path<'_>, items: &mut Vec<Item>, faults: &mut Faults) {
    let api_version = list.get("apiVersion").cloned();
    let items_path = path.field("items").to_owned();
    for (index, mut value) in elements(list, path, faults).into_iter().enumerate() {
        let mut path = items_path.clone();
        path.0.push(OwnedStep::Index(index));
        // Elements of a typed list may leave out what the list says already.
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

/// The elements under `items`; nothing there is an empty list.
fn elements(mut list: Value, path: &Path<'_>, faults: &mut Faults) -> Vec<Value> {
    let Value::Object(fields) = &mut list else { return Vec::new() };
    for name in fields.keys() {
        if !LIST_FIELDS.contains(&name.as_str()) {
            let remedy = match nearest(name, LIST_FIELDS.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "remove it: a list has only `items`".to_owned(),
            };
            faults.aim(&path.field(name), Aim::Name, format!("unknown field `{name}`"), remedy);
        }
    }
    match fields.remove("items") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(elements)) => elements,
        Some(_) => {
            faults.add(&path.field("items"), "expected a list of objects", "start each object with `- `");
            Vec::new()
        }
    }
}

/// What may stand at the top of a list; in the first versions of the API all of its metadata did.
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
