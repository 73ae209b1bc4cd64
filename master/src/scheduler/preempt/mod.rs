//! Room for a pod that no node can have: whose pods of lower priority would go for it, and on which node. Pure; as the stock
//! scheduler 1.33 does it.

mod budgets;
mod pick;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::budgets::{Budget, Budgets, FIELDS};
pub use self::victims::Candidate;
use super::cluster::Cluster;
use super::filter::Stand;
use super::place::{Refusal, Turn, none_available};
use super::pod::Pod;
use victims::{Hopeless, victims_on};

/// So many nodes are enough to choose from, and of more nodes one in so many: the stock `minCandidateNodesAbsolute` and
/// `minCandidateNodesPercentage`.
const ENOUGH: usize = 100;
const ONE_IN: usize = 10;

/// What can be done for a pod.
#[derive(Clone, Debug)]
pub enum Room {
    /// These go, and the pod is promised their node.
    Victims(Candidate),
    /// It may not have others ended, or has already, or who has a say in it does not answer; what it was promised stays.
    NotNow(String),
    /// It would not help anywhere; nothing is promised to it any more.
    Nowhere(String),
}

impl Room {
    /// The best of these.
    pub fn of(candidates: Vec<Candidate>) -> Self {
        pick::best(candidates).map_or_else(|| Self::Nowhere(NO_CANDIDATE.to_owned()), Self::Victims)
    }

    /// What is said of it beside why no node can have the pod; nothing where somebody goes.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Victims(_) => None,
            Self::NotNow(words) | Self::Nowhere(words) => Some(words),
        }
    }
}

/// Nodes that could be had for a pod that was refused; at least one.
///
/// # Errors
/// Why there is none.
pub fn candidates(
    cluster: &mut Cluster,
    pod: &Pod,
    refusal: &Refusal,
    budgets: &Budgets,
    turn: &mut Turn,
) -> Result<Vec<Candidate>, Room> {
    if let Some(words) = is_not_now(cluster, pod, refusal) {
        return Err(Room::NotNow(words.to_owned()));
    }
    let curable = refusal.curable();
    let is_anybody_lower = cluster.lowest_priority().is_some_and(|lowest| lowest < pod.wants.priority);
    let enough = (curable.len() / ONE_IN).max(ENOUGH);
    let start = turn.pick(curable.len());
    let stand = Stand::of(cluster, pod);
    let mut candidates = Vec::<Candidate>::new();
    let mut reasons = BTreeMap::<String, usize>::new();
    let mut count = |words: String| *reasons.entry(words).or_default() += 1;
    for id in curable.iter().skip(start).chain(curable.iter().take(start)) {
        if !is_anybody_lower {
            count(NOBODY.to_owned());
            continue;
        }
        match victims_on(cluster, pod, (*id, &stand), budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(Hopeless::Nobody) => count(NOBODY.to_owned()),
            Err(Hopeless::Still(whys)) => whys.iter().for_each(|why| count(why.words())),
        }
        if candidates.len() >= enough && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    if !candidates.is_empty() {
        return Ok(candidates);
    }
    let never = refusal.nodes().saturating_sub(curable.len());
    if never > 0 {
        reasons.insert(NOT_HELPFUL.to_owned(), never);
    }
    Err(Room::Nowhere(none_available(refusal.nodes(), &reasons)))
}

/// Nobody there is of a lower priority.
const NOBODY: &str = "No preemption victims found for incoming pod";
/// Others would have nobody ended for it.
const NO_CANDIDATE: &str = "no candidate node for preemption";
/// The node would refuse it without any pods.
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Why nobody is ended for the pod at this time, whatever nodes say.
fn is_not_now(cluster: &Cluster, pod: &Pod, refusal: &Refusal) -> Option<&'static str> {
    if pod.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let (id, slot, _) = cluster.named(cluster.nominees().node_of(&pod.uid)?)?;
    let goes = |other: &Arc<Pod>| {
        other.wants.priority < pod.wants.priority && other.wants.is_ending && other.is_preempted
    };
    (refusal.curable().contains(&id) && slot.who.iter().any(goes))
        .then_some("not eligible due to a terminating pod on the nominated node.")
}
