//! The part of a page on a pod's volumes.

use serde_json::Value;

use super::container::is_optional;
use super::text::{Page, list, string};

/// Describes the volumes, where there are any.
pub fn describe(page: &mut Page, pod: &Value) {
    if list(pod, "/spec/volumes").next().is_none() {
        page.field(0, "Volumes", "<none>");
        return;
    }
    page.head(0, "Volumes");
    for volume in list(pod, "/spec/volumes") {
        page.head(2, string(volume, "/name"));
        source(page, volume);
    }
}

fn source(page: &mut Page, volume: &Value) {
    let optional = |source: &Value| is_optional(source).to_string();
    if let Some(path) = volume.get("hostPath") {
        page.field(4, "Type", "HostPath (bare host directory volume)");
        page.field(4, "Path", string(path, "/path"));
        page.field(4, "HostPathType", string(path, "/type"));
    } else if let Some(dir) = volume.get("emptyDir") {
        page.field(4, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
        page.field(4, "Medium", string(dir, "/medium"));
        let limit = string(dir, "/sizeLimit");
        page.field(4, "SizeLimit", if limit.is_empty() { "<unset>" } else { limit });
    } else if let Some(map) = volume.get("configMap") {
        page.field(4, "Type", "ConfigMap (a volume populated by a ConfigMap)");
        page.field(4, "Name", string(map, "/name"));
        page.field(4, "Optional", &optional(map));
    } else if let Some(secret) = volume.get("secret") {
        page.field(4, "Type", "Secret (a volume populated by a Secret)");
        page.field(4, "SecretName", string(secret, "/secretName"));
        page.field(4, "Optional", &optional(secret));
    } else if let Some(api) = volume.get("downwardAPI") {
        page.field(4, "Type", "DownwardAPI (a volume populated by information about the pod)");
        page.head(4, "Items");
        items(page, api);
    } else if volume.get("projected").is_some() {
        page.field(4, "Type", "Projected (a volume that contains injected data from multiple sources)");
        for part in list(volume, "/projected/sources") {
            projected(page, part);
        }
    } else {
        let kind =
            volume.as_object().into_iter().flatten().map(|(name, _)| name).find(|name| *name != "name");
        page.field(4, "Type", kind.map_or("<unknown>", String::as_str));
    }
}

fn projected(page: &mut Page, part: &Value) {
    if let Some(map) = part.get("configMap") {
        page.field(4, "ConfigMapName", string(map, "/name"));
        page.field(4, "Optional", &is_optional(map).to_string());
    } else if let Some(secret) = part.get("secret") {
        page.field(4, "SecretName", string(secret, "/name"));
        page.field(4, "Optional", &is_optional(secret).to_string());
    } else if let Some(api) = part.get("downwardAPI") {
        page.field(4, "DownwardAPI", "true");
        items(page, api);
    } else if let Some(token) = part.get("serviceAccountToken") {
        let seconds = token.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
        page.field(4, "TokenExpirationSeconds", &seconds.to_string());
    }
}

fn items(page: &mut Page, api: &Value) {
    for item in list(api, "/items") {
        let field = string(item, "/fieldRef/fieldPath");
        let what = if field.is_empty() { string(item, "/resourceFieldRef/resource") } else { field };
        page.line(6, &format!("{what} -> {}", string(item, "/path")));
    }
}
