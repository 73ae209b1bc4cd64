//! Printer columns of resource metrics (`metrics.k8s.io`).

use serde_json::Value;

use super::{Columns, NAME, Object, name, shown};
use crate::quantity::Quantity;

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
