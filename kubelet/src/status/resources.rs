//! Resource definitions of the local API.

use std::sync::LazyLock;

use api::table::PODS as PODS_TABLE;
use apiserver::Resource;
use apiserver::kinds::common;
use apiserver::resource::{Columns, Head};
use apiserver::resource::{Fields, Subresource};
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

const READ: &[&str] = &["get", "list", "watch"];
const STREAM: &[&str] = &["create", "get"];

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let pods = common::pods()
        .part(Subresource::stream("attach", "PodAttachOptions", STREAM))
        .part(Subresource::stream("exec", "PodExecOptions", STREAM))
        .part(Subresource::stream("log", "Pod", &["get"]));
    let rows = [
        pods.owner(pod_owner).columns(PodColumns),
        common::nodes().owner(kubelet_owner),
        common::events().owner(kubelet_owner),
        common::config_maps().owner(local_owner),
        common::secrets().owner(local_owner),
    ];
    rows.into_iter().map(|row| row.verbs(READ)).collect()
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

/// The row of a resource.
pub fn row_of(plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.plural == plural)
}

/// The fields of a resource that field selectors support.
pub fn fields(plural: &str) -> Fields {
    row_of(plural).map(|row| row.fields.clone()).unwrap_or_default()
}

/// Annotation with the source of a pod.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

fn pod_owner(object: &Map<String, Value>) -> String {
    let annotations = object.get("metadata").and_then(|m| m.get("annotations"));
    match annotations.and_then(|a| a.get(CONFIG_SOURCE)).and_then(Value::as_str) {
        Some("file") => {
            "it belongs to a file in the kubelet's --pod-manifest-path: change or remove it there"
        }
        Some("http") => "it belongs to the kubelet's --manifest-url: change or remove it there",
        Some("api") => "it belongs to the master: change or delete it there",
        _ => {
            "this kubelet takes pods from --pod-manifest-path and --manifest-url only: put the manifest there"
        }
    }
    .to_owned()
}

fn local_owner(_: &Map<String, Value>) -> String {
    "it belongs to a local source of the kubelet (--pod-manifest-path, --manifest-url): change it there"
        .to_owned()
}

fn kubelet_owner(_: &Map<String, Value>) -> String {
    "it is the kubelet's own account of this node and read-only".to_owned()
}
