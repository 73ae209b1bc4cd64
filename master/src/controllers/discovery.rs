//! API discovery: lists the resources that a server serves.

use std::collections::BTreeSet;

use client::{Client, Error, Kind};
use serde::Deserialize;

use crate::objects::{List, ObjectMeta};

/// The media type of aggregated discovery.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A served resource with its verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The kind in the preferred version of its group.
    pub kind: Kind,
    /// The supported verbs.
    pub verbs: BTreeSet<String>,
}

impl Served {
    /// Whether the resource supports all of the verbs.
    pub fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.contains(*verb))
    }
}

/// The aggregated discovery document of one path.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Discovery {
    items: List<Group>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: ObjectMeta,
    versions: List<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
    resources: List<Resource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: ResponseKind,
    /// Scope of the resource: `Namespaced` or `Cluster`.
    scope: String,
    verbs: BTreeSet<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

/// Discovers all resources of a server.
///
/// # Errors
/// If the server does not respond. The caller must not conclude that no resources exist.
pub async fn discover(client: &Client) -> Result<Vec<Served>, Error> {
    let mut served = Vec::new();
    for path in ["/api", "/apis"] {
        take(client.get_document(path, ACCEPT).await?, &mut served);
    }
    Ok(served)
}

/// Adds each resource of a discovery document once. Groups list their preferred version first.
fn take(document: Discovery, served: &mut Vec<Served>) {
    for Group { metadata, versions } in document.items {
        for Version { version, resources } in versions {
            for resource in resources {
                let kind = Kind {
                    group: metadata.name.to_string().into(),
                    version: version.clone().into(),
                    kind: resource.response_kind.kind.into(),
                    plural: resource.resource.into(),
                    namespaced: resource.scope == "Namespaced",
                };
                if !kind.plural.is_empty() && !served.iter().any(|known| known.kind.is(&kind)) {
                    served.push(Served { kind, verbs: resource.verbs });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of discovery documents of several servers.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_counts_once_in_its_preferred_version() {
        let resource = |name: &str, kind: &str| json!({"resource": name, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["delete", "list"]});
        let document = json!({"items": [
            {"metadata": {"name": "autoscaling"}, "versions": [
                {"version": "v2", "resources": [resource("hpas", "HPA")]},
                {"version": "v1", "resources": [resource("hpas", "HPA"), resource("old", "Old")]},
            ]},
            {"metadata": {"name": "empty", "creationTimestamp": null}, "versions": null},
        ]});
        let mut served = Vec::new();
        take(serde_json::from_value(document).unwrap(), &mut served);
        let names: Vec<String> =
            served.iter().map(|s| format!("{} {}", s.kind.qualified(), s.kind.version)).collect();
        assert_eq!(names, ["hpas.autoscaling v2", "old.autoscaling v1"]);
        assert!(served[0].can(&["list", "delete"]) && !served[0].can(&["watch"]));
    }
}
