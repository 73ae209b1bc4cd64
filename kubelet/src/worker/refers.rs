//! Which ConfigMaps, Secrets and tokens matter to a pod: a change of any other is none of its worker's business.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::references::References;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::Assignment;
use crate::spec;

/// True when nothing that the worker acts on differs: the pod, its end, and the objects it may refer to.
pub(super) fn is_same(before: &Assignment, now: &Assignment) -> bool {
    Arc::ptr_eq(&before.pod, &now.pod)
        && before.ending == now.ending
        && (Arc::ptr_eq(&before.references, &now.references)
            || same_references(&now.pod.pod, &before.references, &now.references))
}

fn same_references(pod: &Pod, before: &References, now: &References) -> bool {
    let mut names = BTreeSet::new();
    collect(&serde_json::to_value(&pod.spec).unwrap_or_default(), &mut names);
    let namespace = spec::namespace(pod);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    before.tokens_of(uid).eq(now.tokens_of(uid))
        && names.iter().all(|name| {
            before.config_map(namespace, name) == now.config_map(namespace, name)
                && before.secret(namespace, name) == now.secret(namespace, name)
        })
}

/// Every text that could name an object: more than do, and never fewer.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if field == "name" || field == "secretName" => {
                        names.insert(text.clone());
                    }
                    other => collect(other, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
