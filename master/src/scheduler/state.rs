//! What the scheduler knows: the cluster, who waits, and what is decided next. Pure but for the time, which comes in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::cluster::Cluster;
use super::config::{Config, Strategy};
use super::filter::Kind;
use super::labels::Labels;
use super::node::Node;
use super::owners::Owners;
use super::place::{Manner, Placement, Turn, place};
use super::pod::Pod;
use super::preempt::{self, Budgets, Room};
use super::queue::Queue;
use super::volumes::Volumes;

/// What was decided about a pod.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It goes to that node, where it is counted already.
    Bind {
        /// The pod.
        pod: Arc<Pod>,
        /// The name of the node.
        node: String,
    },
    /// No node can have it now.
    Refused {
        /// The pod.
        pod: Arc<Pod>,
        /// Why, for people.
        words: String,
        /// What becomes of the node that it is promised.
        promise: Promise,
    },
}

/// What becomes of the node that a pod is promised, which it has once others are gone.
#[derive(Clone, Debug)]
pub enum Promise {
    /// It is as it was.
    Stays,
    /// There is none any more.
    Over,
    /// It is this one.
    Made {
        /// The name of the node.
        node: String,
        /// Who is ended for it.
        victims: Vec<Arc<Pod>>,
        /// Who was promised that node and is not any more.
        outdone: Vec<Arc<Pod>>,
    },
}

/// What a pod that is there changes for others.
const COMES: &[Kind] = &[Kind::Neighbours, Kind::Spread];
/// What a pod that goes changes for others.
const GOES: &[Kind] = &[Kind::Room, Kind::Ports, Kind::Neighbours, Kind::Spread, Kind::Volumes];

/// What has to be read before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Namespaces.
    Namespaces,
    /// Budgets.
    Budgets,
    /// Claims.
    Claims,
    /// Volumes.
    Volumes,
    /// Classes of volumes.
    Classes,
    /// Services.
    Services,
    /// What made pods before there were sets of them.
    Controllers,
    /// Sets of pods that are alike.
    ReplicaSets,
    /// Sets of pods with names of their own.
    StatefulSets,
}

impl Part {
    const ALL: [Self; 11] = [
        Self::Nodes,
        Self::Pods,
        Self::Namespaces,
        Self::Budgets,
        Self::Claims,
        Self::Volumes,
        Self::Classes,
        Self::Services,
        Self::Controllers,
        Self::ReplicaSets,
        Self::StatefulSets,
    ];
}

/// Everything the scheduler knows.
#[derive(Debug, Default)]
pub struct State {
    /// How those score whose pods are placed here, by their names.
    profiles: HashMap<String, Strategy>,
    cluster: Cluster,
    queue: Queue,
    turn: Turn,
    budgets: Budgets,
    owners: Owners,
    read: HashSet<Part>,
}

impl State {
    /// Nothing is known yet but what was set.
    pub fn of(config: &Config) -> Self {
        let named = config.profiles.iter().map(|profile| (profile.name.clone(), profile.strategy));
        Self { profiles: named.collect(), ..Self::default() }
    }

    /// That part has been read whole.
    pub fn is_read(&mut self, part: Part) {
        self.read.insert(part);
    }

    /// Takes in a pod as it is now.
    pub fn put_pod(&mut self, pod: Pod, now: Instant) {
        if pod.is_over {
            return self.remove_pod(&pod.uid, now);
        }
        if !pod.node.is_empty() {
            self.queue.remove(&pod.uid);
            self.cluster.nominees_mut().remove(&pod.uid);
            let node = pod.node.clone();
            // What a pod says of its work is news to nobody here.
            if self.cluster.put_pod(Arc::new(pod), &node, false) {
                self.queue.changed(COMES, now);
            }
            return;
        }
        // What was decided here counts until it fails; this is from before.
        if self.cluster.has(&pod.uid) {
            return;
        }
        if self.profiles.contains_key(&pod.scheduler) && !pod.wants.is_ending {
            let pod = Arc::new(pod);
            self.cluster.nominees_mut().take_in(&pod);
            self.queue.put(pod, now);
        } else {
            self.remove_pod(&pod.uid, now);
        }
    }

    /// Takes a pod out that is gone, or has come to its end.
    pub fn remove_pod(&mut self, uid: &str, now: Instant) {
        self.queue.remove(uid);
        let was_promised = self.cluster.nominees_mut().remove(uid);
        if self.cluster.remove_pod(uid).is_some() || was_promised {
            self.queue.changed(GOES, now);
        }
    }

    /// Takes in all pods there are.
    pub fn replace_pods(&mut self, pods: Vec<Pod>, now: Instant) {
        let there: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let known = self.cluster.pods().chain(self.queue.pods());
        let gone: Vec<String> = known.filter(|uid| !there.contains(uid)).map(str::to_owned).collect();
        gone.iter().for_each(|uid| self.remove_pod(uid, now));
        pods.into_iter().for_each(|pod| self.put_pod(pod, now));
    }

