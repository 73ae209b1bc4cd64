//! Where a pod goes: which nodes may have it, which of those is best, and if there is none, why. Pure.

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
    /// Extenders took nodes out, whether or not they said why.
    is_of_extenders: bool,
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

/// Which nodes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// The one that the pod is promised, and no other.
    Promised,
    /// As many as are enough to choose from.
    All,
}

/// Nodes that may have a pod, for others to have a say in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Their names.
    pub nodes: Vec<String>,
    /// Among which they were found.
    among: Among,
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
    /// The pod cannot have the node that it is promised; these others there are.
    Elsewhere(Choices),
}

/// Decides about a pod, whose terms the cluster counts, as it does those of how it is spread unless it says so itself.
pub fn place(cluster: &mut Cluster, pod: &Pod, manner: &Manner<'_>, turn: &mut Turn) -> Placement {
    let Found { nodes, refusal, .. } = look(cluster, pod, turn);
    let best = match nodes.as_slice() {
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
pub fn choices(cluster: &mut Cluster, pod: &Pod, turn: &mut Turn) -> Choices {
    let found = look(cluster, pod, turn);
    named(cluster, found)
}

/// Decides once others have had their say: the best that is left and may have the pod still.
pub fn choose(
    cluster: &mut Cluster,
    pod: &Pod,
    choices: Choices,
    (opinion, manner): (&Opinion, &Manner<'_>),
    turn: &mut Turn,
) -> Chosen {
    let left = || choices.nodes.iter().filter_map(|name| Some((name, *opinion.scores.get(name)?)));
    cluster.arrange();
    let crowded = crowded(cluster, pod);
    let prepared = Prepared::of(cluster, pod);
    let free = left().filter_map(|(name, liked)| {
        let (id, slot, node) = cluster.named(name)?;
        (!crowded.contains_key(&id) && prepared.refuses(slot, node).is_none()).then_some((id, liked))
    });
    let (free, liked): (Vec<NodeId>, Vec<i64>) = free.unzip();
    if !free.is_empty() {
        let scores = scores(cluster, pod, manner, &free).into_iter().zip(liked);
        let scores: Vec<i64> = scores.map(|(score, liked)| score.saturating_add(liked)).collect();
        if let Some((_, node)) = cluster.node(best(&scores, &free, turn)) {
            return Chosen::Placed(Placement::On(node.name.clone()));
        }
    }
    if left().next().is_some() {
        return Chosen::Overtaken;
    }
    if choices.among == Among::Promised {
        let found = search(cluster, pod, &crowded, turn);
        return Chosen::Elsewhere(named(cluster, found));
    }
    Chosen::Placed(Placement::Nowhere(taken_out(cluster, choices, opinion)))
}

/// Why no node is left that others were asked about. Of each of those nodes one thing counts that they said, and that it never will
/// do counts for more; of nodes that nobody asked about they may say what they like.
fn taken_out(cluster: &Cluster, choices: Choices, opinion: &Opinion) -> Refusal {
    let Choices { nodes, mut refusal, .. } = choices;
    let asked: BTreeSet<&String> = nodes.iter().collect();
    let mut said = BTreeMap::<&String, &Why>::new();
    for (name, why) in opinion.refused.iter().filter(|(name, _)| asked.contains(name)) {
        let one = said.entry(name).or_insert(why);
        if one.is_of_pods() {
            *one = why;
        }
    }
    for (name, why) in said {
        if let Some((id, ..)) = cluster.named(name) {
            refusal.add(id, vec![why.clone()]);
        }
    }
    refusal.is_of_extenders = true;
    refusal
}

/// What was found for a pod.
struct Found {
    /// Nodes that may have it.
    nodes: Vec<NodeId>,
    /// Among which.
    among: Among,
    /// What the others said that were asked.
    refusal: Refusal,
}

fn named(cluster: &Cluster, Found { nodes, among, refusal }: Found) -> Choices {
    let name = |id: &NodeId| cluster.node(*id).map(|(_, node)| node.name.clone());
    Choices { nodes: nodes.iter().filter_map(name).collect(), among, refusal }
}

/// Nodes that may have the pod: the one that it is promised, else as many as are enough to choose from.
fn look(cluster: &mut Cluster, pod: &Pod, turn: &mut Turn) -> Found {
    let refusal = Refusal { nodes: cluster.count(), ..Refusal::default() };
    if let Err(words) = cluster.volumes().asked(pod) {
        let refusal = Refusal { of_claims: Some(words), ..refusal };
        return Found { nodes: Vec::new(), among: Among::All, refusal };
    }
    cluster.arrange();
    let crowded = crowded(cluster, pod);
    let promised = cluster.nominees().node_of(&pod.uid).and_then(|name| cluster.named(name));
    if let Some((id, slot, node)) = promised
        && !crowded.contains_key(&id)
        && Prepared::of(cluster, pod).refuses(slot, node).is_none()
    {
        return Found { nodes: vec![id], among: Among::Promised, refusal };
    }
    search(cluster, pod, &crowded, turn)
}

/// Nodes that may have the pod, as many as are enough to choose from, whatever it is promised.
fn search(cluster: &Cluster, pod: &Pod, crowded: &HashMap<NodeId, Vec<Why>>, turn: &mut Turn) -> Found {
    let prepared = Prepared::of(cluster, pod);
    let mut found = Found {
        nodes: Vec::new(),
        among: Among::All,
        refusal: Refusal { nodes: cluster.count(), ..Refusal::default() },
    };
    let mut ask = |id: NodeId, slot: &Slot, node: &Node| {
        match crowded.get(&id).cloned().or_else(|| prepared.refuses(slot, node)) {
            Some(reasons) => found.refusal.add(id, reasons),
            None => found.nodes.push(id),
        }
        found.nodes.len()
    };
    if let Some(names) = pod.wants.named_nodes() {
        let named = names.iter().filter_map(|name| cluster.named(name));
        let asked = named.map(|(id, slot, node)| ask(id, slot, node)).count();
        found.refusal.count(Why::NotNamed, cluster.count() - asked);
        return found;
    }
    let (order, enough) = (cluster.order(), enough(cluster.count()));
    let (before, after) = order.split_at(turn.start.checked_rem(order.len()).unwrap_or_default());
    for id in after.iter().chain(before) {
        let Some((slot, node)) = cluster.node(*id) else { continue };
        turn.start += 1;
        if ask(*id, slot, node) == enough {
            break;
        }
    }
    turn.start = turn.start.checked_rem(order.len()).unwrap_or_default();
    found
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
        reasons.into_iter().for_each(|why| self.count(why, 1));
    }

    fn count(&mut self, why: Why, nodes: usize) {
        if nodes > 0 {
            *self.reasons.entry(why).or_default() += nodes;
        }
    }

    /// What could change it.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        if self.nodes == 0 {
            return BTreeSet::from([Kind::NoNodes]);
        }
        let of_claims = self.of_claims.iter().map(|_| Kind::Volumes);
        let of_extenders = self.is_of_extenders.then_some(Kind::Extender);
        self.reasons.keys().map(Why::kind).chain(of_claims).chain(of_extenders).collect()
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
    match told.as_slice() {
        [] => format!("0/{nodes} nodes are available."),
        told => format!("0/{nodes} nodes are available: {}.", told.join(", ")),
    }
}

#[cfg(test)]
mod tests;
