//! What the scheduler knows: the cluster, who waits, and what is decided next. Pure but for the time, which comes in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::cluster::{Cluster, Put};
use super::config::{Config, Strategy};
use super::extender::{Extender, Offer, Opinion};
use super::filter::Kind;
use super::labels::Labels;
use super::node::Node;
use super::owners::Owners;
use super::place::{Choices, Chosen, Manner, Placement, Refusal, Turn, choices, choose, place};
use super::pod::{Pod, Spread};
use super::preempt::{self, Budgets, Candidate, Room};
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
    /// Extenders are asked where it goes; the answer is for [`State::heard`].
    Ask {
        /// The pod.
        pod: Arc<Pod>,
        /// What there is to choose from.
        choices: Choices,
    },
    /// Extenders are asked who may be ended for it; the answer is for [`State::heard_of_room`].
    AskForRoom {
        /// The pod.
        pod: Arc<Pod>,
        /// Why no node can have it now.
        refusal: Refusal,
        /// What could be had.
        offers: Vec<Offer>,
    },
    /// No node can have it now.
    Refused {
        /// The pod.
        pod: Arc<Pod>,
        /// Why, for people.
        words: String,
        /// Why, in a word.
        reason: &'static str,
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

/// Why a pod waits, as its condition says it: no node can have it.
const UNSCHEDULABLE: &str = "Unschedulable";
/// The same where somebody who is to be asked does not answer.
pub const TROUBLE: &str = "SchedulerError";

/// Pods that extenders have in hand at once, whatever they are asked about them: one that is slow has no more of them wait, and is
/// asked no more at a time.
const MOST_ASKED: usize = 32;

/// What a pod that is there and changes does for others.
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
#[derive(Debug)]
pub struct State {
    /// How those score whose pods are placed here, by their names.
    profiles: HashMap<String, Strategy>,
    cluster: Cluster,
    queue: Queue,
    turn: Turn,
    budgets: Budgets,
    owners: Owners,
    read: HashSet<Part>,
    extenders: Arc<[Extender]>,
    /// How many pods extenders have in hand: [`Self::heard`], [`Self::heard_of_room`] and [`Self::is_bound`] end it.
    asked: usize,
}

impl State {
    /// Nothing is known yet but what was set.
    pub fn of(config: &Config) -> Self {
        let named = config.profiles.iter().map(|profile| (profile.name.clone(), profile.strategy));
        let unheeded = config.extenders.iter().flat_map(|extender| extender.unheeded.iter().cloned());
        let cluster = Cluster::without(unheeded.collect());
        Self {
            profiles: named.collect(),
            cluster,
            queue: Queue::default(),
            turn: Turn::default(),
            budgets: Budgets::default(),
            owners: Owners::default(),
            read: HashSet::new(),
            extenders: config.extenders.clone(),
            asked: 0,
        }
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
            let promised = self.cluster.nominees_mut().remove(&pod.uid);
            let pod = Arc::new(pod);
            match self.cluster.put_pod(pod.clone(), &pod.node, false) {
                // What a pod says of its work is news to nobody here.
                Put::Known => {}
                Put::Came => self.queue.came(&pod, self.cluster.namespaces(), now),
                Put::Changed => self.queue.changed(COMES, now),
                Put::Gave => self.queue.changed(GOES, now),
            }
            if promised.is_some_and(|promised| promised != pod.node) {
                self.queue.changed(GOES, now);
            }
            return;
        }
        // What was decided here counts until it fails, and then what is said now.
        if self.cluster.has(&pod.uid) {
            if self.queue.has(&pod.uid) {
                self.queue.put(Arc::new(pod), now);
            }
            return;
        }
        if self.profiles.contains_key(&pod.scheduler) && !pod.wants.is_ending {
            let pod = Arc::new(pod);
            if self.cluster.nominees_mut().take_in(&pod) {
                self.queue.changed_by(&pod.uid, GOES, now);
            }
            self.queue.put(pod, now);
        } else {
            self.remove_pod(&pod.uid, now);
        }
    }

    /// Takes a pod out that is gone, or has come to its end.
    pub fn remove_pod(&mut self, uid: &str, now: Instant) {
        self.queue.remove(uid);
        let was_promised = self.cluster.nominees_mut().remove(uid).is_some();
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
            kinds.extend([Kind::Affinity, Kind::Neighbours, Kind::Spread, Kind::Volumes]);
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
        if self.asked < MOST_ASKED {
            self.queue.let_in();
        }
        loop {
            let pod = self.queue.take(now)?;
            if let Some(decision) = self.decide(pod, now) {
                return Ok(decision);
            }
        }
    }

    /// Decides about that pod; nothing where it lines up for extenders, and those about whom nobody is asked go on meanwhile.
    fn decide(&mut self, pod: Arc<Pod>, now: Instant) -> Option<Decision> {
        let is_asked = self.extenders.iter().any(|extender| extender.chooses_for(&pod));
        let waits = is_asked || self.extenders.iter().any(|extender| extender.binds_for(&pod));
        if waits && self.asked >= MOST_ASKED {
            self.queue.line_up(&pod.uid);
            return None;
        }
        let usual = self.prepare(&pod);
        if is_asked {
            let choices = choices(&mut self.cluster, &pod, &mut self.turn);
            return self.ask(pod, choices, now);
        }
        let manner = Manner { usual: &usual, strategy: self.strategy(&pod) };
        let placement = place(&mut self.cluster, &pod, &manner, &mut self.turn);
        self.placed(pod, placement, now)
    }

    fn strategy(&self, pod: &Pod) -> Strategy {
        self.profiles.get(&pod.scheduler).copied().unwrap_or_default()
    }

    fn ask(&mut self, pod: Arc<Pod>, choices: Choices, now: Instant) -> Option<Decision> {
        match choices.nowhere() {
            Err(choices) => {
                self.asked += 1;
                Some(Decision::Ask { pod, choices })
            }
            Ok(refusal) => self.refused(pod, refusal, now),
        }
    }

    /// Extenders have said where a pod may go, or what keeps them from it. What is decided then, unless the pod has gone its
    /// way meanwhile.
    pub fn heard(
        &mut self,
        pod: &Pod,
        choices: Choices,
        opinion: Result<Opinion, String>,
        now: Instant,
    ) -> Option<Decision> {
        self.is_answered();
        let pod = self.queue.taken(&pod.uid)?;
        let opinion = match opinion {
            Ok(opinion) => opinion,
            Err(words) => {
                self.queue.mishap(&pod.uid, now);
                return Some(Decision::Refused { pod, words, reason: TROUBLE, promise: Promise::Stays });
            }
        };
        let usual = self.prepare(&pod);
        let manner = Manner { usual: &usual, strategy: self.strategy(&pod) };
        match choose(&mut self.cluster, &pod, choices, (&opinion, &manner), &mut self.turn) {
            Chosen::Placed(placement) => self.placed(pod, placement, now),
            Chosen::Overtaken => {
                self.queue.again(&pod.uid);
                None
            }
            Chosen::Elsewhere(choices) => self.ask(pod, choices, now),
        }
    }

    /// Extenders have one pod less in hand.
    fn is_answered(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }

    /// Extenders have said who may be ended for a pod that no node could have, or what keeps them from it. What is decided then,
    /// unless the pod has gone its way meanwhile.
    pub fn heard_of_room(
        &mut self,
        pod: Arc<Pod>,
        refusal: &Refusal,
        offers: Result<Vec<Offer>, String>,
        now: Instant,
    ) -> Option<Decision> {
        self.is_answered();
        if self.cluster.has(&pod.uid) || self.queue.taken(&pod.uid).is_none() {
            return None;
        }
        self.queue.refused(&pod.uid, refusal.kinds(), now);
        let room = match offers {
            Ok(offers) => {
                let candidate = |Offer { node, victims, violations }: Offer| {
                    let (node, ..) = self.cluster.named(&node)?;
                    Some(Candidate { node, victims, violations })
                };
                Room::of(offers.into_iter().filter_map(candidate).collect())
            }
            Err(why) => {
                self.queue.look_again(&pod.uid, now);
                Room::NotNow(why)
            }
        };
        let words = refusal.words(room.words());
        let promise = self.promise(&pod, room, now);
        Some(Decision::Refused { promise, pod, words, reason: UNSCHEDULABLE })
    }

    /// Has everything counted that the pod asks; how it is spread unless it says so itself.
    fn prepare(&mut self, pod: &Pod) -> Vec<Spread> {
        self.cluster.make_room();
        self.cluster.learn(pod);
        let usual = self.owners.spread(pod);
        self.cluster.learn_terms(usual.iter().map(|spread| &spread.term));
        usual
    }

    fn placed(&mut self, pod: Arc<Pod>, placement: Placement, now: Instant) -> Option<Decision> {
        match placement {
            Placement::On(node) => {
                // What it is promised it needs again should that fail.
                self.cluster.put_pod(pod.clone(), &node, true);
                if self.extenders.iter().any(|extender| extender.binds_for(&pod)) {
                    self.asked += 1;
                }
                Some(Decision::Bind { pod, node })
            }
            Placement::Nowhere(refusal) => self.refused(pod, refusal, now),
        }
    }

    /// What is done for a pod that no node can have; nothing where it lines up for those who would be asked about it.
    fn refused(&mut self, pod: Arc<Pod>, refusal: Refusal, now: Instant) -> Option<Decision> {
        let is_asked = self.extenders.iter().any(|extender| extender.spares_for(&pod));
        if is_asked && self.asked >= MOST_ASKED {
            self.queue.line_up(&pod.uid);
            return None;
        }
        let (cluster, turn) = (&mut self.cluster, &mut self.turn);
        let room = match preempt::candidates(cluster, &pod, &refusal, &self.budgets, turn) {
            // Until that is answered nobody looks at it again.
            Ok(found) if is_asked => {
                self.asked += 1;
                let offer = |Candidate { node, victims, violations }: Candidate| {
                    let (_, node) = self.cluster.node(node)?;
                    Some(Offer { node: node.name.clone(), victims, violations })
                };
                let offers = found.into_iter().filter_map(offer).collect();
                return Some(Decision::AskForRoom { pod, refusal, offers });
            }
            Ok(found) => Room::of(found),
            Err(room) => room,
        };
        self.queue.refused(&pod.uid, refusal.kinds(), now);
        let words = refusal.words(room.words());
        let promise = self.promise(&pod, room, now);
        Some(Decision::Refused { promise, pod, words, reason: UNSCHEDULABLE })
    }

    fn promise(&mut self, pod: &Arc<Pod>, room: Room, now: Instant) -> Promise {
        let found = match room {
            Room::Victims(found) => found,
            Room::NotNow(_) => return Promise::Stays,
            Room::Nowhere(_) => {
                if self.cluster.nominees_mut().remove(&pod.uid).is_some() {
                    self.queue.changed_by(&pod.uid, GOES, now);
                }
                return Promise::Over;
            }
        };
        let name = self.cluster.node(found.node).map(|(_, node)| node.name.clone());
        let Some(node) = name else { return Promise::Stays };
        let mut outdone = self.cluster.nominees().outdone(pod, &node);
        // Who is being given a node does not wait for one.
        outdone.retain(|other| !self.cluster.has(&other.uid));
        for other in &outdone {
            self.cluster.nominees_mut().remove(&other.uid);
            self.queue.look_again(&other.uid, now);
        }
        let before = self.cluster.nominees().node_of(&pod.uid);
        if !outdone.is_empty() || before.is_some_and(|before| before != node) {
            self.queue.changed_by(&pod.uid, GOES, now);
        }
        self.cluster.nominees_mut().promise(pod.clone(), &node);
        Promise::Made { node, victims: found.victims, outdone }
    }

    /// Whom the pod waits for could not be ended: it is looked at again after a pause.
    pub fn unpromised(&mut self, uid: &str, now: Instant) {
        self.queue.look_again(uid, now);
    }

    /// Extenders who give pods their nodes have that pod in hand no more, whatever became of it.
    pub fn is_bound(&mut self) {
        self.is_answered();
    }

    /// A pod could not be given its node: it is looked at again after a pause, if it still has none.
    pub fn unbound(&mut self, uid: &str, now: Instant) {
        if self.cluster.forget(uid) {
            self.queue.changed(GOES, now);
        }
        if self.queue.taken(uid).is_some_and(|pod| pod.wants.is_ending) {
            return self.remove_pod(uid, now);
        }
        self.queue.mishap(uid, now);
    }
}

#[cfg(test)]
mod tests;
