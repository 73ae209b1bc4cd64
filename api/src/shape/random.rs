//! Generates random objects for tests, often with the fields of the sample types.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "metadata",
        "spec",
        "template",
        "containers",
        "name",
        "image",
        "ports",
        "containerPort",
        "protocol",
        "labels",
        "finalizers",
        "nodeSelector",
        "resources",
        "limits",
        "securityContext",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "a",
        "b",
        "",
    ])
    .prop_map(str::to_owned)
}

fn plain() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        Just(json!(1.5)),
        prop::sample::select(vec!["a", "b", "TCP", "", "replace", "delete", "merge"]).prop_map(Value::from),
    ]
}

fn fields(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((name(), values), 0..6)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Returns a random small value.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    plain().prop_recursive(5, 24, 5, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), fields(inner)]
    })
}

/// Returns a random small object.
pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    fields(any_value())
}

/// Returns a random Pod with fields that clients apply. With `twins`, it has ports with equal numbers and different
/// protocols, which only server-side apply distinguishes.
pub(crate) fn any_pod(twins: bool) -> impl Strategy<Value = Value> {
    let some = |names: &[&'static str]| prop::sample::subsequence(names.to_vec(), 0..=names.len());
    let port = (80..83_u16, prop::option::of(prop::sample::select(vec!["TCP", "UDP"])));
    let container = (0..3_u8, prop::option::of(prop::collection::vec(port, 0..3)), any::<bool>());
    let containers = (some(&["x", "y", "z"]).prop_shuffle(), prop::collection::vec(container, 3));
    let parts = (
        containers,
        some(&["l", "m"]),
        some(&["f", "g", "h"]).prop_shuffle(),
        some(&["n", "o"]),
        any::<bool>(),
    );
    parts.prop_map(move |((names, contents), labels, finalizers, nodes, host)| {
        let containers = names.iter().zip(contents);
        let containers =
            containers.map(|(name, (image, ports, root))| container_of(name, image, ports, root, twins));
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "finalizers": finalizers},
            "spec": {"containers": containers.collect::<Vec<_>>()},
        });
        pod["metadata"]["labels"] =
            labels.iter().map(|key| ((*key).to_owned(), json!("x"))).collect::<Map<_, _>>().into();
        if host {
            pod["spec"]["nodeSelector"] =
                nodes.iter().map(|key| ((*key).to_owned(), json!("x"))).collect::<Map<_, _>>().into();
        }
        pod
    })
}

fn container_of(
    name: &str,
    image: u8,
    ports: Option<Vec<(u16, Option<&str>)>>,
    root: bool,
    twins: bool,
) -> Value {
    let mut container = json!({"name": name, "image": format!("i:{image}")});
    if let Some(ports) = ports {
        let mut seen = std::collections::BTreeSet::new();
        let ports = ports.into_iter().filter(|(port, protocol)| {
            let protocol = if twins { protocol.unwrap_or("TCP") } else { "" };
            seen.insert((*port, protocol))
        });
        container["ports"] = ports
            .map(|(port, protocol)| match protocol {
                None => json!({"containerPort": port}),
                Some(protocol) => json!({"containerPort": port, "protocol": protocol}),
            })
            .collect();
    }
    if root {
        container["securityContext"] = json!({"runAsUser": 0});
    }
    container
}
