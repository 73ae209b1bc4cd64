//! Schedules one pod: finds feasible nodes, scores them and picks the best, or explains why no node fits. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cluster::Cluster;
use super::config::ScoringStrategy;
use super::extender::ExtenderResults;
use super::filter::{Plugin, PreFilterState, Reason, nominated_conflicts};
use super::node::{Node, NodeId, NodeInfo};
use super::pod::{Pod, SpreadConstraint};
use super::score::scores;

/// Number of nodes below which all feasible nodes are scored, as the stock `minFeasibleNodesToFind`.
const MIN_FEASIBLE_NODES: usize = 100;

/// How feasible nodes are scored for a pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scoring<'a> {
    /// Default topology spread constraints, for pods without their own.
    pub default_constraints: &'a [SpreadConstraint],
    /// Strategy of the pod's profile.
    pub strategy: ScoringStrategy,
}

/// The result of scheduling a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleResult {
    /// Name of the chosen node.
    Node(String),
    /// No node fits.
    Unschedulable(FitError),
}

/// Why no node fits a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    /// Number of nodes in the cluster.
    nodes: usize,
    /// Number of nodes by reason.
    reasons: BTreeMap<Reason, usize>,
    /// Nodes on which preemption could help.
    resolvable: Vec<NodeId>,
    /// The reason why a claim of the pod is unusable. The filters did not run then.
    claim_error: Option<String>,
    /// Whether extenders rejected nodes, with or without a reason.
    is_rejected_by_extenders: bool,
}

/// The start of the next search, so that all nodes are used evenly, and the seed that breaks ties.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    start: usize,
    seed: u64,
}

impl Rotation {
    /// Returns the next pseudo-random number (splitmix64).
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random index below `count`.
    pub fn pick(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(1).max(1);
        usize::try_from(self.next() % count).unwrap_or_default()
    }
}

/// Which nodes a search covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchScope {
    /// The search covered only the nominated node of the pod.
    NominatedNode,
    /// The search covered all nodes, until it found enough feasible ones.
    All,
}

/// Feasible nodes that extenders must still filter and score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeasibleNodes {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// The nodes that were searched.
    scope: SearchScope,
    /// Why the other nodes do not fit.
    fit_error: FitError,
}

impl FeasibleNodes {
    /// Returns the fit error, if no node is feasible.
    ///
    /// # Errors
    /// If there are feasible nodes. The error is these nodes.
    pub fn into_fit_error(self) -> Result<FitError, Self> {
        if self.nodes.is_empty() { Ok(self.fit_error) } else { Err(self) }
    }
}

/// The result after the extenders were called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The pod is scheduled or unschedulable.
    Done(ScheduleResult),
    /// The remaining nodes no longer fit.
    Stale,
    /// Extenders rejected the nominated node. They must be called for the given nodes.
    Retry(FeasibleNodes),
}

/// Schedules a pod without extenders. The cache must already count the terms of the pod and of the default spread
/// constraints.
pub fn schedule_pod(
    cluster: &mut Cluster,
    pod: &Pod,
    scoring: &Scoring<'_>,
    rotation: &mut Rotation,
) -> ScheduleResult {
    let Found { nodes, fit_error, .. } = find_feasible(cluster, pod, rotation);
    let chosen = match nodes.as_slice() {
        [] => return ScheduleResult::Unschedulable(fit_error),
        [only] => *only,
        several => pick_best(&scores(cluster, pod, scoring, several), several, rotation),
    };
    match cluster.node(chosen) {
        Some((_, node)) => ScheduleResult::Node(node.name.clone()),
        None => ScheduleResult::Unschedulable(fit_error),
    }
}

/// Finds the feasible nodes for a pod that extenders handle.
pub fn find_feasible_nodes(cluster: &mut Cluster, pod: &Pod, rotation: &mut Rotation) -> FeasibleNodes {
    let found = find_feasible(cluster, pod, rotation);
    with_names(cluster, found)
}

