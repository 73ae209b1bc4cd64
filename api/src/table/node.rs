//! Nodes: whether they are ready, what they are for, what they run.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, NONE, Object, age, condition, field, list, name, or_none, shown, wide};

/// Nodes.
pub const NODES: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "Whether it is ready for pods, and may be given any."),
        shown("Roles", "What it is for."),
        AGE,
        shown("Version", "That of its kubelet."),
        wide("Internal-IP", "Its address for other nodes."),
        wide("External-IP", "Its address for everybody."),
        wide("OS-Image", "Its operating system."),
        wide("Kernel-Version", "Its kernel."),
        wide("Container-Runtime", "What runs its containers."),
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

/// From labels: `node-role.kubernetes.io/ROLE`, or the older `kubernetes.io/role: ROLE`.
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
