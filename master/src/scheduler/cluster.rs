//! The nodes of a cluster with the pods on them, counted as they come and go. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::labels::Labels;
use super::node::{Node, NodeId, Slot};
use super::nominees::Nominees;
use super::pod::Pod;
use super::terms::{Namespaces, Term, Terms};
use super::volumes::Volumes;

/// A pod on a node.
#[derive(Clone, Debug)]
pub struct Placed {
    pod: Arc<Pod>,
    node: NodeId,
    /// So it was decided here, and the server has not said it yet.
    is_assumed: bool,
}

impl Placed {
    /// Whether it is that pod.
    pub fn is(&self, uid: &str) -> bool {
        self.pod.uid == uid
    }
}

/// What became of a pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was known to be there as it is.
    Known,
    /// It has come.
    Came,
    /// It is another one in some way, and takes what it took.
    Changed,
    /// It has given something back: it takes something else, or is elsewhere.
    Gave,
}

/// What became of a Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// It is new.
    pub is_new: bool,
    /// There is another amount of something.
    pub room: bool,
    /// It has other labels.
    pub labels: bool,
    /// It has other taints, or is cordoned or not.
    pub taints: bool,
}

/// Nodes, and the pods on them.
#[derive(Debug, Default)]
pub struct Cluster {
    /// By [`NodeId`]; a place of a node that is gone is used again.
    slots: Vec<Slot>,
    free: Vec<NodeId>,
    by_name: HashMap<String, NodeId>,
    /// By identity.
    pods: HashMap<String, Placed>,
    terms: Terms,
    namespaces: Namespaces,
    /// On how many nodes an image is.
    images: HashMap<String, i64>,
    /// How many Nodes there are.
    count: usize,
    /// All Nodes, one of each zone after the other; nothing while that has to be found out anew.
    order: Option<Vec<NodeId>>,
    /// How many pods on nodes are of each priority.
    priorities: BTreeMap<i64, usize>,
    nominees: Nominees,
    volumes: Volumes,
    /// How many pods on nodes use a claim, by namespace and name.
    claimed: HashMap<(String, String), usize>,
    /// Resources that somebody else counts.
    unheeded: Vec<String>,
}

impl Cluster {
    /// Nothing yet, where somebody else counts these resources.
    pub fn without(unheeded: Vec<String>) -> Self {
        Self { unheeded, ..Self::default() }
    }

    /// Resources that somebody else counts.
    pub fn unheeded(&self) -> &[String] {
        &self.unheeded
    }

    /// How many Nodes there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All Nodes in the order in which they are looked at: one of each zone after the other, as with the stock scheduler, so that
    /// some of them in a row are of all zones. Nothing before [`Self::arrange`].
    pub fn order(&self) -> &[NodeId] {
        self.order.as_deref().unwrap_or_default()
    }

    /// Sees to the order of Nodes after some came, went or are in another zone.
    pub fn arrange(&mut self) {
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

    /// The Node in a place, with its counts.
    pub fn node(&self, id: NodeId) -> Option<(&Slot, &Node)> {
        let slot = self.slots.get(id as usize)?;
        Some((slot, slot.node.as_ref()?))
    }

    /// The Node of that name, with its counts.
    pub fn named(&self, name: &str) -> Option<(NodeId, &Slot, &Node)> {
        let id = *self.by_name.get(name)?;
        self.node(id).map(|(slot, node)| (id, slot, node))
    }

    /// The lowest priority of a pod on a node that may be ended for another one.
    pub fn lowest_priority(&self) -> Option<i64> {
        self.priorities.first_key_value().map(|(lowest, _)| *lowest)
    }

    /// Pods that wait for a node that is promised to them.
    pub fn nominees(&self) -> &Nominees {
        &self.nominees
    }

    /// The same, to promise and to take back.
    pub fn nominees_mut(&mut self) -> &mut Nominees {
        &mut self.nominees
    }

    /// Claims and volumes.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// The same, to be changed.
    pub fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Whether a pod on a node uses that claim.
    pub fn is_claimed(&self, namespace: &str, claim: &str) -> bool {
        self.claimed.contains_key(&(namespace.to_owned(), claim.to_owned()))
    }

    /// All Nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Slot, &Node)> {
        let numbered = (0_u32..).zip(&self.slots);
        numbered.filter_map(|(id, slot)| Some((id, slot, slot.node.as_ref()?)))
    }

