//! Finds unsupported fields of a pod. The rules are parsed from `docs/pod-support.md`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::schema::{Kind, Schema, v1};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/pod-support.md");

/// A field, or a value of a field, for which admission rejects a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}{} is not supported on this node: {instead}", self.shown_value())]
pub struct Refusal {
    /// Path of the field, such as `spec.containers[0].volumeDevices`.
    pub path: String,
    /// The unsupported value, if other values of the field are supported.
    pub value: Option<String>,
    /// What to use instead.
    pub instead: &'static str,
}

impl Refusal {
    fn shown_value(&self) -> String {
        self.value.as_ref().map(|value| format!(": {value}")).unwrap_or_default()
    }
}

/// The annotation with the source, and its value for pods of the API server.
const SOURCE: (&str, &str) = ("kubernetes.io/config.source", "api");

/// All unsupported fields of a pod, in the order of the schema.
pub fn refusals(pod: &Pod) -> Vec<Refusal> {
    static REFUSED: LazyLock<Refused> = LazyLock::new(|| Refused::read(PAGE, &["refused", "of a master"]));
    static OF_MASTER: LazyLock<Refused> = LazyLock::new(|| Refused::read(PAGE, &["refused"]));
    let source = pod.metadata.annotations.as_ref().and_then(|all| all.get(SOURCE.0));
    let is_of_master = source.is_some_and(|source| source == SOURCE.1);
    let refused: &'static Refused = if is_of_master { &OF_MASTER } else { &REFUSED };
    let value = serde_json::to_value(&pod.spec).unwrap_or_default();
    let mut walk = Walk { schema: v1(), refused, found: Vec::new() };
    walk.value(&Kind::Object("PodSpec"), &value, "spec");
    walk.found
}

/// The rules by type and field.
struct Refused(BTreeMap<(&'static str, &'static str), Rule>);

/// The rule of a table row.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The unsupported value, or key of a map. A trailing `*` matches any suffix. `None` rejects the whole field.
    value: Option<&'static str>,
    instead: &'static str,
}

impl Rule {
    /// Parses a row. Its state rejects the field, or the clause ``; `VALUE` is refused: INSTEAD`` rejects a value.
    fn of_row(state: &str, text: &'static str, states: &[&str]) -> Option<Self> {
        if states.contains(&state) {
            return Some(Self { value: None, instead: text });
        }
        if state != "partly" {
            return None;
        }
        let (before, instead) = text.split_once("` is refused: ")?;
        Some(Self { value: Some(before.rsplit_once('`')?.1), instead })
    }

    fn matches(pattern: &str, text: &str) -> bool {
        pattern.strip_suffix('*').map_or(pattern == text, |prefix| text.starts_with(prefix))
    }
}

impl Refused {
    /// Parses headings (`## Type`) and rows (`| field | state | text |`) of the page. Returns the fields with one
    /// of these states, and unsupported values.
    fn read(page: &'static str, states: &[&str]) -> Self {
        let mut rows = BTreeMap::new();
        let mut of = "";
        for line in page.lines() {
            let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
            if let Some(heading) = line.strip_prefix("## ") {
                of = heading.trim();
            } else if let ["", field, state, text, ""] = cells[..]
                && let Some(rule) = Rule::of_row(state, text, states)
            {
                rows.insert((of, field.trim_matches('`')), rule);
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
                        Some(Rule { value: None, instead }) => {
                            self.found.push(Refusal { path, value: None, instead });
                        }
                        Some(Rule { value: Some(pattern), instead }) => {
                            self.refuse_values(pattern, instead, value, &path);
                        }
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

    /// Reports a scalar that matches the pattern, and matching keys of a map.
    fn refuse_values(&mut self, pattern: &str, instead: &'static str, value: &Value, path: &str) {
        if let Value::Object(entries) = value {
            for key in entries.keys().filter(|key| Rule::matches(pattern, key)) {
                self.found.push(Refusal { path: format!("{path}[{key}]"), value: None, instead });
            }
            return;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if Rule::matches(pattern, &text) {
            self.found.push(Refusal { path: path.to_owned(), value: Some(text), instead });
        }
    }
}

/// Whether a value is set. Empty lists and objects are not.
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
