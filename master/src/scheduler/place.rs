//! Where a pod goes: which nodes may have it, which of those is best, and if there is none, why. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cluster::Cluster;
use super::config::Strategy;
use super::extender::Opinion;
use super::filter::{Kind, Prepared, Why, crowded};
use super::node::{Node, NodeId, Slot};
use super::pod::{Pod, Spread};
use super::score::scores;

/// Up to so many nodes all that may have a pod are looked at; the stock scheduler's.
const LOOK_AT_ALL: usize = 100;

/// How nodes are scored for a pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner<'a> {
    /// How it is spread unless it says so itself.
    pub usual: &'a [Spread],
    /// Which nodes are better by how much of them is taken.
    pub strategy: Strategy,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The name of its node.
    On(String),
    /// No node may have it.
    Nowhere(Refusal),
}

/// Why no node may have a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// How many nodes there are.
    nodes: usize,
    /// How many of them refused it, by what they said.
    reasons: BTreeMap<Why, usize>,
    /// Those that might take it if there were fewer pods.
    curable: Vec<NodeId>,
    /// Why no node was asked: what there is of its claims.
    of_claims: Option<String>,
}

/// Where the search goes on, so that all nodes get their turn, and what decides between nodes that are alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    start: usize,
    seed: u64,
}

impl Turn {
    /// The next of some evenly spread numbers (splitmix64).
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of so many.
    pub fn pick(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(1).max(1);
        usize::try_from(self.next() % count).unwrap_or_default()
    }
}

/// Nodes that may have a pod, for others to have a say in.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Their names and scores.
    pub nodes: Vec<(String, i64)>,
    /// What the others said that were asked.
    refusal: Refusal,
}

impl Choices {
    /// Why there is nothing to choose from.
    ///
    /// # Errors
    /// The choices, where there are any.
    pub fn nowhere(self) -> Result<Refusal, Self> {
        if self.nodes.is_empty() { Ok(self.refusal) } else { Err(self) }
    }
}

/// What became of choices in which others had a say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The pod is placed, or is not.
    Placed(Placement),
    /// Those that were left have been taken meanwhile.
    Overtaken,
}

/// Decides about a pod, whose terms the cluster counts, as it does those of how it is spread unless it says so itself.
pub fn place(cluster: &mut Cluster, pod: &Pod, manner: &Manner<'_>, turn: &mut Turn) -> Placement {
    let (feasible, refusal) = look(cluster, pod, turn);
    let best = match feasible.as_slice() {
        [] => return Placement::Nowhere(refusal),
        [only] => *only,
        several => best(&scores(cluster, pod, manner, several), several, turn),
    };
    match cluster.node(best) {
        Some((_, node)) => Placement::On(node.name.clone()),
        None => Placement::Nowhere(refusal),
    }
}

/// The same as far as it goes before others have their say.
pub fn choices(cluster: &mut Cluster, pod: &Pod, manner: &Manner<'_>, turn: &mut Turn) -> Choices {
    let (feasible, refusal) = look(cluster, pod, turn);
    let scores = scores(cluster, pod, manner, &feasible);
    let named = |(id, score): (&NodeId, i64)| cluster.node(*id).map(|(_, node)| (node.name.clone(), score));
    Choices { nodes: feasible.iter().zip(scores).filter_map(named).collect(), refusal }
}

/// Decides once others have had their say: the best that is left and may have the pod still.
pub fn choose(
    cluster: &mut Cluster,
    pod: &Pod,
    choices: Choices,
    opinion: &Opinion,
    turn: &mut Turn,
) -> Chosen {
    let Choices { nodes, mut refusal } = choices;
    let mut left: Vec<(&String, i64, u64)> = Vec::new();
    for (name, score) in &nodes {
        if let Some(liked) = opinion.scores.get(name) {
            left.push((name, score.saturating_add(*liked), turn.next()));
        }
    }
    left.sort_by_key(|(_, score, chance)| (Reverse(*score), *chance));
    let crowded = crowded(cluster, pod);
    let prepared = Prepared::of(cluster, pod);
    let is_free = |name: &str| {
        cluster.named(name).is_some_and(|(id, slot, node)| {
            !crowded.contains_key(&id) && prepared.refuses(slot, node).is_none()
        })
    };
    if let Some((name, ..)) = left.iter().find(|(name, ..)| is_free(name)) {
        return Chosen::Placed(Placement::On((*name).clone()));
    }
    if !left.is_empty() {
        return Chosen::Overtaken;
    }
    for (name, why) in &opinion.refused {
        if let Some((id, ..)) = cluster.named(name) {
            refusal.add(id, vec![why.clone()]);
        }
    }
    Chosen::Placed(Placement::Nowhere(refusal))
}

