//! Printer columns of PodTemplates, and columns that workloads share.

use serde_json::Value;

use super::{Column, Columns, NAME, Object, field, labels, list_at, name, shown, wide};

/// The container names of the pod template.
pub(super) const CONTAINERS: Column = wide("Containers", "The names of the containers.");
/// The images of the pod template.
pub(super) const IMAGES: Column = wide("Images", "The images of the containers.");
/// The label selector.
pub(super) const SELECTOR: Column = wide("Selector", "The label selector of the pods.");

/// The printer columns of PodTemplates.
pub const POD_TEMPLATES: Columns = Columns {
    heads: &[
        NAME,
        Column { priority: 0, ..CONTAINERS },
        Column { priority: 0, ..IMAGES },
        shown("Pod Labels", "The labels of the pods."),
    ],
    cells: |object, _| pod_template(object),
};

fn pod_template(object: &Object) -> Vec<Value> {
    let [containers, images] = containers(object, &["template", "spec", "containers"]);
    let pod_labels = labels(super::at(object, &["template", "metadata", "labels"]));
    vec![name(object), containers, images, pod_labels.into()]
}

/// The names and images of the containers at a path.
pub(super) fn containers(object: &Object, path: &[&str]) -> [Value; 2] {
    let of = |what: &str| {
        let each: Vec<&str> = list_at(object, path).iter().map(|container| field(container, what)).collect();
        Value::from(each.join(","))
    };
    [of("name"), of("image")]
}
