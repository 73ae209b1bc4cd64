//! Which fields of a Pod this node refuses: read from the very page that tells people so.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::schema::{Kind, Schema, v1};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/pod-support.md");

/// A field that keeps its pod from running here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is not supported on this node: {instead}")]
pub struct Refusal {
    /// Where it stands, such as `spec.containers[0].volumeDevices`.
    pub path: String,
    /// What to do about it.
    pub instead: &'static str,
}

/// The annotation that names the source of a pod, and its value for those of a master.
const SOURCE: (&str, &str) = ("kubernetes.io/config.source", "api");

/// Every refused field that a pod uses, in the order of the schema.
pub fn refusals(pod: &Pod) -> Vec<Refusal> {
    static REFUSED: LazyLock<Refused> = LazyLock::new(|| Refused::read(PAGE, &["refused", "of a master"]));
    static OF_MASTER: LazyLock<Refused> = LazyLock::new(|| Refused::read(PAGE, &["refused"]));
    let source = pod.metadata.annotations.as_ref().and_then(|all| all.get(SOURCE.0));
    let is_of_master = source.is_some_and(|source| source == SOURCE.1);
    let refused: &'static Refused = if is_of_master { &OF_MASTER } else { &REFUSED };
    // A typed pod always becomes JSON; one that did not would have no fields to refuse.
    let value = serde_json::to_value(&pod.spec).unwrap_or_default();
    let mut walk = Walk { schema: v1(), refused, found: Vec::new() };
    walk.value(&Kind::Object("PodSpec"), &value, "spec");
    walk.found
}

/// What to do instead, by type and field.
struct Refused(BTreeMap<(&'static str, &'static str), &'static str>);

impl Refused {
    /// Reads headings (`## Type`) and rows (`| field | state | instead |`) of these states.
    fn read(page: &'static str, states: &[&str]) -> Self {
        let mut rows = BTreeMap::new();
        let mut of = "";
        for line in page.lines() {
            let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
            if let Some(heading) = line.strip_prefix("## ") {
                of = heading.trim();
            } else if let ["", field, state, instead, ""] = cells[..]
                && states.contains(&state)
            {
                rows.insert((of, field.trim_matches('`')), instead);
            }
        }
        Self(rows)
    }
}

struct Walk<'a> {
    schema: &'static Schema,
    refused: &'a Refused,
    found: Vec<Refusal>,
}

impl Walk<'_> {
    fn value(&mut self, of: &Kind, value: &Value, path: &str) {
        match (of, value) {
            (Kind::Object(name), Value::Object(fields)) => {
                let Some(of) = self.schema.get(name) else { return };
                for (field, kind) in &of.fields {
                    let Some(value) = fields.get(*field).filter(|value| is_set(value)) else { continue };
                    let path = format!("{path}.{field}");
                    match self.refused.0.get(&(of.name, *field)) {
                        Some(instead) => self.found.push(Refusal { path, instead }),
                        None => self.value(kind, value, &path),
                    }
                }
            }
            (Kind::List(of), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(of, item, &format!("{path}[{index}]"));
                }
            }
            (Kind::Map(of), Value::Object(entries)) => {
                for (key, value) in entries {
                    self.value(of, value, &format!("{path}[{key}]"));
                }
            }
            _ => {}
        }
    }
}

/// An empty list or object asks for nothing.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests;
