//! The parameter objects of a policy binding.

use apiserver::registry::Registry;
use apiserver::selector::matches_selector;
use apiserver::watch_cache::Scope;
use serde_json::{Map, Value};

/// Maximum number of parameter objects per binding. All expressions are evaluated for each of them.
const MAX_PARAMS: usize = 100;

/// The parameter objects of a binding, one for each evaluation. If the policy takes none, one `null`.
///
/// # Errors
/// If the parameters are missing or invalid. The error is the stock message.
pub fn collect(
    registry: &Registry,
    kind: Option<&(String, String)>,
    reference: &Value,
    namespace: Option<&str>,
) -> Result<Vec<Value>, String> {
    let (Some((api_version, kind)), Some(reference)) = (kind, reference.as_object()) else {
        return Ok(vec![Value::Null]);
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let rows = registry.rows();
    let row = rows.kind(group, version, kind);
    let row = row.ok_or_else(|| format!("paramKind kind `{api_version}, Kind={kind}` not known"))?;
    let text = |field: &str| reference.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let scope = match (row.namespaced, text("namespace")) {
        (false, Some(_)) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (false, None) => "",
        (true, own) => own.or(namespace).ok_or(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
        )?,
    };
    let cache = registry.cache();
    let found: Vec<Value> = match text("name") {
        Some(name) => cache
            .get(row.stored(), scope, name)
            .iter()
            .map(|object| Value::Object(row.tree(object)))
            .collect(),
        None => {
            let all = if row.namespaced { Scope::Namespace(scope.to_owned()) } else { Scope::All };
            let everything = Value::Object(Map::new());
            let selector = reference.get("selector").unwrap_or(&everything);
            let objects = cache.list(row.stored(), &all).objects;
            let objects = objects.iter().map(|object| Value::Object(row.tree(object)));
            objects.filter(|object| is_selected(selector, object)).take(MAX_PARAMS + 1).collect()
        }
    };
    if found.len() > MAX_PARAMS {
        return Err(format!("paramRef selects more than {MAX_PARAMS} objects"));
    }
    if found.is_empty() && text("parameterNotFoundAction") != Some("Allow") {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

fn is_selected(selector: &Value, object: &Value) -> bool {
    let none = Map::new();
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).unwrap_or(&none);
    selector.as_object().is_none_or(Map::is_empty) || matches_selector(selector, labels)
}
