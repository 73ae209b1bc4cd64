//! Printer columns of Nodes and of resource metrics (`metrics.k8s.io`).

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, NONE, Object, age, condition, field, list, name, or_none, shown, wide};
use crate::quantity::Quantity;

/// The printer columns of Nodes.
pub const NODES: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "Whether the node is ready and schedulable."),
        shown("Roles", "The type."),
        AGE,
        shown("Version", "The kubelet version."),
        wide("Internal-IP", "The internal IP address."),
        wide("External-IP", "The external IP address."),
        wide("OS-Image", "The operating system."),
        wide("Kernel-Version", "The kernel version."),
        wide("Container-Runtime", "The container runtime."),
    ],
    cells,
};

fn cells(node: &Object, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| {
        let info = node.get("status").and_then(|status| status.get("nodeInfo"));
        info.and_then(|info| info.get(field)).and_then(Value::as_str).unwrap_or_default()
    };
    let unknown = |text: &str| if text.is_empty() { "<unknown>".into() } else { Value::from(text) };
    vec![
        name(node),
        status(node).into(),
        roles(node).into(),
        age::of(node, now),
        info("kubeletVersion").into(),
        or_none(address(node, "InternalIP")),
        or_none(address(node, "ExternalIP")),
        unknown(info("osImage")),
        unknown(info("kernelVersion")),
        unknown(info("containerRuntimeVersion")),
    ]
}

fn status(node: &Object) -> String {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let spec = node.get("spec").and_then(|spec| spec.get("unschedulable"));
    if spec.and_then(Value::as_bool) == Some(true) {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// Roles from the labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role`.
fn roles(node: &Object) -> String {
    let labels = node.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let mut roles: Vec<&str> = (labels.into_iter().flatten())
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address<'a>(node: &'a Object, of_type: &str) -> &'a str {
    let mut addresses = list(node, "status", "addresses").iter();
    addresses
        .find(|address| field(address, "type") == of_type)
        .map_or("", |address| field(address, "address"))
}

/// The printer columns of NodeMetrics.
pub const NODE_METRICS: Columns = Columns {
    heads: HEADS,
    cells: |object, _| {
        let usage: Vec<&Value> = object.get("usage").into_iter().collect();
        row(object, &usage)
    },
};

/// The printer columns of PodMetrics.
pub const POD_METRICS: Columns = Columns {
    heads: HEADS,
    cells: |object, _| {
        let containers = object.get("containers").and_then(Value::as_array);
        let usage: Vec<&Value> = containers.into_iter().flatten().filter_map(|of| of.get("usage")).collect();
        row(object, &usage)
    },
};

const HEADS: &[super::Column] = &[
    NAME,
    shown("cpu", "The average CPU usage in cores."),
    shown("memory", "The memory usage in bytes."),
    shown("Window", "The measurement window."),
];

fn sum(usage: &[&Value], of: &str) -> Value {
    let amounts = usage.iter().filter_map(|usage| usage.get(of)?.as_str()?.parse::<Quantity>().ok());
    let sum = amounts.reduce(Quantity::plus);
    sum.map_or(Value::Null, |sum| sum.to_string().into())
}

fn row(object: &Object, usage: &[&Value]) -> Vec<Value> {
    let window = object.get("window").cloned().unwrap_or_default();
    vec![name(object), sum(usage, "cpu"), sum(usage, "memory"), window]
}
