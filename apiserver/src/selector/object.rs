//! Label selectors in objects: `matchLabels` and `matchExpressions`, or a map of labels.

use serde_json::{Map, Value};

/// One label requirement.
enum Requirement<'a> {
    In(&'a str, Vec<&'a str>),
    NotIn(&'a str, Vec<&'a str>),
    Exists(&'a str),
    Missing(&'a str),
    /// A requirement with an unknown operator, which matches nothing.
    Unknown,
}

/// Whether a selector matches these labels. An empty selector matches everything.
pub fn matches(selector: &Value, labels: &Map<String, Value>) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    requirements(selector).iter().all(|requirement| match requirement {
        Requirement::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
        Requirement::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(&value)),
        Requirement::Exists(key) => label(key).is_some(),
        Requirement::Missing(key) => label(key).is_none(),
        Requirement::Unknown => false,
    })
}

/// The selector in query syntax, such as `a=b,c in (d,e)`.
pub fn text(selector: &Value) -> String {
    if let Value::String(text) = selector {
        return text.clone();
    }
    let mut parts: Vec<String> = requirements(selector)
        .iter()
        .filter_map(|requirement| match requirement {
            Requirement::In(key, values) if values.len() == 1 => Some(format!("{key}={}", values[0])),
            Requirement::In(key, values) => Some(format!("{key} in ({})", sorted(values))),
            Requirement::NotIn(key, values) => Some(format!("{key} notin ({})", sorted(values))),
            Requirement::Exists(key) => Some((*key).to_owned()),
            Requirement::Missing(key) => Some(format!("!{key}")),
            Requirement::Unknown => None,
        })
        .collect();
    parts.sort_by(|one, other| one.trim_start_matches('!').cmp(other.trim_start_matches('!')));
    parts.join(",")
}

fn sorted(values: &[&str]) -> String {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.join(",")
}

fn requirements(selector: &Value) -> Vec<Requirement<'_>> {
    let Some(selector) = selector.as_object() else { return vec![Requirement::Unknown] };
    let is_plain = selector.values().all(Value::is_string);
    let labels =
        if is_plain { Some(selector) } else { selector.get("matchLabels").and_then(Value::as_object) };
    let labels = labels.into_iter().flatten().map(|(key, value)| match value.as_str() {
        Some(value) => Requirement::In(key, vec![value]),
        None => Requirement::Unknown,
    });
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    labels.chain(expressions.into_iter().flatten().map(expression)).collect()
}

fn expression(expression: &Value) -> Requirement<'_> {
    let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten().filter_map(Value::as_str).collect();
    match text("operator") {
        "In" => Requirement::In(text("key"), values),
        "NotIn" => Requirement::NotIn(text("key"), values),
        "Exists" => Requirement::Exists(text("key")),
        "DoesNotExist" => Requirement::Missing(text("key")),
        _ => Requirement::Unknown,
    }
}
