//! Scheduler cache: nodes and the pods on them, with aggregates that are updated incrementally. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::node::{Node, NodeId, NodeInfo};
use super::nominated_pods::NominatedPods;
use super::pod::Pod;
use super::topology_counts::{Namespaces, Term, TopologyCounts};
use super::volumes::{ClaimBinding, Volumes};
use crate::objects::labels::Labels;

/// A pod that is assigned to or assumed on a node.
#[derive(Clone, Debug)]
pub struct PlacedPod {
    pod: Arc<Pod>,
    node: NodeId,
    /// The scheduler chose the node, but no informer has confirmed the binding yet.
    is_assumed: bool,
}

impl PlacedPod {
    /// Whether the pod has the given UID.
    pub fn is(&self, uid: &str) -> bool {
        self.pod.uid == uid
    }
}

/// How the cache changed when a pod was added or updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// Nothing relevant to scheduling changed.
    Unchanged,
    /// The pod was added.
    Added,
    /// The pod changed, but uses the same resources, ports and claims as before.
    Changed,
    /// The pod released resources: it now uses others, or it moved to another node.
    Freed,
}

/// How a Node changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// The node is new.
    pub is_new: bool,
    /// The allocatable resources or the pod limit of the node changed.
    pub resources: bool,
    /// The labels of the node changed.
    pub labels: bool,
    /// The taints or `spec.unschedulable` of the node changed.
    pub taints: bool,
}

/// The scheduler cache.
#[derive(Debug, Default)]
pub struct Cluster {
    /// The nodes, by [`NodeId`]. The slot of a removed node is reused.
    node_infos: Vec<NodeInfo>,
    free: Vec<NodeId>,
    by_name: HashMap<String, NodeId>,
    /// Pods on nodes, by UID.
    pods: HashMap<String, PlacedPod>,
    topology_counts: TopologyCounts,
    namespaces: Namespaces,
    /// Number of nodes that hold an image, by image name.
    images: HashMap<String, i64>,
    /// Number of Node objects.
    count: usize,
    /// All nodes, interleaved by zone. `None` until the order is recomputed.
    order: Option<Vec<NodeId>>,
    /// Number of pods on nodes, by priority.
    priorities: BTreeMap<i64, usize>,
    nominated_pods: NominatedPods,
    volumes: Volumes,
    /// Number of pods on nodes that use a claim, by namespace and name.
    claimed: HashMap<(String, String), usize>,
    /// Resources that only extenders check (`ignoredByScheduler`).
    ignored_resources: Vec<String>,
}

impl Cluster {
    /// Creates an empty cache that does not check `ignored_resources`.
    pub fn without(ignored_resources: Vec<String>) -> Self {
        Self { ignored_resources, ..Self::default() }
    }

    /// Resources that only extenders check (`ignoredByScheduler`).
    pub fn ignored_resources(&self) -> &[String] {
        &self.ignored_resources
    }

    /// Number of Node objects.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns all nodes in search order, interleaved by zone as in the stock scheduler, so that a partial search
    /// covers every zone. Empty before [`Self::update_node_order`].
    pub fn order(&self) -> &[NodeId] {
        self.order.as_deref().unwrap_or_default()
    }

    /// Recomputes the search order after nodes were added, removed or moved to another zone.
    pub fn update_node_order(&mut self) {
        if self.order.is_some() {
            return;
        }
        let (mut number, mut zones) = (HashMap::new(), Vec::<Vec<NodeId>>::new());
        for (id, _, node) in self.nodes() {
            let zone = *number.entry(node.zone()).or_insert(zones.len());
            match zones.get_mut(zone) {
                Some(nodes) => nodes.push(id),
                None => zones.push(vec![id]),
            }
        }
        let longest = zones.iter().map(Vec::len).max().unwrap_or_default();
        let round = |turn: usize| zones.iter().filter_map(move |nodes| nodes.get(turn).copied());
        self.order = Some((0..longest).flat_map(round).collect());
    }

    /// Returns the node with the given id, and its aggregates.
    pub fn node(&self, id: NodeId) -> Option<(&NodeInfo, &Node)> {
        let node_info = self.node_infos.get(id as usize)?;
        Some((node_info, node_info.node.as_ref()?))
    }

