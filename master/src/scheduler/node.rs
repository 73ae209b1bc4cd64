//! A node as the scheduler sees it: what it has, what keeps pods off it, and what its pods ask for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::amounts::Amounts;
use super::labels::Labels;
use super::pod::{Pod, Port};
use super::read::{at, labels, list, text, text_at};
use super::taints::Taint;
use crate::controllers::Json;

/// Which node of a cluster.
pub type NodeId = u32;

/// What a Node says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// What keeps pods off it.
    pub taints: Vec<Taint>,
    /// It is cordoned.
    pub unschedulable: bool,
    /// What there is for pods.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub most_pods: i64,
    /// Images that it holds, and how large they are in bytes.
    pub images: BTreeMap<String, i64>,
}

/// What is read of a Node.
pub const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.labels",
    "spec.taints",
    "spec.unschedulable",
    "status.allocatable",
    "status.images",
];

impl Node {
    /// Reads a Node.
    pub fn of(object: &Json) -> Self {
        let (allocatable, most_pods) = Amounts::read(at(object, "status.allocatable"));
        let taint = |taint: &Value| Taint {
            key: text(taint, "key").to_owned(),
            value: text(taint, "value").to_owned(),
            effect: text(taint, "effect").to_owned(),
        };
        let images = list(at(object, "status.images")).flat_map(|image| {
            let size = image.get("sizeBytes").and_then(Value::as_i64).unwrap_or_default();
            list(image.get("names")).filter_map(Value::as_str).map(move |name| (name.to_owned(), size))
        });
        Self {
            name: text_at(object, "metadata.name"),
            labels: labels(at(object, "metadata.labels")),
            taints: list(at(object, "spec.taints")).map(taint).collect(),
            unschedulable: at(object, "spec.unschedulable").and_then(Value::as_bool).unwrap_or_default(),
            allocatable,
            most_pods,
            images: images.collect(),
        }
    }
}

impl Node {
    /// Its region and zone, empty where it says nothing of them.
    pub fn zone(&self) -> [&str; 2] {
        let says = |newer: &str, older: &str| {
            self.labels.get(newer).or_else(|| self.labels.get(older)).map(String::as_str).unwrap_or_default()
        };
        [
            says("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
            says("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
        ]
    }
}

/// A node with its pods, counted. One of which only pods are known so far has no `node`.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// What the Node says, where there is one.
    pub node: Option<Node>,
    /// What its pods ask for.
    pub used: Amounts,
    /// The same for scores, where a container that asks for nothing counts a little.
    pub scored: Amounts,
    /// How many pods it has.
    pub pods: i64,
    /// The ports of the host that they take, and how often.
    pub ports: HashMap<Port, u32>,
    /// Its pods.
    pub who: Vec<Arc<Pod>>,
}

impl Slot {
    /// Counts a pod in.
    pub fn add(&mut self, pod: &Arc<Pod>) {
        self.who.push(pod.clone());
        self.used.add(&pod.wants.requests);
        self.scored.add(&pod.wants.scored);
        self.pods += 1;
        for port in &pod.wants.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    /// Counts a pod out.
    pub fn take(&mut self, pod: &Pod) {
        if let Some(at) = self.who.iter().position(|other| other.uid == pod.uid) {
            self.who.swap_remove(at);
        }
        self.used.take(&pod.wants.requests);
        self.scored.take(&pod.wants.scored);
        self.pods -= 1;
        for port in &pod.wants.ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    /// Takes in a pod that it has, as it is now.
    pub fn renew(&mut self, pod: &Arc<Pod>) {
        if let Some(known) = self.who.iter_mut().find(|other| other.uid == pod.uid) {
            *known = pod.clone();
        }
    }
}
