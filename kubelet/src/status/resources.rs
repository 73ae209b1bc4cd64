//! The resources a lone node serves, a row each.

use std::sync::LazyLock;

use apiserver::Resource;
use apiserver::kinds::common;
use apiserver::resource::{Fields, Subresource};
use serde_json::{Map, Value};

/// The name of pods in the store and in paths.
pub const PODS: &str = "pods";
/// The name of nodes.
pub const NODES: &str = "nodes";
/// The name of events.
pub const EVENTS: &str = "events";
/// The name of ConfigMaps.
pub const CONFIG_MAPS: &str = "configmaps";
/// The name of Secrets.
pub const SECRETS: &str = "secrets";

const READ: &[&str] = &["get", "list", "watch"];
const STREAM: &[&str] = &["create", "get"];

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let pods = common::pods()
        .part(Subresource::stream("attach", "PodAttachOptions", STREAM))
        .part(Subresource::stream("exec", "PodExecOptions", STREAM))
        .part(Subresource::stream("log", "Pod", &["get"]));
    let rows = [
        pods.owner(pod_owner),
        common::nodes().owner(kubelet_owner),
        common::events().owner(kubelet_owner),
        common::config_maps().owner(local_owner),
        common::secrets().owner(local_owner),
    ];
    rows.into_iter().map(|row| row.verbs(READ)).collect()
});

/// Everything that is served.
pub fn all() -> Vec<Resource> {
    RESOURCES.clone()
}

/// The row of a resource.
pub fn row_of(plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.plural == plural)
}

/// The fields of a resource that selectors may ask for.
pub fn fields(plural: &str) -> Fields {
    row_of(plural).map(|row| row.fields.clone()).unwrap_or_default()
}

/// The annotation that says which source a pod came from.
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
