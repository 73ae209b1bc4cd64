//! The parameter objects of a policy binding.

use apiserver::registry::Registry;
use apiserver::watch_cache::Scope;
use serde_json::Value;

use super::objects::{ParamKind, ParamRef};
use crate::objects::{LabelSelector, PartialObject, decode};

/// Maximum number of parameter objects per binding. All expressions are evaluated for each of them.
const MAX_PARAMS: usize = 100;

/// Returns the parameter objects of a binding, one for each evaluation. If the policy takes no parameters, returns
/// one `null`.
///
/// # Errors
/// If the parameters are missing or invalid. The error is the stock message.
pub fn collect(
    registry: &Registry,
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
    namespace: Option<&str>,
) -> Result<Vec<Value>, String> {
    let (Some(ParamKind { api_version, kind }), Some(reference)) = (kind, reference) else {
        return Ok(vec![Value::Null]);
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let rows = registry.rows();
    let row = rows.kind(group, version, kind);
    let row = row.ok_or_else(|| format!("paramKind kind `{api_version}, Kind={kind}` not known"))?;
    let scope = match (row.namespaced, &*reference.namespace) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") => namespace.ok_or(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
        )?,
        (true, own) => own,
    };
    let cache = registry.cache();
    let objects = match &*reference.name {
        "" => {
            let all = if row.namespaced { Scope::Namespace(scope.to_owned()) } else { Scope::All };
            let mut objects = cache.list(row.stored(), &all).objects;
            objects.retain(|object| is_selected(&reference.selector, object.json()));
            objects
        }
        name => cache.get(row.stored(), scope, name).into_iter().collect(),
    };
    let found: Vec<Value> =
        objects.iter().take(MAX_PARAMS + 1).map(|object| Value::Object(row.tree(object))).collect();
    if found.len() > MAX_PARAMS {
        return Err(format!("paramRef selects more than {MAX_PARAMS} objects"));
    }
    if found.is_empty() && &*reference.parameter_not_found_action != "Allow" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

fn is_selected(selector: &LabelSelector, json: &[u8]) -> bool {
    *selector == LabelSelector::default() || selector.matches(&decode::<PartialObject>(json).metadata.labels)
}
