//! Pod templates, and what other tables show of the template they make pods of.

use serde_json::Value;

use super::{Column, Columns, NAME, Object, field, labels, list_at, name, shown, wide};

/// Containers of the template.
pub(super) const CONTAINERS: Column = wide("Containers", "The names of the containers.");
/// Their images.
pub(super) const IMAGES: Column = wide("Images", "The images of the containers.");
/// Which pods are meant.
pub(super) const SELECTOR: Column = wide("Selector", "Which pods belong to it.");

/// Pod templates.
pub const POD_TEMPLATES: Columns = Columns {
    heads: &[
        NAME,
        Column { priority: 0, ..CONTAINERS },
        Column { priority: 0, ..IMAGES },
        shown("Pod Labels", "The labels of pods made of it."),
    ],
    cells: |object, _| pod_template(object),
};

fn pod_template(object: &Object) -> Vec<Value> {
    let [containers, images] = containers(object, &["template", "spec", "containers"]);
    let pod_labels = labels(super::at(object, &["template", "metadata", "labels"]));
    vec![name(object), containers, images, pod_labels.into()]
}

/// Names and images of the containers at a path.
pub(super) fn containers(object: &Object, path: &[&str]) -> [Value; 2] {
    let of = |what: &str| {
        let each: Vec<&str> = list_at(object, path).iter().map(|container| field(container, what)).collect();
        Value::from(each.join(","))
    };
    [of("name"), of("image")]
}
