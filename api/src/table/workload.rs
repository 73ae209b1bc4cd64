//! Printer columns of workload kinds and PodTemplates.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, Columns, NAME, NONE, Object, age, at, count, field, labels, list, list_at, name, number,
    selector, shown, wide,
};

const TEMPLATE: &[&str] = &["spec", "template", "spec", "containers"];
const DESIRED: Column = number("Desired", "The desired number of pods.");
const CURRENT: Column = number("Current", "The number of pods.");
const READY: Column = number("Ready", "The number of ready pods.");
const UP_TO_DATE: Column = number("Up-to-date", "The number of pods of the current template.");
const AVAILABLE: Column = number("Available", "The number of pods that have been ready for minReadySeconds.");
const READY_OF: Column = shown("Ready", "The number of ready pods and of desired pods.");

/// The printer columns of Deployments.
pub const DEPLOYMENTS: Columns = Columns {
    heads: &[NAME, READY_OF, UP_TO_DATE, AVAILABLE, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: deployment,
};

/// The printer columns of ReplicaSets.
pub const REPLICA_SETS: Columns = Columns {
    heads: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |object, now| replicas(object, selector(at(object, &["spec", "selector"])), now),
};

/// The printer columns of ReplicationControllers.
pub const REPLICATION_CONTROLLERS: Columns = Columns {
    heads: REPLICA_SETS.heads,
    cells: |object, now| replicas(object, labels(at(object, &["spec", "selector"])), now),
};

/// The printer columns of StatefulSets.
pub const STATEFUL_SETS: Columns =
    Columns { heads: &[NAME, READY_OF, AGE, CONTAINERS, IMAGES], cells: stateful_set };

/// The printer columns of DaemonSets.
pub const DAEMON_SETS: Columns = Columns {
    heads: &[
        NAME,
        number("Desired", "The desired number of nodes with a pod."),
        number("Current", "The number of nodes with a pod."),
        number("Ready", "The number of nodes with a ready pod."),
        UP_TO_DATE,
        AVAILABLE,
        shown("Node Selector", "The node selector of the pods."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: daemon_set,
};

/// The printer columns of ControllerRevisions.
pub const CONTROLLER_REVISIONS: Columns = Columns {
    heads: &[
        NAME,
        shown("Controller", "The controller of the revision."),
        shown("Revision", "The revision number."),
        AGE,
    ],
    cells: controller_revision,
};

fn ready_of(object: &Object) -> Value {
    let (ready, wanted) = (count(object, &["status", "readyReplicas"]), count(object, &["spec", "replicas"]));
    format!("{ready}/{wanted}").into()
}

fn deployment(object: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object, TEMPLATE);
    vec![
        name(object),
        ready_of(object),
        count(object, &["status", "updatedReplicas"]).into(),
        count(object, &["status", "availableReplicas"]).into(),
        age::of(object, now),
        containers,
        images,
        selector(at(object, &["spec", "selector"])).into(),
    ]
}

fn replicas(object: &Object, selector: String, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object, TEMPLATE);
    vec![
        name(object),
        count(object, &["spec", "replicas"]).into(),
        count(object, &["status", "replicas"]).into(),
        count(object, &["status", "readyReplicas"]).into(),
        age::of(object, now),
        containers,
        images,
        selector.into(),
    ]
}

fn stateful_set(object: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object, TEMPLATE);
    vec![name(object), ready_of(object), age::of(object, now), containers, images]
}

fn daemon_set(object: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers(object, TEMPLATE);
    let number = |of: &str| Value::from(count(object, &["status", of]));
    vec![
        name(object),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        labels(at(object, &["spec", "template", "spec", "nodeSelector"])).into(),
        age::of(object, now),
        containers,
        images,
        selector(at(object, &["spec", "selector"])).into(),
    ]
}

fn controller_revision(object: &Object, now: Timestamp) -> Vec<Value> {
    let revision = object.get("revision").and_then(Value::as_i64).unwrap_or_default();
    vec![name(object), controller(object).into(), revision.into(), age::of(object, now)]
}

/// The controller that owns the object, such as `daemonset.apps/logs`.
fn controller(object: &Object) -> String {
    let mut owners = list(object, "metadata", "ownerReferences").iter();
    let owner = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    let Some(owner) = owner else { return NONE.to_owned() };
    let kind = field(owner, "kind").to_lowercase();
    match field(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", field(owner, "name")),
        None => format!("{kind}/{}", field(owner, "name")),
    }
}

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
