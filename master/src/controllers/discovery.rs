//! API discovery: lists the resources that a server serves.

use std::collections::BTreeSet;

use client::{Client, Error, Json, Kind};
use serde_json::Value;

use super::object::text;

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
    /// Whether the resource supports all of these verbs.
    pub fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.contains(*verb))
    }
}

/// Discovers all resources of a server.
///
/// # Errors
/// If the server does not respond. The caller must not conclude that no resources exist.
pub async fn discover(client: &Client) -> Result<Vec<Served>, Error> {
    let mut served = Vec::new();
    for path in ["/api", "/apis"] {
        take(&client.get_document(path, ACCEPT).await?, &mut served);
    }
    Ok(served)
}

/// Adds each resource of a discovery document once. Groups list their preferred version first.
fn take(document: &Json, served: &mut Vec<Served>) {
    for group in array(document.get("items")) {
        let name = text(group.pointer("/metadata/name"));
        for version in array(group.get("versions")) {
            for resource in array(version.get("resources")) {
                let found = of(&name, &text(version.get("version")), resource);
                if !found.kind.plural.is_empty() && !served.iter().any(|known| known.kind.is(&found.kind)) {
                    served.push(found);
                }
            }
        }
    }
}

fn of(group: &str, version: &str, resource: &Value) -> Served {
    let kind = resource.pointer("/responseKind/kind");
    let verbs = array(resource.get("verbs")).map(|verb| text(Some(verb)));
    Served {
        kind: Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: text(kind).into(),
            plural: text(resource.get("resource")).into(),
            namespaced: resource.get("scope").and_then(Value::as_str) == Some("Namespaced"),
        },
        verbs: verbs.collect(),
    }
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    //! Discovery documents of several servers.
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
            {"metadata": {"name": "odd"}, "versions": "none"},
        ]});
        let mut served = Vec::new();
        take(document.as_object().unwrap(), &mut served);
        let names: Vec<String> =
            served.iter().map(|s| format!("{} {}", s.kind.qualified(), s.kind.version)).collect();
        assert_eq!(names, ["hpas.autoscaling v2", "old.autoscaling v1"]);
        assert!(served[0].can(&["list", "delete"]) && !served[0].can(&["watch"]));
    }
}
