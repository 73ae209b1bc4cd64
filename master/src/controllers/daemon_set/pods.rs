//! The pods of a DaemonSet as the plan sees them, and the pods that it creates. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use client::Json;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::eligibility::{Eligibility, default_tolerations};
use crate::controllers::object::Object;
use crate::controllers::workloads::history::POD_REVISION_LABEL;
use crate::controllers::workloads::pod_writes::pod_of;
use crate::controllers::workloads::replica::Replica;
use crate::objects::node_affinity::NODE_NAME;

/// The label with the template generation, which older clients read.
const TEMPLATE_GENERATION: &str = "pod-template-generation";
/// The annotation of a DaemonSet with its template generation.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// A node, and whether it runs a pod of the DaemonSet.
#[derive(Clone, Copy, Debug)]
pub struct DaemonNode<'a> {
    pub name: &'a str,
    pub eligibility: Eligibility,
}

/// A pod of a DaemonSet.
#[derive(Clone, Copy, Debug)]
pub struct DaemonPod<'a> {
    pub replica: Replica<'a>,
    /// The node for which the pod was created. It may not be bound yet.
    pub node: &'a str,
    /// Whether the phase is `Failed`.
    pub has_failed: bool,
}

impl<'a> DaemonPod<'a> {
    /// Reads a cached pod. Returns `None` if the pod is for no certain node.
    pub fn of(pod: &'a Object) -> Option<Self> {
        let fields = pod.pod();
        let node = if fields.node.is_empty() { &*fields.named_node } else { &*fields.node };
        let has_failed = &*fields.phase == "Failed";
        (!node.is_empty()).then(|| Self { replica: Replica::of(pod), node, has_failed })
    }

    /// Whether the pod was created from the revision with this hash.
    pub fn is_updated(&self, hash: &str) -> bool {
        !hash.is_empty() && self.replica.labels.get(POD_REVISION_LABEL) == Some(hash)
    }

    /// Whether the pod has been available for the minimum time.
    pub fn is_available(&self, min_ready: Duration, now: Timestamp) -> bool {
        self.replica.is_available(min_ready, now)
    }

    /// The order in which pods on a node are kept: bound pods first, then the oldest.
    pub fn keep_order(&self) -> impl Ord + use<'a> {
        (self.replica.node.is_empty(), self.replica.created, self.replica.name)
    }
}

/// Pods by the node for which they were created, in the order in which they are kept.
pub type PodsByNode<'a> = BTreeMap<&'a str, Vec<DaemonPod<'a>>>;

/// Groups the pods by node. Pods that have ended and are being deleted do not count.
pub fn by_node<'a>(pods: &[DaemonPod<'a>]) -> PodsByNode<'a> {
    let mut nodes = PodsByNode::new();
    for pod in pods.iter().filter(|pod| !(pod.replica.is_terminating && pod.replica.is_terminal())) {
        nodes.entry(pod.node).or_default().push(*pod);
    }
    nodes.values_mut().for_each(|pods| pods.sort_by_key(DaemonPod::keep_order));
    nodes
}

/// What the pods of a DaemonSet have in common.
#[derive(Clone, Copy, Debug)]
pub struct NewPods<'a> {
    /// The pod template.
    pub template: Option<&'a Json>,
    /// The hash of the current revision.
    pub hash: &'a str,
    /// The template generation, if the DaemonSet has the annotation.
    pub generation: Option<&'a str>,
}

impl NewPods<'_> {
    /// Returns the pod for a node, without name and owner. Its node affinity lets the scheduler bind it only there.
    pub fn on(&self, node: &str) -> Value {
        let mut pod = pod_of(self.template);
        if !pod["metadata"]["labels"].is_object() {
            pod["metadata"]["labels"] = json!({});
        }
        let labels = &mut pod["metadata"]["labels"];
        labels[POD_REVISION_LABEL] = self.hash.into();
        if let Some(generation) = self.generation.filter(|text| text.parse::<i64>().is_ok()) {
            labels[TEMPLATE_GENERATION] = generation.into();
        }
        if let Some(spec) = pod["spec"].as_object_mut() {
            let uses_host_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
            add_tolerations(spec, uses_host_network);
            require_node(spec, node);
        }
        pod
    }
}

/// Adds the default tolerations. They replace tolerations of the same taint that end after a time.
fn add_tolerations(spec: &mut Map<String, Value>, uses_host_network: bool) {
    let known = spec.get_mut("tolerations").and_then(Value::as_array_mut).map(std::mem::take);
    let mut all = known.unwrap_or_default();
    for (key, effect) in default_tolerations(uses_host_network) {
        let new = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |known: &&mut Value| {
            let field = |name: &str| known.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("key"), field("operator"), field("effect")) == (key, "Exists", effect)
        };
        match all.iter_mut().find(is_same) {
            Some(known) => *known = new,
            None => all.push(new),
        }
    }
    spec.insert("tolerations".to_owned(), all.into());
}

/// Replaces the required node affinity, which the node matches, by the name of the node.
fn require_node(spec: &mut Map<String, Value>, node: &str) {
    let field = json!({"key": NODE_NAME, "operator": "In", "values": [node]});
    let affinity = spec.entry("affinity").or_insert(Value::Null);
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}