/// Schedules a pod after extenders were called: picks the best of the remaining nodes that are still feasible.
pub fn select_after_extenders(
    cluster: &mut Cluster,
    pod: &Pod,
    feasible: FeasibleNodes,
    (results, scoring): (&ExtenderResults, &Scoring<'_>),
    rotation: &mut Rotation,
) -> Selection {
    let left = || feasible.nodes.iter().filter_map(|name| Some((name, *results.scores.get(name)?)));
    cluster.update_node_order();
    let nominated_conflicts = nominated_conflicts(cluster, pod);
    let prepared = PreFilterState::of(cluster, pod);
    let free = left().filter_map(|(name, extender_score)| {
        let (id, node_info, node) = cluster.node_named(name)?;
        (!nominated_conflicts.contains_key(&id) && prepared.filter(node_info, node).is_none())
            .then_some((id, extender_score))
    });
    let (free, extender_score): (Vec<NodeId>, Vec<i64>) = free.unzip();
    if !free.is_empty() {
        let scores = scores(cluster, pod, scoring, &free).into_iter().zip(extender_score);
        let scores: Vec<i64> =
            scores.map(|(score, extender_score)| score.saturating_add(extender_score)).collect();
        if let Some((_, node)) = cluster.node(pick_best(&scores, &free, rotation)) {
            return Selection::Done(ScheduleResult::Node(node.name.clone()));
        }
    }
    if left().next().is_some() {
        return Selection::Stale;
    }
    if feasible.scope == SearchScope::NominatedNode {
        let found = search_all(cluster, pod, &nominated_conflicts, rotation);
        return Selection::Retry(with_names(cluster, found));
    }
    Selection::Done(ScheduleResult::Unschedulable(rejected_by_extenders(cluster, feasible, results)))
}

/// Adds the extenders' reasons to the fit error. Each node counts once, and an unresolvable reason takes precedence.
/// Reasons for nodes that were not sent to the extenders are ignored.
fn rejected_by_extenders(cluster: &Cluster, feasible: FeasibleNodes, results: &ExtenderResults) -> FitError {
    let FeasibleNodes { nodes, mut fit_error, .. } = feasible;
    let offered: BTreeSet<&String> = nodes.iter().collect();
    let mut reasons_by_node = BTreeMap::<&String, &Reason>::new();
    for (name, reason) in results.refused.iter().filter(|(name, _)| offered.contains(name)) {
        let one = reasons_by_node.entry(name).or_insert(reason);
        if one.is_resolvable() {
            *one = reason;
        }
    }
    for (name, reason) in reasons_by_node {
        if let Some((id, ..)) = cluster.node_named(name) {
            fit_error.add(id, vec![reason.clone()]);
        }
    }
    fit_error.is_rejected_by_extenders = true;
    fit_error
}

/// The result of a search.
struct Found {
    /// Nodes that passed all filters.
    nodes: Vec<NodeId>,
    /// The nodes that were searched.
    scope: SearchScope,
    /// Why the other nodes do not fit.
    fit_error: FitError,
}

fn with_names(cluster: &Cluster, Found { nodes, scope, fit_error }: Found) -> FeasibleNodes {
    let name = |id: &NodeId| cluster.node(*id).map(|(_, node)| node.name.clone());
    FeasibleNodes { nodes: nodes.iter().filter_map(name).collect(), scope, fit_error }
}

/// Finds feasible nodes: the nominated node if it is feasible, otherwise a sample of all nodes.
fn find_feasible(cluster: &mut Cluster, pod: &Pod, rotation: &mut Rotation) -> Found {
    let fit_error = FitError { nodes: cluster.count(), ..FitError::default() };
    if let Err(message) = cluster.volumes().requirements_of(pod) {
        let fit_error = FitError { claim_error: Some(message), ..fit_error };
        return Found { nodes: Vec::new(), scope: SearchScope::All, fit_error };
    }
    cluster.update_node_order();
    let nominated_conflicts = nominated_conflicts(cluster, pod);
    let nominated_node =
        cluster.nominated_pods().node_for(&pod.uid).and_then(|name| cluster.node_named(name));
    if let Some((id, node_info, node)) = nominated_node
        && !nominated_conflicts.contains_key(&id)
        && PreFilterState::of(cluster, pod).filter(node_info, node).is_none()
    {
        return Found { nodes: vec![id], scope: SearchScope::NominatedNode, fit_error };
    }
    search_all(cluster, pod, &nominated_conflicts, rotation)
}

/// Filters nodes until enough of them are feasible. Ignores the nomination.
fn search_all(
    cluster: &Cluster,
    pod: &Pod,
    nominated_conflicts: &HashMap<NodeId, Vec<Reason>>,
    rotation: &mut Rotation,
) -> Found {
    let prepared = PreFilterState::of(cluster, pod);
    let mut found = Found {
        nodes: Vec::new(),
        scope: SearchScope::All,
        fit_error: FitError { nodes: cluster.count(), ..FitError::default() },
    };
    let mut check = |id: NodeId, node_info: &NodeInfo, node: &Node| {
        match nominated_conflicts.get(&id).cloned().or_else(|| prepared.filter(node_info, node)) {
            Some(reasons) => found.fit_error.add(id, reasons),
            None => found.nodes.push(id),
        }
        found.nodes.len()
    };
    if let Some(names) = pod.spec.required_node_affinity.named_nodes() {
        let candidates = names.iter().filter_map(|name| cluster.node_named(name));
        let offered = candidates.map(|(id, node_info, node)| check(id, node_info, node)).count();
        found.fit_error.count(Reason::NotInNodeAffinityNames, cluster.count() - offered);
        return found;
    }
    let (order, wanted) = (cluster.order(), feasible_nodes_wanted(cluster.count()));
    let (before, after) = order.split_at(rotation.start.checked_rem(order.len()).unwrap_or_default());
    for id in after.iter().chain(before) {
        let Some((node_info, node)) = cluster.node(*id) else { continue };
        rotation.start += 1;
        if check(*id, node_info, node) == wanted {
            break;
        }
    }
    rotation.start = rotation.start.checked_rem(order.len()).unwrap_or_default();
    found
}

/// Returns the number of feasible nodes to find, as in the stock scheduler: 50 % of the nodes in small clusters,
/// less in larger ones.
fn feasible_nodes_wanted(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes.max(1);
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE_NODES)
}