    /// Returns the node with the given name, and its aggregates.
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &NodeInfo, &Node)> {
        let id = *self.by_name.get(name)?;
        self.node(id).map(|(node_info, node)| (id, node_info, node))
    }

    /// The lowest priority among pods on nodes, without mirror pods.
    pub fn lowest_priority(&self) -> Option<i64> {
        self.priorities.first_key_value().map(|(lowest, _)| *lowest)
    }

    /// Pods with a nominated node.
    pub fn nominated_pods(&self) -> &NominatedPods {
        &self.nominated_pods
    }

    /// Pods with a nominated node, to be changed.
    pub fn nominated_pods_mut(&mut self) -> &mut NominatedPods {
        &mut self.nominated_pods
    }

    /// Claims, volumes and storage classes.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Assumes the bindings of the pod's unbound claims on a node.
    pub fn assume_claims(&mut self, pod: &Pod, node: &str) -> Vec<ClaimBinding> {
        if pod.spec.claims.is_empty() {
            return Vec::new();
        }
        let node = self.node_named(node).map(|(.., node)| node.clone());
        node.map(|node| self.volumes.assume(pod, &node)).unwrap_or_default()
    }

    /// Claims, volumes and storage classes, to be changed.
    pub fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Whether a pod on a node uses the claim.
    pub fn is_claimed(&self, namespace: &str, claim: &str) -> bool {
        self.claimed.contains_key(&(namespace.to_owned(), claim.to_owned()))
    }

    /// All nodes, with their aggregates.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeInfo, &Node)> {
        let numbered = (0_u32..).zip(&self.node_infos);
        numbered.filter_map(|(id, node_info)| Some((id, node_info, node_info.node.as_ref()?)))
    }

    /// Pod counts per topology term.
    pub fn topology_counts(&self) -> &TopologyCounts {
        &self.topology_counts
    }

    /// Labels of all namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Number of nodes that hold the image.
    pub fn nodes_with_image(&self, image: &str) -> i64 {
        self.images.get(image).copied().unwrap_or_default()
    }

    /// Whether the pod is assigned to or assumed on a node.
    pub fn has(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// UIDs of all pods on nodes.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Names of all nodes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes().map(|(_, _, node)| node.name.as_str())
    }

    pub fn namespace_names(&self) -> Vec<String> {
        self.namespaces.keys().cloned().collect()
    }

    /// Adds or updates a node. Returns what changed, or `None` if nothing relevant did.
    pub fn put_node(&mut self, node: Node) -> Option<NodeChange> {
        let id = self.node_id_for(&node.name);
        let before = self.node_infos.get(id as usize).and_then(|node_info| node_info.node.clone());
        if before.as_ref() == Some(&node) {
            return None;
        }
        let is_new = before.is_none();
        let before = before.unwrap_or_default();
        let change = NodeChange {
            is_new,
            resources: before.allocatable != node.allocatable || before.allowed_pods != node.allowed_pods,
            labels: before.labels != node.labels,
            taints: before.taints != node.taints || before.unschedulable != node.unschedulable,
        };
        if is_new || before.zone() != node.zone() {
            self.order = None;
        }
        self.count += usize::from(is_new);
        self.count_images(&before, -1);
        self.count_images(&node, 1);
        if change.labels {
            self.relabel(id, &before.labels, -1);
            self.relabel(id, &node.labels, 1);
        }
        if let Some(node_info) = self.node_infos.get_mut(id as usize) {
            node_info.node = Some(node);
        }
        Some(change)
    }

    /// Removes a Node. Its pods stay in the cache until they are deleted.
    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.by_name.get(name).copied() else { return };
        let Some(before) = self.node_infos.get_mut(id as usize).and_then(|node_info| node_info.node.take())
        else {
            return;
        };
        self.order = None;
        self.count -= 1;
        self.count_images(&before, -1);
        self.relabel(id, &before.labels, -1);
        self.relabel(id, &Labels::default(), 1);
        self.release_id(name, id);
    }

    /// Adds or updates a pod on a node. `is_assumed` says that the binding is not confirmed yet.
    pub fn put_pod(&mut self, pod: Arc<Pod>, node: &str, is_assumed: bool) -> PodChange {
        let mut put = PodChange::Added;
        if let Some(existing) = self.pods.get_mut(&pod.uid) {
            let (is_there, before) = (self.by_name.get(node) == Some(&existing.node), &existing.pod);
            let is_same = Arc::ptr_eq(&before.spec, &pod.spec) || before.spec == pod.spec;
            if is_there && is_same && before.is_mirror == pod.is_mirror {
                existing.pod = pod;
                if let Some(node_info) = self.node_infos.get_mut(existing.node as usize) {
                    node_info.update_pod(&existing.pod);
                }
                let was_assumed = std::mem::replace(&mut existing.is_assumed, is_assumed);
                return if was_assumed == is_assumed { PodChange::Unchanged } else { PodChange::Added };
            }
            put = if is_there && before.spec.has_same_usage(&pod.spec) {
                PodChange::Changed
            } else {
                PodChange::Freed
            };
        }
        self.remove_pod(&pod.uid);
        self.count_terms_of(&pod);
        let id = self.node_id_for(node);
        self.restore_pod(PlacedPod { pod, node: id, is_assumed });
        put
    }

    /// Restores a pod that [`Self::take_pod`] removed.
    pub fn restore_pod(&mut self, placed: PlacedPod) {
        let Some(node_info) = self.node_infos.get_mut(placed.node as usize) else { return };
        node_info.add_pod(&placed.pod);
        let none = Labels::default();
        let labels = node_info.node.as_ref().map_or(&none, |node| &node.labels);
        self.topology_counts.count_pod(&placed.pod, &self.namespaces, placed.node, labels, 1);
        if !placed.pod.is_mirror {
            *self.priorities.entry(placed.pod.spec.priority).or_default() += 1;
        }
        for claim in &placed.pod.spec.claims {
            *self.claimed.entry((placed.pod.namespace.clone(), claim.name.clone())).or_default() += 1;
        }
        self.pods.insert(placed.pod.uid.clone(), placed);
    }

    /// Removes a pod for a preemption dry run. The node keeps its id even if it has no pods left.
    pub fn take_pod(&mut self, uid: &str) -> Option<PlacedPod> {
        let placed = self.pods.remove(uid)?;
        let node_info = self.node_infos.get_mut(placed.node as usize)?;
        node_info.remove_pod(&placed.pod);
        let none = Labels::default();
        let labels = node_info.node.as_ref().map_or(&none, |node| &node.labels);
        self.topology_counts.count_pod(&placed.pod, &self.namespaces, placed.node, labels, -1);
        if !placed.pod.is_mirror
            && let Some(count) = self.priorities.get_mut(&placed.pod.spec.priority)
        {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&placed.pod.spec.priority);
            }
        }
        for claim in &placed.pod.spec.claims {
            let key = (placed.pod.namespace.clone(), claim.name.clone());
            if let Some(count) = self.claimed.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.claimed.remove(&key);
                }
            }
        }
        Some(placed)
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let PlacedPod { pod, node: id, .. } = self.take_pod(uid)?;
        let node_info = self.node_infos.get(id as usize)?;
        let is_nobodys = node_info.node.is_none() && node_info.pod_count == 0;
        if is_nobodys {
            let name = self.by_name.iter().find(|(_, other)| **other == id).map(|(name, _)| name.clone());
            name.iter().for_each(|name| self.release_id(name, id));
        }
        Some(pod)
    }

    /// Removes an assumed pod whose binding failed. Returns false if the API server has confirmed the binding since.
    pub fn forget_assumed(&mut self, uid: &str) -> bool {
        let is_assumed = self.pods.get(uid).is_some_and(|placed| placed.is_assumed);
        is_assumed && self.remove_pod(uid).is_some()
    }

    /// Sets the labels of a namespace, or removes it.
    pub fn put_namespace(&mut self, name: &str, labels: Option<Labels>) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        for term in self.topology_counts.clear_namespace_selected() {
            self.recount(&term);
        }
    }

    /// Starts to count the terms of a pod: its affinity, anti-affinity and topology spread constraints.
    pub fn count_terms_of(&mut self, pod: &Pod) {
        let spec = &pod.spec;
        let weighted = spec.preferred_affinity.iter().chain(&spec.symmetric_terms).map(|(_, term)| term);
        let spread = spec.topology_spread.iter().map(|spread| &spread.term);
        let unknown =
            spec.required_affinity.iter().chain(&spec.required_anti_affinity).chain(weighted).chain(spread);
        self.count_terms(unknown);
    }

    /// Starts to count the terms that are not counted yet.
    pub fn count_terms<'a>(&mut self, topology_counts: impl Iterator<Item = &'a Arc<Term>>) {
        let unknown: Vec<Arc<Term>> =
            topology_counts.filter(|term| !self.topology_counts.touch(term)).cloned().collect();
        for term in unknown {
            if !self.topology_counts.touch(&term) {
                self.topology_counts.insert(&term);
                self.recount(&term);
            }
        }
    }

    /// Drops terms that no pod uses any more, if there are many terms.
    pub fn evict_unused_terms(&mut self) {
        self.topology_counts.evict_unused();
    }

    fn recount(&mut self, term: &Arc<Term>) {
        let none = Labels::default();
        for placed in self.pods.values() {
            if term.matches(&placed.pod, &self.namespaces) {
                let node_info = self.node_infos.get(placed.node as usize);
                let labels = node_info
                    .and_then(|node_info| node_info.node.as_ref())
                    .map_or(&none, |node| &node.labels);
                self.topology_counts.count(term, placed.node, labels, 1);
            }
        }
    }

    /// Adds (`change` 1) or removes (-1) the counts of all pods of a node, as if the node had the given labels.
    fn relabel(&mut self, id: NodeId, labels: &Labels, change: i64) {
        if self.node_infos.get(id as usize).is_none_or(|node_info| node_info.pod_count == 0) {
            return;
        }
        for placed in self.pods.values().filter(|placed| placed.node == id) {
            self.topology_counts.count_pod(&placed.pod, &self.namespaces, id, labels, change);
        }
    }

    fn count_images(&mut self, node: &Node, change: i64) {
        for image in node.images.keys() {
            let count = self.images.entry(image.clone()).or_default();
            *count += change;
            if *count == 0 {
                self.images.remove(image);
            }
        }
    }

    /// Returns the id of the node. Allocates an id if the node has none.
    fn node_id_for(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.node_infos.push(NodeInfo::default());
            // Clusters have far fewer than 2^32 nodes.
            NodeId::try_from(self.node_infos.len() - 1).unwrap_or(NodeId::MAX)
        });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn release_id(&mut self, name: &str, id: NodeId) {
        if self
            .node_infos
            .get(id as usize)
            .is_some_and(|node_info| node_info.node.is_none() && node_info.pod_count == 0)
        {
            self.by_name.remove(name);
            self.free.push(id);
        }
    }
}
