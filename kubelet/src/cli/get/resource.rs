//! What a command line calls the objects of a node, and where they are.

use serde_json::Value;

use crate::cli::client::{Client, Error, escape};

const JSON: &str = "application/json";

/// A resource as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name in paths.
    pub plural: &'static str,
    /// Name of one.
    pub singular: &'static str,
    /// Lies in a namespace.
    pub namespaced: bool,
}

/// Pods.
pub const PODS: Named = Named { plural: "pods", singular: "pod", namespaced: true };

const RESOURCES: &[(Named, &[&str])] = &[
    (PODS, &["po"]),
    (Named { plural: "nodes", singular: "node", namespaced: false }, &["no"]),
    (Named { plural: "events", singular: "event", namespaced: true }, &["ev"]),
    (Named { plural: "configmaps", singular: "configmap", namespaced: true }, &["cm"]),
    (Named { plural: "secrets", singular: "secret", namespaced: true }, &[]),
];

impl Named {
    /// Finds a resource by any of its names; `None` for one that a node does not have.
    pub fn find(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        RESOURCES
            .iter()
            .find(|(named, short)| {
                named.plural == text || named.singular == text || short.contains(&text.as_str())
            })
            .map(|(named, _)| *named)
    }

    /// The path of its objects, `None` for all namespaces.
    pub fn path(self, namespace: Option<&str>) -> String {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("/api/v1/namespaces/{}/{}", escape(namespace), self.plural),
            None => format!("/api/v1/{}", self.plural),
        }
    }
}

/// `pod/web` is a resource and a name.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((resource, name)) => (resource, Some(name)),
        None => (text, None),
    }
}

/// The name of an object; a pod may be given by the name in its manifest, without the node's.
///
/// # Errors
/// When there is no such object.
pub async fn full_name(client: &Client, named: Named, namespace: &str, name: &str) -> Result<String, Error> {
    let path = |name: &str| format!("{}/{}", named.path(Some(namespace)), escape(name));
    let not_found = match client.get(&path(name), JSON).await {
        Ok(_) => return Ok(name.to_owned()),
        Err(error) if error.is_not_found() && named == PODS => error,
        Err(error) => return Err(error),
    };
    let nodes = client.json("/api/v1/nodes", JSON).await?;
    let nodes = nodes.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for node in nodes {
        let on_node =
            format!("{name}-{}", node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
        if client.get(&path(&on_node), JSON).await.is_ok() {
            return Ok(on_node);
        }
    }
    Err(not_found)
}
