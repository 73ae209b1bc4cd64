//! The resources a lone node serves, a row each.

use api::table;
use apiserver::Resource;
use apiserver::resource::Subresource;
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

/// Everything that is served.
pub const RESOURCES: &[Resource] = &[
    Resource {
        short_names: &["po"],
        categories: &["all"],
        subresources: &[
            Subresource { name: "attach", kind: "PodAttachOptions", verbs: &["create", "get"] },
            Subresource { name: "exec", kind: "PodExecOptions", verbs: &["create", "get"] },
            Subresource { name: "log", kind: "Pod", verbs: &["get"] },
        ],
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.hostNetwork",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        columns: table::PODS,
        owner: pod_owner,
        ..row("Pod", PODS, "pod")
    },
    Resource {
        short_names: &["no"],
        namespaced: false,
        fields: &["spec.unschedulable"],
        columns: table::NODES,
        ..row("Node", NODES, "node")
    },
    Resource {
        short_names: &["ev"],
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        columns: table::EVENTS,
        ..row("Event", EVENTS, "event")
    },
    Resource {
        short_names: &["cm"],
        columns: table::CONFIG_MAPS,
        owner: local_owner,
        ..row("ConfigMap", CONFIG_MAPS, "configmap")
    },
    Resource {
        fields: &["type"],
        columns: table::SECRETS,
        owner: local_owner,
        ..row("Secret", SECRETS, "secret")
    },
];

const fn row(kind: &'static str, plural: &'static str, singular: &'static str) -> Resource {
    Resource {
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        namespaced: true,
        short_names: &[],
        categories: &[],
        verbs: READ,
        subresources: &[],
        fields: &[],
        columns: table::NAME_AND_AGE,
        owner: kubelet_owner,
    }
}

/// The fields of a resource that selectors may ask for.
pub fn fields(plural: &str) -> &'static [&'static str] {
    RESOURCES.iter().find(|resource| resource.plural == plural).map_or(&[], |resource| resource.fields)
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
