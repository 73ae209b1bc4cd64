//! `kubelet apply` and `kubelet delete`: objects that are pushed to the running kubelet.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use ::client::percent_encoded;
use anyhow::{Context as _, anyhow, bail};
use http::Method;
use serde_json::{Value, json};

use super::args::{Apply, Delete};
use super::client::Client;
use super::get::{ResourceType, full_name, split};
use super::print::out;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// Runs `kubelet apply`: a server-side apply of every object in the files.
pub async fn apply(client: &Client, arguments: &Apply) -> anyhow::Result<ExitCode> {
    for object in objects(&arguments.filename)? {
        let place = Place::of(&object, &arguments.place.namespace)?;
        let path = place.path();
        let before = match client.json(&path, JSON).await {
            Err(error) if error.is_not_found() => None,
            before => Some(revision(&before?)),
        };
        let query = format!("{path}?fieldManager=kubelet&force=true");
        let now = client.send(Method::PATCH, &query, APPLY, &object).await?;
        let what = match before {
            None => "created",
            Some(before) if before == revision(&now) => "unchanged",
            Some(_) => "configured",
        };
        out(format!("{}/{} {what}\n", place.resource.singular, place.name).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `kubelet delete`: the named objects, or those of files. It does not wait until the containers have stopped.
pub async fn delete(client: &Client, arguments: &Delete) -> anyhow::Result<ExitCode> {
    let namespace = &arguments.place.namespace;
    let mut places = Vec::new();
    for object in objects(&arguments.filename)? {
        places.push(Place::of(&object, namespace)?);
    }
    let (resource, first) = split(arguments.resource.as_deref().unwrap_or_default());
    for name in first.into_iter().chain(arguments.names.iter().map(String::as_str)) {
        let resource = find(resource)?;
        let name = full_name(client, resource, namespace, name).await?;
        places.push(Place { resource, namespace: namespace.clone(), name });
    }
    if places.is_empty() {
        bail!("name what to delete: kubelet delete pod NAME, or kubelet delete -f FILE");
    }
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(seconds) = arguments.grace_period.or(arguments.force.then_some(0)) {
        options["gracePeriodSeconds"] = seconds.into();
    }
    for place in places {
        client.send(Method::DELETE, &place.path(), JSON, &options).await?;
        out(format!("{} \"{}\" deleted\n", place.resource.singular, place.name).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A named object of the node.
struct Place {
    resource: ResourceType,
    namespace: String,
    name: String,
}

impl Place {
    fn of(object: &Value, default_namespace: &str) -> anyhow::Result<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        if text("/apiVersion") != "v1" || kind.is_empty() {
            bail!("{kind} of {:?}: a node takes v1 objects only", text("/apiVersion"));
        }
        if name.is_empty() {
            bail!("a {kind} has no name: set metadata.name");
        }
        let namespace = match text("/metadata/namespace") {
            "" => default_namespace,
            namespace => namespace,
        };
        Ok(Self { resource: find(kind)?, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn path(&self) -> String {
        format!("{}/{}", self.resource.path(Some(&self.namespace)), percent_encoded(&self.name))
    }
}

fn find(resource: &str) -> anyhow::Result<ResourceType> {
    ResourceType::find(resource).ok_or_else(|| {
        anyhow!("a node has no {resource}: pods, configmaps, secrets, services and namespaces can be pushed")
    })
}

fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// The objects of all files, in order. Lists are split into their items.
fn objects(files: &[std::path::PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files {
        let bytes = read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let problem = |problem: Box<api::problem::Problem>| anyhow!("{}:{problem}", file.display());
        for document in api::decode::documents(&bytes).map_err(problem)? {
            for mut value in document.values.map_err(problem)? {
                match value.get_mut("items").map(Value::take) {
                    Some(Value::Array(items)) => objects.extend(items),
                    _ => objects.push(value),
                }
            }
        }
    }
    Ok(objects)
}

/// Reads a file, or the standard input for `-`.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return fs::read(file);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    //! Tests of files and of the places of objects.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lists_and_documents_are_split_into_objects() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.yaml");
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop}}\n";
        fs::write(&file, text).unwrap();
        let found = objects(&[file]).unwrap();
        let paths: Vec<String> = found.iter().map(|it| Place::of(it, "default").unwrap().path()).collect();
        assert_eq!(paths, ["/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces/shop/pods/b"]);
        for wrong in [
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            json!({"apiVersion": "v1", "kind": "Pod"}),
        ] {
            assert!(Place::of(&wrong, "default").is_err(), "{wrong}");
        }
    }
}
