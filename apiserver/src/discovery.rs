//! What there is: the documents clients read before anything else.

use serde_json::{Value, json};

use crate::resource::Resource;

/// `/api`: the versions of the core group.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// `/apis`: the named groups.
pub fn groups(resources: &[Resource]) -> Value {
    let groups: Vec<Value> = group_names(resources).into_iter().map(|name| group(resources, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`, without its kind; `null` when there is no such group.
pub fn group(resources: &[Resource], name: &str) -> Value {
    let versions: Vec<Value> = versions(resources, name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    match versions.first() {
        None => Value::Null,
        Some(preferred) => json!({"name": name, "versions": versions, "preferredVersion": preferred}),
    }
}

/// `/api/v1` and `/apis/{group}/{version}`; `null` when there is no such version.
pub fn group_version(resources: &[Resource], group: &str, version: &str) -> Value {
    let mut rows = Vec::new();
    let mut group_version = String::new();
    for resource in resources.iter().filter(|r| r.group == group && r.version == version) {
        group_version = resource.api_version();
        let mut row = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        if !resource.short_names.is_empty() {
            row["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            row["categories"] = json!(resource.categories);
        }
        rows.push(row);
        for part in resource.subresources {
            rows.push(json!({
                "name": format!("{}/{}", resource.plural, part.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": part.kind,
                "verbs": part.verbs,
            }));
        }
    }
    if rows.is_empty() {
        return Value::Null;
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows})
}

/// All of the above in one document (`apidiscovery.k8s.io`), for the core group or for the named ones.
pub fn aggregated(resources: &[Resource], core: bool, api_version: &str) -> Value {
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

fn aggregated_version(resources: &[Resource], group: &str, version: &str) -> Value {
    let kind = |kind: &str| json!({"group": group, "version": version, "kind": kind});
    let rows: Vec<Value> = resources
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .map(|resource| {
            let mut row = json!({
                "resource": resource.plural,
                "responseKind": kind(resource.kind),
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": resource.verbs,
            });
            if !resource.short_names.is_empty() {
                row["shortNames"] = json!(resource.short_names);
            }
            if !resource.categories.is_empty() {
                row["categories"] = json!(resource.categories);
            }
            let parts = resource.subresources.iter().map(|part| {
                json!({"subresource": part.name, "responseKind": kind(part.kind), "verbs": part.verbs})
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

fn group_names(resources: &[Resource]) -> Vec<&'static str> {
    let mut names: Vec<&str> = resources.iter().map(|r| r.group).filter(|group| !group.is_empty()).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
}

fn versions(resources: &[Resource], group: &str) -> Vec<&'static str> {
    let mut versions: Vec<&str> = Vec::new();
    for resource in resources.iter().filter(|r| r.group == group) {
        if !versions.contains(&resource.version) {
            versions.push(resource.version);
        }
    }
    versions
}
