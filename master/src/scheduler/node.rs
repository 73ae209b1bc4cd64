//! The scheduler's view of a node: its fields, and the aggregated requests of its pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::pod::{HostPort, Pod};
use super::resource::Resource;
use crate::objects::labels::Labels;
use crate::objects::{self, List, Taint};

/// Index of a node in the cache.
pub type NodeId = u32;

/// The fields of a Node that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: List<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: Resource,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// Size of each image in bytes, by image name.
    pub images: BTreeMap<String, i64>,
}

impl Node {
    /// Parses a Node.
    pub fn of(object: objects::Node) -> Self {
        let objects::Node { metadata, spec, status } = object;
        let (allocatable, allowed_pods) = Resource::read(&status.allocatable);
        let images = status.images.iter();
        let images =
            images.flat_map(|image| image.names.iter().map(move |name| (name.to_string(), image.size_bytes)));
        Self {
            name: metadata.name.into(),
            labels: metadata.labels,
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            allocatable,
            allowed_pods,
            images: images.collect(),
        }
    }

    /// Returns the region and zone. They are empty if the node has no such labels.
    pub fn zone(&self) -> [&str; 2] {
        let has_label = |newer: &str, older: &str| {
            self.labels.get(newer).or_else(|| self.labels.get(older)).unwrap_or_default()
        };
        [
            has_label("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
            has_label("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
        ]
    }
}

/// A node with its aggregated pods. `node` is `None` while only its pods are known.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// The Node, if it exists.
    pub node: Option<Node>,
    /// Sum of the pods' requests.
    pub requested: Resource,
    /// Sum of the pods' requests for scoring, with defaults for containers that request nothing.
    pub non_zero_requested: Resource,
    /// Number of pods.
    pub pod_count: i64,
    /// Host ports in use, each with the number of pods that use it.
    pub host_ports: HashMap<HostPort, u32>,
    pub pods: Vec<Arc<Pod>>,
}

impl NodeInfo {
    /// Adds a pod to the sums.
    pub fn add_pod(&mut self, pod: &Arc<Pod>) {
        self.pods.push(pod.clone());
        self.requested.add(&pod.spec.requests);
        self.non_zero_requested.add(&pod.spec.non_zero_requested);
        self.pod_count += 1;
        for port in &pod.spec.host_ports {
            *self.host_ports.entry(port.clone()).or_default() += 1;
        }
    }

    /// Removes a pod from the sums.
    pub fn remove_pod(&mut self, pod: &Pod) {
        if let Some(at) = self.pods.iter().position(|other| other.uid == pod.uid) {
            self.pods.swap_remove(at);
        }
        self.requested.subtract(&pod.spec.requests);
        self.non_zero_requested.subtract(&pod.spec.non_zero_requested);
        self.pod_count -= 1;
        for port in &pod.spec.host_ports {
            if let Some(count) = self.host_ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.host_ports.remove(port);
                }
            }
        }
    }

    /// Replaces a pod with its new version, which has the same requests.
    pub fn update_pod(&mut self, pod: &Arc<Pod>) {
        if let Some(known) = self.pods.iter_mut().find(|other| other.uid == pod.uid) {
            *known = pod.clone();
        }
    }
}