/// Nodes that may have the pod, and what the others said that were asked.
fn look(cluster: &mut Cluster, pod: &Pod, turn: &mut Turn) -> (Vec<NodeId>, Refusal) {
    if let Err(words) = cluster.volumes().asked(pod) {
        let refusal = Refusal { nodes: cluster.count(), of_claims: Some(words), ..Refusal::default() };
        return (Vec::new(), refusal);
    }
    let crowded = crowded(cluster, pod);
    feasible(cluster, pod, &crowded, turn)
}

/// Nodes that may have the pod, as many as are enough to choose from, and what the others said that were asked.
fn feasible(
    cluster: &Cluster,
    pod: &Pod,
    crowded: &HashMap<NodeId, Vec<Why>>,
    turn: &mut Turn,
) -> (Vec<NodeId>, Refusal) {
    let prepared = Prepared::of(cluster, pod);
    let refuses =
        |id, slot: &Slot, node: &Node| crowded.get(&id).cloned().or_else(|| prepared.refuses(slot, node));
    if let Some((id, slot, node)) = cluster.nominees().node_of(&pod.uid).and_then(|name| cluster.named(name))
        && refuses(id, slot, node).is_none()
    {
        return (vec![id], Refusal::default());
    }
    let (places, enough) = (cluster.places(), enough(cluster.count()));
    let mut found = Vec::with_capacity(enough.min(cluster.count()));
    let mut refusal = Refusal { nodes: cluster.count(), ..Refusal::default() };
    let start = if places == 0 { 0 } else { turn.start % places };
    let order = (start..places).chain(0..start);
    let mut last = start;
    for place in order {
        let Ok(id) = NodeId::try_from(place) else { break };
        let Some((slot, node)) = cluster.node(id) else { continue };
        last = place;
        match refuses(id, slot, node) {
            Some(reasons) => refusal.add(id, reasons),
            None => found.push(id),
        }
        if found.len() == enough {
            break;
        }
    }
    turn.start = last + 1;
    (found, refusal)
}

/// How many nodes are enough to choose from, by how many there are: the stock scheduler's share, half of them and less the more
/// there are.
fn enough(nodes: usize) -> usize {
    if nodes < LOOK_AT_ALL {
        return nodes.max(1);
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(LOOK_AT_ALL)
}

/// One of the best.
fn best(scores: &[i64], nodes: &[NodeId], turn: &mut Turn) -> NodeId {
    let most = scores.iter().copied().max().unwrap_or_default();
    let best: Vec<NodeId> =
        nodes.iter().zip(scores).filter(|(_, score)| **score == most).map(|(id, _)| *id).collect();
    best.get(turn.pick(best.len())).copied().unwrap_or_default()
}

impl Refusal {
    fn add(&mut self, id: NodeId, reasons: Vec<Why>) {
        if reasons.iter().all(Why::is_of_pods) {
            self.curable.push(id);
        }
        for why in reasons {
            *self.reasons.entry(why).or_default() += 1;
        }
    }

    /// What could change it.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        if self.nodes == 0 {
            return BTreeSet::from([Kind::NoNodes]);
        }
        let of_claims = self.of_claims.iter().map(|_| Kind::Volumes);
        self.reasons.keys().map(Why::kind).chain(of_claims).collect()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Those that might take it if there were fewer pods.
    pub fn curable(&self) -> &[NodeId] {
        &self.curable
    }

    /// As the stock scheduler says it, with what it says of making room by ending pods.
    pub fn words(&self, room: Option<&str>) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for (why, count) in &self.reasons {
            *counts.entry(why.words()).or_default() += count;
        }
        let why = match &self.of_claims {
            Some(words) => format!("0/{} nodes are available: {words}.", self.nodes),
            None => none_available(self.nodes, &counts),
        };
        room.map_or_else(|| why.clone(), |room| format!("{why} preemption: {room}"))
    }
}

/// That none of so many nodes will do, and how many of them say what.
pub fn none_available(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut told: Vec<String> = reasons.iter().map(|(words, count)| format!("{count} {words}")).collect();
    told.sort();
    format!("0/{nodes} nodes are available: {}.", told.join(", "))
}

#[cfg(test)]
mod tests;
