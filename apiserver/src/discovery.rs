//! Builds the discovery documents, legacy and aggregated.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::resource::{Resource, Subresource};

/// The rows of all resources ([`crate::catalog::Rows::all`]).
type Resources<'a> = &'a [Arc<Resource>];

/// The core group version that is listed in discovery.
const CORE_VERSION: &str = "v1";

/// The document of `/api`: the versions of the core group.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": [CORE_VERSION],
        "serverAddressByClientCIDRs": [],
    })
}

/// The document of `/apis`: the named groups.
pub fn groups(resources: Resources<'_>) -> Value {
    let groups: Vec<Value> = group_names(resources).into_iter().map(|name| group(resources, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The document of `/apis/{group}` without its kind; `null` if the group does not exist.
pub fn group(resources: Resources<'_>, name: &str) -> Value {
    let versions: Vec<Value> = versions(resources, name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    match versions.first() {
        None => Value::Null,
        Some(preferred) => json!({"name": name, "versions": versions, "preferredVersion": preferred}),
    }
}

/// The documents of `/api/v1` and `/apis/{group}/{version}`; `null` if the version does not exist.
pub fn group_version(resources: Resources<'_>, group: &str, version: &str) -> Value {
    let mut rows = Vec::new();
    let mut group_version = "";
    for resource in resources.iter().filter(|r| r.group == group && r.version == version) {
        group_version = resource.api_version();
        let mut row = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        name_shortly(&mut row, resource);
        if let Some(hash) = resource.storage_version_hash() {
            row["storageVersionHash"] = hash.into();
        }
        rows.push(row);
        for part in &resource.subresources {
            let mut row = json!({
                "name": format!("{}/{}", resource.plural, part.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind_of(resource, part).2,
                "verbs": part.verbs,
            });
            if let Some((group, version, _)) = part.kind.filter(|(g, v, _)| (*g, *v) != (group, version)) {
                row["group"] = group.into();
                row["version"] = version.into();
            }
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Value::Null;
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows})
}

/// The document of aggregated discovery (`apidiscovery.k8s.io`), for the core group or the named groups.
pub fn aggregated(resources: Resources<'_>, core: bool, api_version: &str) -> Value {
    let names = if core { vec![""] } else { group_names(resources) };
    let items: Vec<Value> = names
        .into_iter()
        .map(|name| {
            let versions: Vec<Value> = versions(resources, name)
                .into_iter()
                .map(|version| aggregated_version(resources, name, version))
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items})
}

fn aggregated_version(resources: Resources<'_>, group: &str, version: &str) -> Value {
    let kind = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let rows: Vec<Value> = resources
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .map(|resource| {
            let mut row = json!({
                "resource": resource.plural,
                "responseKind": kind((group, version, &resource.kind)),
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": resource.verbs,
            });
            name_shortly(&mut row, resource);
            let parts = resource.subresources.iter().map(|part| {
                let kind = kind(kind_of(resource, part));
                json!({"subresource": part.name, "responseKind": kind, "verbs": part.verbs})
            });
            let parts: Vec<Value> = parts.collect();
            if !parts.is_empty() {
                row["subresources"] = parts.into();
            }
            row
        })
        .collect();
    json!({"version": version, "resources": rows, "freshness": "Current"})
}

/// Group, version and kind of the body of a subresource.
fn kind_of<'a>(resource: &'a Resource, part: &Subresource) -> (&'a str, &'a str, &'a str) {
    part.kind.unwrap_or((&resource.group, &resource.version, &resource.kind))
}

fn name_shortly(row: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
}

fn group_names(resources: Resources<'_>) -> Vec<&str> {
    let mut names: Vec<&str> =
        resources.iter().map(|r| r.group.as_ref()).filter(|group| !group.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The versions of a group, preferred version first. Old core versions are served but not listed, because clients
/// treat each listed version as separate objects.
fn versions<'a>(resources: Resources<'a>, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> =
        resources.iter().filter(|r| r.group == group).map(|r| r.version.as_ref()).collect();
    versions.retain(|version| !group.is_empty() || *version == CORE_VERSION);
    versions.sort_by_key(|version| (Reverse(rank(version)), version.to_string()));
    versions.dedup();
    versions
}

/// The sort key of a version: `v2` before `v1` before `v2beta1` before `v1alpha1`, then all other names.
fn rank(version: &str) -> (u8, u64, u64) {
    let ranked = || {
        let version = version.strip_prefix('v')?;
        let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
        let (major, rest) = version.split_at(digits);
        let major = major.parse().ok()?;
        Some(match rest {
            "" => (3, major, 0),
            rest => match rest.strip_prefix("beta") {
                Some(minor) => (2, major, minor.parse().ok()?),
                None => (1, major, rest.strip_prefix("alpha")?.parse().ok()?),
            },
        })
    };
    ranked().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Version order: clients prefer the first one.

    use super::rank;

    #[test]
    fn stable_versions_come_before_beta_before_alpha_before_others() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v2", "v1beta2", "v12alpha1", "v1", "v11beta2", "v3beta1"];
        versions.sort_by_key(|version| (std::cmp::Reverse(rank(version)), version.to_string()));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1beta2", "v12alpha1", "v1alpha1", "foo1"]
        );
    }
}