    /// What is counted of pods by terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Labels of namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// On how many nodes an image is.
    pub fn nodes_with(&self, image: &str) -> i64 {
        self.images.get(image).copied().unwrap_or_default()
    }

    /// Whether a pod is on a node.
    pub fn has(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// The identities of all pods on nodes.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// The names of all Nodes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes().map(|(_, _, node)| node.name.as_str())
    }

    /// The names of namespaces.
    pub fn namespace_names(&self) -> Vec<String> {
        self.namespaces.keys().cloned().collect()
    }

    /// Takes in a Node as it is now; says what is other about it, where anything is.
    pub fn put_node(&mut self, node: Node) -> Option<NodeChange> {
        let id = self.place_of(&node.name);
        let before = self.slots.get(id as usize).and_then(|slot| slot.node.clone());
        if before.as_ref() == Some(&node) {
            return None;
        }
        let is_new = before.is_none();
        let before = before.unwrap_or_default();
        let change = NodeChange {
            is_new,
            room: before.allocatable != node.allocatable || before.most_pods != node.most_pods,
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
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.node = Some(node);
        }
        Some(change)
    }

    /// Takes a Node out; its pods stay counted for as long as they are there.
    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.by_name.get(name).copied() else { return };
        let Some(before) = self.slots.get_mut(id as usize).and_then(|slot| slot.node.take()) else { return };
        self.order = None;
        self.count -= 1;
        self.count_images(&before, -1);
        self.relabel(id, &before.labels, -1);
        self.relabel(id, &Labels::new(), 1);
        self.give_back(name, id);
    }

    /// Takes in a pod that is on a node, or was decided to be.
    pub fn put_pod(&mut self, pod: Arc<Pod>, node: &str, is_assumed: bool) -> Put {
        let mut put = Put::Came;
        if let Some(known) = self.pods.get_mut(&pod.uid) {
            let (is_there, before) = (self.by_name.get(node) == Some(&known.node), &known.pod);
            let is_same = Arc::ptr_eq(&before.wants, &pod.wants) || before.wants == pod.wants;
            if is_there && is_same && before.is_mirror == pod.is_mirror {
                known.pod = pod;
                if let Some(slot) = self.slots.get_mut(known.node as usize) {
                    slot.renew(&known.pod);
                }
                let was_assumed = std::mem::replace(&mut known.is_assumed, is_assumed);
                return if was_assumed == is_assumed { Put::Known } else { Put::Came };
            }
            put = if is_there && before.wants.takes_as(&pod.wants) { Put::Changed } else { Put::Gave };
        }
        self.remove_pod(&pod.uid);
        self.learn(&pod);
        let id = self.place_of(node);
        self.lay(Placed { pod, node: id, is_assumed });
        put
    }

    /// Puts a pod back that was lifted.
    pub fn lay(&mut self, placed: Placed) {
        let Some(slot) = self.slots.get_mut(placed.node as usize) else { return };
        slot.add(&placed.pod);
        let none = Labels::new();
        let labels = slot.node.as_ref().map_or(&none, |node| &node.labels);
        self.terms.place(&placed.pod, &self.namespaces, placed.node, labels, 1);
        if !placed.pod.is_mirror {
            *self.priorities.entry(placed.pod.wants.priority).or_default() += 1;
        }
        for claim in &placed.pod.wants.claims {
            *self.claimed.entry((placed.pod.namespace.clone(), claim.name.clone())).or_default() += 1;
        }
        self.pods.insert(placed.pod.uid.clone(), placed);
    }

    /// Takes a pod off its node for a trial, whose place stays its own.
    pub fn lift(&mut self, uid: &str) -> Option<Placed> {
        let placed = self.pods.remove(uid)?;
        let slot = self.slots.get_mut(placed.node as usize)?;
        slot.take(&placed.pod);
        let none = Labels::new();
        let labels = slot.node.as_ref().map_or(&none, |node| &node.labels);
        self.terms.place(&placed.pod, &self.namespaces, placed.node, labels, -1);
        if !placed.pod.is_mirror
            && let Some(count) = self.priorities.get_mut(&placed.pod.wants.priority)
        {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&placed.pod.wants.priority);
            }
        }
        for claim in &placed.pod.wants.claims {
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

    /// Takes a pod off its node; the pod, if it was on one.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let Placed { pod, node: id, .. } = self.lift(uid)?;
        let slot = self.slots.get(id as usize)?;
        let is_nobodys = slot.node.is_none() && slot.pods == 0;
        if is_nobodys {
            let name = self.by_name.iter().find(|(_, other)| **other == id).map(|(name, _)| name.clone());
            name.iter().for_each(|name| self.give_back(name, id));
        }
        Some(pod)
    }

    /// Takes a pod off the node that it was decided to be on, unless the server has said by now that it is there.
    pub fn forget(&mut self, uid: &str) -> bool {
        let is_assumed = self.pods.get(uid).is_some_and(|placed| placed.is_assumed);
        is_assumed && self.remove_pod(uid).is_some()
    }

    /// Takes in the labels of a namespace, or that it is gone.
    pub fn put_namespace(&mut self, name: &str, labels: Option<Labels>) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.to_owned(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        for term in self.terms.forget_by_namespaces() {
            self.count_all(&term);
        }
    }

    /// Has everything counted that a pod asks of others.
    pub fn learn(&mut self, pod: &Pod) {
        let wants = &pod.wants;
        let weighted = wants.drawn.iter().chain(&wants.draws).map(|(_, term)| term);
        let spread = wants.spread.iter().map(|spread| &spread.term);
        let unknown = wants.near.iter().chain(&wants.apart).chain(weighted).chain(spread);
        self.learn_terms(unknown);
    }

    /// Has these counted.
    pub fn learn_terms<'a>(&mut self, terms: impl Iterator<Item = &'a Arc<Term>>) {
        let unknown: Vec<Arc<Term>> = terms.filter(|term| !self.terms.uses(term)).cloned().collect();
        for term in unknown {
            if !self.terms.uses(&term) {
                self.terms.begin(&term);
                self.count_all(&term);
            }
        }
    }

    /// Drops what nobody asks any more, once that is much.
    pub fn make_room(&mut self) {
        self.terms.make_room();
    }

    fn count_all(&mut self, term: &Arc<Term>) {
        let none = Labels::new();
        for placed in self.pods.values() {
            if term.means(&placed.pod, &self.namespaces) {
                let slot = self.slots.get(placed.node as usize);
                let labels = slot.and_then(|slot| slot.node.as_ref()).map_or(&none, |node| &node.labels);
                self.terms.count(term, placed.node, labels, 1);
            }
        }
    }

    /// Counts all pods of a node in or out, as those of a node with these labels.
    fn relabel(&mut self, id: NodeId, labels: &Labels, change: i64) {
        if self.slots.get(id as usize).is_none_or(|slot| slot.pods == 0) {
            return;
        }
        for placed in self.pods.values().filter(|placed| placed.node == id) {
            self.terms.place(&placed.pod, &self.namespaces, id, labels, change);
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

    /// The place of a node, made where there is none.
    fn place_of(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // A cluster has far fewer nodes.
            NodeId::try_from(self.slots.len() - 1).unwrap_or(NodeId::MAX)
        });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn give_back(&mut self, name: &str, id: NodeId) {
        if self.slots.get(id as usize).is_some_and(|slot| slot.node.is_none() && slot.pods == 0) {
            self.by_name.remove(name);
            self.free.push(id);
        }
    }
}