/// Returns one of the nodes with the highest score.
fn pick_best(scores: &[i64], nodes: &[NodeId], rotation: &mut Rotation) -> NodeId {
    let most = scores.iter().copied().max().unwrap_or_default();
    let highest: Vec<NodeId> =
        nodes.iter().zip(scores).filter(|(_, score)| **score == most).map(|(id, _)| *id).collect();
    highest.get(rotation.pick(highest.len())).copied().unwrap_or_default()
}

impl FitError {
    fn add(&mut self, id: NodeId, reasons: Vec<Reason>) {
        if reasons.iter().all(Reason::is_resolvable) {
            self.resolvable.push(id);
        }
        reasons.into_iter().for_each(|reason| self.count(reason, 1));
    }

    fn count(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.reasons.entry(reason).or_default() += nodes;
        }
    }

    /// The plugins whose events may make the pod schedulable.
    pub fn plugins(&self) -> BTreeSet<Plugin> {
        if self.nodes == 0 {
            return BTreeSet::from([Plugin::NoNodes]);
        }
        let claim_error = self.claim_error.iter().map(|_| Plugin::VolumeBinding);
        let of_extenders = self.is_rejected_by_extenders.then_some(Plugin::Extender);
        self.reasons.keys().map(Reason::plugin).chain(claim_error).chain(of_extenders).collect()
    }

    /// Number of nodes in the cluster.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Nodes on which preemption could help.
    pub fn resolvable(&self) -> &[NodeId] {
        &self.resolvable
    }

    /// Returns the message of the stock scheduler. `preemption` is the result of preemption.
    pub fn message(&self, preemption: Option<&str>) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for (reason, count) in &self.reasons {
            *counts.entry(reason.message()).or_default() += count;
        }
        let reason = match &self.claim_error {
            Some(message) => format!("0/{} nodes are available: {message}.", self.nodes),
            None => none_available(self.nodes, &counts),
        };
        preemption.map_or_else(|| reason.clone(), |preemption| format!("{reason} preemption: {preemption}"))
    }
}

/// Returns the stock message that no node is available, with the number of nodes per reason.
pub fn none_available(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> =
        reasons.iter().map(|(message, count)| format!("{count} {message}")).collect();
    parts.sort();
    match parts.as_slice() {
        [] => format!("0/{nodes} nodes are available."),
        parts => format!("0/{nodes} nodes are available: {}.", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests;
