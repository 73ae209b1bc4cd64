//! Resource definitions of the local API.

use std::sync::LazyLock;

use api::table::PODS as PODS_TABLE;
use apiserver::kinds::common;
use apiserver::resource::{Columns, Head};
use apiserver::resource::{Fields, Subresource};
use apiserver::{Catalog, Resource};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::observed::EDIT_PENDING;

/// Resource name of pods.
pub const PODS: &str = "pods";
/// Resource name of nodes.
pub const NODES: &str = "nodes";
/// Resource name of events.
pub const EVENTS: &str = "events";
/// Resource name of ConfigMaps.
pub const CONFIG_MAPS: &str = "configmaps";
/// Resource name of Secrets.
pub const SECRETS: &str = "secrets";
/// Resource name of Services.
pub const SERVICES: &str = "services";
/// Resource name of EndpointSlices, with its group.
pub const ENDPOINT_SLICES: &str = "endpointslices.discovery.k8s.io";
/// Resource name of Namespaces.
pub const NAMESPACES: &str = "namespaces";

const READ: &[&str] = &["get", "list", "watch"];
const STREAM: &[&str] = &["create", "get"];

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let pods = common::node_pods()
        .part(Subresource::stream("attach", "PodAttachOptions", STREAM))
        .part(Subresource::stream("exec", "PodExecOptions", STREAM))
        .part(Subresource::stream("log", "Pod", &["get"]));
    vec![
        pods.columns(PodColumns),
        common::nodes().verbs(READ).owner(kubelet_owner),
        common::events().verbs(READ).owner(kubelet_owner),
        common::config_maps(),
        common::secrets(),
        common::namespaces(),
        common::services(),
        common::endpoint_slices().verbs(READ).owner(slice_owner),
    ]
});

/// Position of the Edit column. It is after Restarts, so that Age stays the last default column.
const EDIT_COLUMN: usize = 4;

/// The stock columns of pods, plus the pending edit.
struct PodColumns;

impl Columns for PodColumns {
    fn heads(&self) -> Vec<Head> {
        let edit = Head {
            name: "Edit".into(),
            kind: "string".into(),
            format: "".into(),
            description: "Why the latest version of its manifest does not run.".into(),
            priority: 0,
        };
        let mut heads = Columns::heads(&PODS_TABLE);
        heads.insert(EDIT_COLUMN.min(heads.len()), edit);
        heads
    }

    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value> {
        let mut cells = Columns::cells(&PODS_TABLE, object, now);
        let conditions = object.get("status").and_then(|status| status.get("conditions"));
        let pending = conditions
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == EDIT_PENDING && condition["status"] == "True");
        let reason = pending.map_or_else(|| "<none>".into(), |condition| condition["reason"].clone());
        cells.insert(EDIT_COLUMN.min(cells.len()), reason);
        cells
    }
}

pub fn all() -> Vec<Resource> {
    RESOURCES.clone()
}

/// The resources that a node serves, with those of the metrics API.
pub fn catalog() -> Catalog {
    Catalog::new(all().into_iter().chain(apiserver::metrics_api::resources()))
}

/// The row of a resource by the name in the store, such as [`ENDPOINT_SLICES`].
pub fn row_of(stored: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.stored() == stored)
}

/// The fields of a resource that field selectors support.
pub fn fields(plural: &str) -> Fields {
    row_of(plural).map(|row| row.fields.clone()).unwrap_or_default()
}

fn slice_owner(_: &Map<String, Value>) -> String {
    "the kubelet computes it from the Service and its pods, and no client may change it: change these instead"
        .to_owned()
}

fn kubelet_owner(_: &Map<String, Value>) -> String {
    "the kubelet maintains it, and no client may change it: change the flags of the kubelet, such as --node-labels"
        .to_owned()
}
