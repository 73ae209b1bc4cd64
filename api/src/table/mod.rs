//! Objects as people read them: the columns that kubectl prints, cell by cell.

mod admission;
mod age;
mod autoscaling;
mod batch;
mod certificate;
mod cluster;
mod custom;
mod data;
mod device;
mod event;
mod extension;
mod flow;
mod ingress;
mod json_path;
mod node;
mod pod;
mod quota;
mod rbac;
mod service;
mod storage;
mod template;
#[cfg(test)]
mod tests;
mod usage;
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
pub use self::cluster::{LEASES, NAMESPACES, PRIORITY_CLASSES, RUNTIME_CLASSES, SERVICE_ACCOUNTS};
pub use self::custom::{Custom, CustomColumn};
pub use self::data::{CONFIG_MAPS, SECRETS};
pub use self::device::{RESOURCE_CLAIMS, RESOURCE_SLICES};
pub use self::event::EVENTS;
pub use self::extension::API_SERVICES;
pub use self::flow::{FLOW_SCHEMAS, PRIORITY_LEVELS};
pub use self::ingress::{INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES, SERVICE_CIDRS};
pub use self::json_path::JsonPath;
pub use self::node::NODES;
pub use self::pod::PODS;
pub use self::quota::{DISRUPTION_BUDGETS, RESOURCE_QUOTAS};
pub use self::rbac::ROLE_BINDINGS;
pub use self::service::{ENDPOINT_SLICES, ENDPOINTS, SERVICES};
pub use self::storage::{
    ATTACHMENTS, ATTRIBUTES_CLASSES, CSI_DRIVERS, CSI_NODES, STORAGE_CAPACITIES, STORAGE_CLASSES,
};
pub use self::template::POD_TEMPLATES;
pub use self::usage::{NODE_METRICS, POD_METRICS};
pub use self::volume::{VOLUME_CLAIMS, VOLUMES};
pub use self::workload::{
    CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS,
};

/// An object as it is served.
pub type Object = Map<String, Value>;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// More about the kind: `name` for the object's name, else empty.
    pub format: &'static str,
    /// What stands in it, in a few words.
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

/// How objects of one built-in resource are printed.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The heads.
    pub heads: &'static [Column],
    /// The cells of one object, as many as there are heads.
    pub cells: fn(&Object, Timestamp) -> Vec<Value>,
}

impl Columns {
    /// The columns of a resource that is defined at run time, by whoever defined it.
    pub fn custom(columns: Vec<CustomColumn>) -> Custom {
        Custom::new(columns)
    }
}

/// What is left when nothing better is known.
pub const NAME_AND_AGE: Columns =
    Columns { heads: &[NAME, AGE], cells: |object, now| vec![name(object), age::of(object, now)] };

/// The name, and when it was made: what is shown of kinds that say little in a line.
pub const NAME_AND_CREATED: Columns = Columns {
    heads: &[NAME, shown("Created At", "When it was made.")],
    cells: |object, _| vec![name(object), text(object, "metadata", "creationTimestamp").into()],
};

/// What every table begins with.
pub const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: "What it is called.", priority: 0 };
const AGE: Column = shown("Age", "How long ago it was made.");

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

/// What stands in a cell that has nothing to say.
const NONE: &str = "<none>";

fn name(object: &Object) -> Value {
    text(object, "metadata", "name").into()
}

/// The text at `outer.inner`; empty when there is none.
fn text<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a str {
    object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_str).unwrap_or_default()
}

/// The list at `outer.inner`; empty when there is none.
fn list<'a>(object: &'a Object, outer: &str, inner: &str) -> &'a [Value] {
    let list = object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The text of a field; empty when there is none.
fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The status of the condition of that type.
fn condition<'a>(object: &'a Object, of_type: &str) -> Option<&'a str> {
    let mut conditions = list(object, "status", "conditions").iter();
    conditions
        .find(|condition| field(condition, "type") == of_type)
        .map(|condition| field(condition, "status"))
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// What a path of names leads to.
fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(name))
}

/// The number at a path; 0 when there is none.
fn count(object: &Object, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// The text at a path; empty when there is none.
fn text_at<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a path; empty when there is none.
fn list_at<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What is there, or that it is not set.
fn or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

/// A value as text: text as it is, numbers and flags as they are written.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// At most so many of the texts, and how many more there are.
fn at_most(texts: &[String], most: usize) -> String {
    match texts.len() {
        0 => String::new(),
        all if all > most => format!("{} + {} more...", texts[..most].join(","), all - most),
        _ => texts.join(","),
    }
}

/// `a=1,b=2`, or that there are none.
fn labels(value: Option<&Value>) -> String {
    let mut pairs: Vec<String> = (value.and_then(Value::as_object).into_iter().flatten())
        .map(|(key, value)| format!("{key}={}", plain(value)))
        .collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A label selector as people type it: `app=web,tier in (a,b),!old`; empty selects everything.
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
