//! Prunes unknown fields of built-in kinds.

use serde_json::{Map, Value};

use super::type_table::{Struct, all};
use super::types::Kind;
use crate::path::Path;

/// Limit for the number of pruned fields that are reported.
const MAX_REPORTED: usize = 100;

/// Removes all unknown fields and returns their paths (`spec.containers[0].imagee`). Nulls are removed silently. Custom
/// resources stay unchanged.
pub fn prune(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(of) = all().kind_of(api_version, kind) {
        fields(of, object, &Path::ROOT, &mut unknown);
    }
    unknown.truncate(MAX_REPORTED);
    unknown
}

/// Prunes unknown fields of the metadata of a custom resource.
pub(crate) fn prune_metadata(metadata: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    if let (Some(of), Value::Object(metadata)) = (all().get("meta.v1.ObjectMeta"), metadata) {
        fields(of, metadata, path, unknown);
    }
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>, path: &Path<'_>, unknown: &mut Vec<String>) {
    object.retain(|name, value| {
        let here = path.field(name);
        let field = of.field(name);
        match field {
            Some(field) => walk(&field.kind, value, &here, unknown),
            None => unknown.push(here.to_owned().to_string()),
        }
        field.is_some() && !value.is_null()
    });
}

fn walk(kind: &'static Kind, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match (kind, value) {
        (Kind::Object(name), Value::Object(object)) => {
            if let Some(of) = all().get(name) {
                fields(of, object, path, unknown);
            }
        }
        (Kind::List(of), Value::Array(elements)) => {
            for (at, element) in elements.iter_mut().enumerate() {
                walk(of, element, &path.index(at), unknown);
            }
        }
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                walk(of, entry, &path.key(key), unknown);
            }
            entries.retain(|_, entry| !entry.is_null());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    //! Tests of pruning unknown fields.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use serde_json::{Value, json};

    use super::prune;

    fn check(api_version: &str, kind: &str, object: Value, expected: Value, unknown: &[&str]) {
        let Value::Object(mut object) = object else { panic!("not an object") };
        assert_eq!(prune(&mut object, api_version, kind), unknown);
        assert_eq!(Value::Object(object), expected);
    }

    #[test]
    fn unknown_fields_are_removed() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "nam": 1}, "spec": {"containers": [{"name": "c", "imagee": "x"}]}, "x": {}});
        let pruned =
            json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
        check("v1", "Pod", pod, pruned, &["metadata.nam", "spec.containers[0].imagee", "x"]);
    }

    #[test]
    fn maps_and_free_form_fields_are_kept() {
        let map = json!({"metadata": {"name": "a", "labels": {"any": "thing"}}, "data": {"x.y": "z"}});
        check("v1", "ConfigMap", map.clone(), map, &[]);
        let own = json!({"spec": {"any": "thing"}});
        check("example.com/v1", "Own", own.clone(), own, &[]);
    }

    #[test]
    fn null_is_absent() {
        let mut object = serde_json::json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": {"a": null, "b": "c"}},
        "spec": {"replicas": null, "template": {"spec": {"containers": [{"name": "a", "image": null}]}}}});
        let object = object.as_object_mut().unwrap();
        assert_eq!(super::prune(object, "apps/v1", "Deployment"), Vec::<String>::new());
        let kept = serde_json::json!({"metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}});
        assert_eq!(serde_json::Value::Object(object.clone()), kept);
    }
}
