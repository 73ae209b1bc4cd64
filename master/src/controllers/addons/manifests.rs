//! Parses an add-on file: YAML and JSON documents, and the objects in them.

use std::fmt;
use std::sync::Arc;

use client::Json;
use serde_json::Value;

/// Maximum number of objects in a file. Large bundles of add-ons have some hundred.
pub const MAX_OBJECTS: usize = 5_000;

/// A manifest of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Number of its document in the file, from 1. Documents with only comments count, too.
    pub document: usize,
    pub api_version: String,
    pub kind: String,
    /// Empty if the manifest names none.
    pub namespace: String,
    pub name: String,
    pub object: Arc<Json>,
}

impl Manifest {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version without its group.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}, {} ", self.document, self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Parses all objects of a file, in their order. Lists are replaced by their items.
///
/// # Errors
/// If there is no document, or one of them is no manifest. The message names it. The whole file is then rejected,
/// because a part of it does not show which objects were removed.
pub fn parse(bytes: &[u8]) -> Result<Vec<Manifest>, String> {
    let documents = api::decode::documents(bytes).map_err(|problem| problem.to_string())?;
    let mut manifests = Vec::new();
    let mut is_empty = true;
    for (document, number) in documents.into_iter().zip(1..) {
        let here = format!("document {number} (line {})", document.line);
        let values = document.values.map_err(|problem| {
            if may_be_secret(document.text) {
                let (line, column) = (problem.line, problem.column);
                format!("{here}: {line}:{column}: not valid YAML or JSON; details may quote a Secret and are omitted")
            } else {
                format!("{here}: {problem}")
            }
        })?;
        for value in values {
            is_empty = false;
            let mut objects = Vec::new();
            items(value, &mut objects);
            for object in objects {
                if manifests.len() == MAX_OBJECTS {
                    return Err(format!("{here}: the file has more than {MAX_OBJECTS} objects; split it"));
                }
                manifests.push(manifest(object, number).map_err(|why| format!("{here}: {why}"))?);
            }
        }
    }
    if is_empty {
        return Err("the file is empty; remove it to prune its objects".to_owned());
    }
    Ok(manifests)
}

/// Whether a document that cannot be parsed may have values of a Secret, which the parser quotes. Only a line with
/// another kind shows that it has none.
fn may_be_secret(text: &str) -> bool {
    let is_plain = |kind: &str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut kinds = text.lines().filter_map(|line| line.strip_prefix("kind:")).map(str::trim);
    let names_other = kinds.any(|kind| is_plain(kind) && !kind.ends_with("List"));
    !names_other || text.contains("Secret")
}

/// Adds the items of a List, also of lists in it, or the object itself. An object has a name, a list has none. Items of
/// a typed list may omit kind and version.
fn items(mut value: Value, objects: &mut Vec<Value>) {
    let element = value.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let is_named = value.get("metadata").is_some_and(|metadata| metadata.get("name").is_some());
    let Some(element) = element.filter(|_| !is_named).map(str::to_owned) else { return objects.push(value) };
    let version = value.get("apiVersion").cloned().unwrap_or_default();
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(elements)) => {
            for mut item in elements {
                if let Some(fields) = item.as_object_mut().filter(|_| !element.is_empty()) {
                    fields.entry("kind").or_insert_with(|| element.as_str().into());
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                }
                items(item, objects);
            }
        }
        _ => objects.push(value),
    }
}

fn manifest(value: Value, document: usize) -> Result<Manifest, String> {
    let Value::Object(object) = value else { return Err("this is not an object".to_owned()) };
    let metadata = object.get("metadata");
    let text = |of: Option<&Value>| of.and_then(Value::as_str).unwrap_or_default().to_owned();
    let required = |name: &str, of: Option<&Value>| match text(of) {
        empty if empty.is_empty() => Err(format!("{name} is missing")),
        text => Ok(text),
    };
    Ok(Manifest {
        document,
        api_version: required("apiVersion", object.get("apiVersion"))?,
        kind: required("kind", object.get("kind"))?,
        name: required("metadata.name", metadata.and_then(|metadata| metadata.get("name")))?,
        namespace: text(metadata.and_then(|metadata| metadata.get("namespace"))),
        object: Arc::new(object),
    })
}