    /// Takes in a Node as it is now.
    pub fn put_node(&mut self, node: Node, now: Instant) {
        let Some(change) = self.cluster.put_node(node) else { return };
        let mut kinds = Vec::new();
        if change.is_new {
            kinds.extend(Kind::ALL);
        }
        if change.room {
            kinds.push(Kind::Room);
        }
        if change.labels {
            kinds.extend([Kind::Affinity, Kind::Neighbours, Kind::Spread]);
        }
        if change.taints {
            kinds.extend([Kind::Taint, Kind::Unschedulable, Kind::Spread]);
        }
        self.queue.changed(&kinds, now);
    }

    /// Takes a Node out.
    pub fn remove_node(&mut self, name: &str, now: Instant) {
        self.cluster.remove_node(name);
        self.queue.changed(&[Kind::Spread], now);
    }

    /// Takes in all Nodes there are.
    pub fn replace_nodes(&mut self, nodes: Vec<Node>, now: Instant) {
        let there: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let gone: Vec<String> =
            self.cluster.names().filter(|name| !there.contains(name)).map(str::to_owned).collect();
        gone.iter().for_each(|name| self.remove_node(name, now));
        nodes.into_iter().for_each(|node| self.put_node(node, now));
    }

    /// Takes in the labels of a namespace, or that it is gone.
    pub fn put_namespace(&mut self, name: &str, labels: Option<Labels>, now: Instant) {
        self.cluster.put_namespace(name, labels);
        self.queue.changed(&[Kind::Neighbours], now);
    }

    /// Takes in the labels of all namespaces there are.
    pub fn replace_namespaces(&mut self, namespaces: Vec<(String, Labels)>, now: Instant) {
        for name in self.cluster.namespace_names() {
            if !namespaces.iter().any(|(there, _)| *there == name) {
                self.put_namespace(&name, None, now);
            }
        }
        for (name, labels) in namespaces {
            self.put_namespace(&name, Some(labels), now);
        }
    }

    /// The budgets, to be changed: they wake nobody.
    pub fn budgets(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    /// What selects pods, to be changed: it wakes nobody.
    pub fn owners(&mut self) -> &mut Owners {
        &mut self.owners
    }

    /// Claims and volumes, to be changed: pods that wait for that are looked at again.
    pub fn volumes(&mut self, now: Instant) -> &mut Volumes {
        self.queue.changed(&[Kind::Volumes], now);
        self.cluster.volumes_mut()
    }

    /// Decides about the next pod.
    ///
    /// # Errors
    /// When there will be one, if nothing else happens.
    pub fn next(&mut self, now: Instant) -> Result<Decision, Option<Instant>> {
        if !Part::ALL.iter().all(|part| self.read.contains(part)) {
            return Err(None);
        }
        let pod = self.queue.take(now)?;
        self.cluster.make_room();
        self.cluster.learn(&pod);
        let usual = self.owners.spread(&pod);
        self.cluster.learn_terms(usual.iter().map(|spread| &spread.term));
        let strategy = self.profiles.get(&pod.scheduler).copied().unwrap_or_default();
        let manner = Manner { usual: &usual, strategy };
        Ok(match place(&mut self.cluster, &pod, &manner, &mut self.turn) {
            Placement::On(node) => {
                self.cluster.nominees_mut().remove(&pod.uid);
                self.cluster.put_pod(pod.clone(), &node, true);
                Decision::Bind { pod, node }
            }
            Placement::Nowhere(refusal) => {
                self.queue.refused(&pod.uid, refusal.kinds(), now);
                let room = preempt::find(&mut self.cluster, &pod, &refusal, &self.budgets, &mut self.turn);
                let words = refusal.words(room.words());
                Decision::Refused { promise: self.promise(&pod, room, now), pod, words }
            }
        })
    }

    fn promise(&mut self, pod: &Arc<Pod>, room: Room, now: Instant) -> Promise {
        let found = match room {
            Room::Victims(found) => found,
            Room::NotNow(_) => return Promise::Stays,
            Room::Nowhere(_) => {
                self.cluster.nominees_mut().remove(&pod.uid);
                return Promise::Over;
            }
        };
        let name = self.cluster.node(found.node).map(|(_, node)| node.name.clone());
        let Some(node) = name else { return Promise::Stays };
        let outdone = self.cluster.nominees().outdone(pod, &node);
        for other in &outdone {
            self.cluster.nominees_mut().remove(&other.uid);
            self.queue.look_again(&other.uid, now);
        }
        self.cluster.nominees_mut().promise(pod.clone(), &node);
        Promise::Made { node, victims: found.victims, outdone }
    }

    /// Whom the pod waits for could not be ended: it is looked at again after a pause.
    pub fn unpromised(&mut self, uid: &str, now: Instant) {
        self.queue.look_again(uid, now);
    }

    /// A pod could not be given its node: it is looked at again after a pause, if it still has none.
    pub fn unbound(&mut self, uid: &str, now: Instant) {
        if self.cluster.forget(uid) {
            self.queue.changed(GOES, now);
        }
        self.queue.mishap(uid, now);
    }
}

#[cfg(test)]
mod tests;
