//! Resource types of a node: names on the command line and API paths.

use ::client::percent_encoded;
use serde_json::Value;

use crate::cli::client::{Client, Error};

const JSON: &str = "application/json";

/// A resource type and its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Whether objects have a namespace.
    pub namespaced: bool,
    /// The API path of the group and version.
    group: &'static str,
}

/// The path of the core group.
const CORE: &str = "/api/v1";

const fn core(plural: &'static str, singular: &'static str, namespaced: bool) -> ResourceType {
    ResourceType { plural, singular, namespaced, group: CORE }
}

pub const PODS: ResourceType = core("pods", "pod", true);

pub const EVENTS: ResourceType = core("events", "event", true);

const ENDPOINT_SLICES: ResourceType = ResourceType {
    plural: "endpointslices",
    singular: "endpointslice",
    namespaced: true,
    group: "/apis/discovery.k8s.io/v1",
};

const RESOURCES: &[(ResourceType, &[&str])] = &[
    (PODS, &["po"]),
    (core("nodes", "node", false), &["no"]),
    (EVENTS, &["ev"]),
    (core("configmaps", "configmap", true), &["cm"]),
    (core("secrets", "secret", true), &[]),
    (core("services", "service", true), &["svc"]),
    (ENDPOINT_SLICES, &[]),
    (core("namespaces", "namespace", false), &["ns"]),
];

impl ResourceType {
    /// Finds a resource type by its plural, singular or short name. `None` for an unknown name.
    pub fn find(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        RESOURCES
            .iter()
            .find(|(named, short)| {
                named.plural == text || named.singular == text || short.contains(&text.as_str())
            })
            .map(|(named, _)| *named)
    }

    /// The API path of the objects in a namespace. `None` selects all namespaces.
    pub fn path(self, namespace: Option<&str>) -> String {
        let group = self.group;
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{group}/namespaces/{}/{}", percent_encoded(namespace), self.plural),
            None => format!("{group}/{}", self.plural),
        }
    }
}

/// Splits `pod/web` into resource and name.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((resource, name)) => (resource, Some(name)),
        None => (text, None),
    }
}

/// The full name of an object. A pod may also be named as in its manifest, without the node's name.
///
/// # Errors
/// If there is no such object, or the request fails.
pub async fn full_name(
    client: &Client,
    named: ResourceType,
    namespace: &str,
    name: &str,
) -> Result<String, Error> {
    let path = |name: &str| format!("{}/{}", named.path(Some(namespace)), percent_encoded(name));
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
