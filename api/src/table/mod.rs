//! Printer columns: the tables that `kubectl get` shows.

mod admission;
mod age;
mod autoscaling;
mod batch;
mod certificate;
mod cluster;
mod custom;
mod device;
mod event;
mod flowcontrol;
mod ingress;
mod json_path;
mod node;
mod pod;
mod quota;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use self::admission::{
    BINDINGS_OF_POLICIES, MUTATING_POLICIES, VALIDATING_POLICIES, WEBHOOK_CONFIGURATIONS,
};
pub use self::age::duration;
pub use self::autoscaling::AUTOSCALERS;
pub use self::batch::{CRON_JOBS, JOBS};
pub use self::certificate::SIGNING_REQUESTS;
pub use self::cluster::{
    API_SERVICES, COMPONENT_STATUSES, CONFIG_MAPS, LEASES, NAMESPACES, PRIORITY_CLASSES, ROLE_BINDINGS,
    RUNTIME_CLASSES, SECRETS, SERVICE_ACCOUNTS,
};
pub use self::custom::{CustomColumn, CustomColumns};
pub use self::device::{RESOURCE_CLAIMS, RESOURCE_SLICES};
pub use self::event::EVENTS;
pub use self::flowcontrol::{FLOW_SCHEMAS, PRIORITY_LEVELS};
pub use self::ingress::{INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES, SERVICE_CIDRS};
pub use self::json_path::JsonPath;
pub use self::node::{NODE_METRICS, NODES, POD_METRICS};
pub use self::pod::PODS;
pub use self::quota::{DISRUPTION_BUDGETS, RESOURCE_QUOTAS};
pub use self::service::{ENDPOINT_SLICES, ENDPOINTS, SERVICES};
pub use self::storage::{
    ATTACHMENTS, ATTRIBUTES_CLASSES, CSI_DRIVERS, CSI_NODES, STORAGE_CAPACITIES, STORAGE_CLASSES,
};
pub use self::volume::{VOLUME_CLAIMS, VOLUMES};
pub use self::workload::{
    CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, POD_TEMPLATES, REPLICA_SETS, REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
};

/// An object as served.
pub type Object = Map<String, Value>;

/// A printer column, as `kubectl get` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The column header.
    pub name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// The OpenAPI format: `name` for the name of the object, otherwise empty.
    pub format: &'static str,
    /// The description of the column.
    pub description: &'static str,
    /// 0 for columns that are always shown; 1 for those with `-o wide`.
    pub priority: i32,
}

/// The printer columns of a built-in resource.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The column definitions.
    pub heads: &'static [Column],
    /// Returns the cells of an object, one per column.
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
}

impl Columns {
    /// The printer columns of a custom resource.
    pub fn custom(columns: Vec<CustomColumn>) -> CustomColumns {
        CustomColumns::new(columns)
    }
}

/// The columns of kinds without columns of their own.
pub const NAME_AND_AGE: Columns =
    Columns { heads: &[NAME, AGE], cells: |object, now| vec![name(object), age::of(object, now)] };

/// The name and the creation time, for kinds with little other information.
pub const NAME_AND_CREATED: Columns = Columns {
    heads: &[NAME, shown("Created At", "The creation time.")],
    cells: |object, _| vec![name(object), text(object, "metadata", "creationTimestamp").into()],
};

/// The first column of most tables.
pub const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: "The name.", priority: 0 };
const AGE: Column = shown("Age", "The time since creation.");

const fn shown(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..shown(name, description) }
}

const fn number(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..shown(name, description) }
}

const fn flag(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..shown(name, description) }
}

/// The text of an empty cell.
const NONE: &str = "<none>";

fn name(object: &Object) -> Value {
    text(object, "metadata", "name").into()
}

/// The string at `outer.inner`; empty if it is missing.
fn text<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a str {
    object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_str).unwrap_or_default()
}

/// The list at `outer.inner`; empty if it is missing.
fn list<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a [Value] {
    let list = object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The string in a field; empty if it is missing.
fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The status of the condition of the given type.
fn condition<'a>(object: &'a Object, of_type: &str) -> Option<&'a str> {
    let mut conditions = list(object, "status", "conditions").iter();
    conditions
        .find(|condition| field(condition, "type") == of_type)
        .map(|condition| field(condition, "status"))
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// The value at a path.
fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(name))
}

/// The integer at a path, or 0 if it is missing.
fn count(object: &Object, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// The string at a path; empty if it is missing.
fn text_at<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a path; empty if it is missing.
fn list_at<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The text, or `<unset>` if it is empty.
fn or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

/// Formats a scalar as text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Joins at most `most` texts, and adds the number of the others.
fn at_most(texts: &[String], most: usize) -> String {
    match texts.len() {
        0 => String::new(),
        all if all > most => format!("{} + {} more...", texts[..most].join(","), all - most),
        _ => texts.join(","),
    }
}

/// Labels such as `a=1,b=2`, or `<none>`.
fn labels(value: Option<&Value>) -> String {
    let mut pairs: Vec<String> = (value.and_then(Value::as_object).into_iter().flatten())
        .map(|(key, value)| format!("{key}={}", plain(value)))
        .collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// Formats a label selector as kubectl writes it, such as `app=web,tier in (a,b),!old`.
fn selector(value: Option<&Value>) -> String {
    let Some(value) = value else { return NONE.to_owned() };
    let mut parts: Vec<(String, String)> = (value.get("matchLabels").and_then(Value::as_object))
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", plain(value))))
        .collect();
    for expression in value.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = field(expression, "key");
        let mut values: Vec<String> =
            expression.get("values").and_then(Value::as_array).into_iter().flatten().map(plain).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match field(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => "<error>".to_owned(),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort();
    if parts.is_empty() {
        return NONE.to_owned();
    }
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}
