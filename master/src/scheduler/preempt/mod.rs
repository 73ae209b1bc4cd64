//! Preemption, as in the stock scheduler 1.33: finds lower-priority pods whose deletion makes room for a pod. Pure.

mod budgets;
#[cfg(test)]
mod tests;
mod victims;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::budgets::{Budget, Budgets};
pub use self::victims::Candidate;
use super::cluster::Cluster;
use super::filter::TopologyPairCounts;
use super::pod::Pod;
use super::schedule_one::{FitError, Rotation, none_available};
use victims::{NotPreemptable, victims_on};

/// Minimum number of candidates to evaluate, as the stock `minCandidateNodesAbsolute`.
const MIN_CANDIDATES: usize = 100;
/// Preemption evaluates at least one tenth of the nodes where it may help, as with the stock
/// `minCandidateNodesPercentage`.
const CANDIDATE_FRACTION: usize = 10;

/// The result of preemption for a pod.
#[derive(Clone, Debug)]
pub enum PreemptionResult {
    /// Delete the victims and nominate the node.
    Victims(Candidate),
    /// The pod may not preempt, its victims are terminating, or an extender failed. Its nomination stays.
    NotEligible(String),
    /// Preemption does not help on any node. The nomination of the pod is cleared.
    NoCandidate(String),
}

impl PreemptionResult {
    /// Chooses the best candidate.
    pub fn of(candidates: Vec<Candidate>) -> Self {
        cheapest(candidates).map_or_else(|| Self::NoCandidate(NO_CANDIDATE.to_owned()), Self::Victims)
    }

    /// Returns the text after `preemption:` in the scheduling failure, or `None` if there are victims.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Victims(_) => None,
            Self::NotEligible(message) | Self::NoCandidate(message) => Some(message),
        }
    }
}

/// Finds the nodes where preemption makes the pod schedulable. Returns at least one.
///
/// # Errors
/// If there are no candidates. The error is the result for the pod.
pub fn find_candidates(
    cluster: &mut Cluster,
    pod: &Pod,
    fit_error: &FitError,
    budgets: &Budgets,
    rotation: &mut Rotation,
) -> Result<Vec<Candidate>, PreemptionResult> {
    if let Some(message) = ineligible_reason(cluster, pod, fit_error) {
        return Err(PreemptionResult::NotEligible(message.to_owned()));
    }
    let resolvable = fit_error.resolvable();
    let has_lower_priority = cluster.lowest_priority().is_some_and(|lowest| lowest < pod.spec.priority);
    let wanted = (resolvable.len() / CANDIDATE_FRACTION).max(MIN_CANDIDATES);
    let start = rotation.pick(resolvable.len());
    let pair_counts = TopologyPairCounts::of(cluster, pod);
    let mut candidates = Vec::<Candidate>::new();
    let mut reasons = BTreeMap::<String, usize>::new();
    let mut count = |message: String| *reasons.entry(message).or_default() += 1;
    for id in resolvable.iter().skip(start).chain(resolvable.iter().take(start)) {
        if !has_lower_priority {
            count(NO_VICTIMS.to_owned());
            continue;
        }
        match victims_on(cluster, pod, (*id, &pair_counts), budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(NotPreemptable::NoLowerPriority) => count(NO_VICTIMS.to_owned()),
            Err(NotPreemptable::StillUnschedulable(reasons)) => {
                reasons.iter().for_each(|reason| count(reason.message()))
            }
        }
        if candidates.len() >= wanted && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    if !candidates.is_empty() {
        return Ok(candidates);
    }
    let unresolvable = fit_error.nodes().saturating_sub(resolvable.len());
    if unresolvable > 0 {
        reasons.insert(NOT_HELPFUL.to_owned(), unresolvable);
    }
    Err(PreemptionResult::NoCandidate(none_available(fit_error.nodes(), &reasons)))
}

/// The message if all pods on the node have at least the priority of the pod.
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
/// The message if extenders rejected all candidates.
const NO_CANDIDATE: &str = "no candidate node for preemption";
/// The message if the node would reject the pod even without other pods.
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Returns the reason why the pod may not preempt now: its policy, or victims that are still terminating on its
/// nominated node.
fn ineligible_reason(cluster: &Cluster, pod: &Pod, fit_error: &FitError) -> Option<&'static str> {
    if pod.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let (id, node_info, _) = cluster.node_named(cluster.nominated_pods().node_for(&pod.uid)?)?;
    let is_terminating_victim = |other: &Arc<Pod>| {
        other.spec.priority < pod.spec.priority && other.spec.is_terminating && other.is_preempted
    };
    (fit_error.resolvable().contains(&id) && node_info.pods.iter().any(is_terminating_victim))
        .then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Offset that makes priorities positive, as in the stock scheduler. Otherwise a sum over more victims of negative
/// priority would be smaller.
const PRIORITY_OFFSET: i64 = 1 << 31;

/// Returns the candidate with the least cost. Of equal candidates, it returns the first.
fn cheapest(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(cost)
}

/// Returns the cost in the stock order.
///
/// The order is: PDB violations, highest victim priority, sum of priorities, number of victims, and the latest
/// start time of the most important victims.
fn cost(candidate: &Candidate) -> (usize, i64, i64, usize, Reverse<Timestamp>) {
    let priorities = || candidate.victims.iter().map(|pod| pod.spec.priority);
    let highest = priorities().max().unwrap_or(i64::MIN);
    let sum = priorities().map(|priority| priority + PRIORITY_OFFSET).sum();
    let of_highest = candidate.victims.iter().filter(|pod| pod.spec.priority == highest);
    let start_time = of_highest.map(|pod| pod.start_time_or_max()).min().unwrap_or(Timestamp::MAX);
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(start_time))
}
