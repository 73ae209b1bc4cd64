//! Plans the next step of a StatefulSet: which pods and claims to create, repair and delete, and the status. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::claims::{Claims, User};
use super::identity::{claim_name, ordinal, pod_name};
use super::members::Members;
use super::status;
use crate::controllers::workloads::replica::Replica;
use crate::objects::StatefulSet;
use crate::objects::stateful_set::StatefulSetStatus;

/// Maximum number of pods that are created in one step, as in stock Kubernetes.
pub const BURST: usize = 500;

/// The names of the revisions of a StatefulSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionNames<'a> {
    /// The revision of pods that are not updated yet.
    pub current: &'a str,
    /// The revision of the present template.
    pub update: &'a str,
}

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub set: &'a StatefulSet,
    /// The pods of the StatefulSet.
    pub pods: &'a [Replica<'a>],
    /// The claims of the namespace.
    pub claims: &'a Claims<'a>,
    pub revisions: RevisionNames<'a>,
    pub now: Timestamp,
}

/// The writes of one reconciliation. The status is written after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<'a> {
    /// Writes in phases. A phase starts after all writes of the phase before it have succeeded. Writes within a phase
    /// are in order, and a `Parallel` StatefulSet may do them at the same time.
    pub phases: Vec<Vec<Write<'a>>>,
    pub status: StatefulSetStatus,
    /// The time until a pod becomes available without any event.
    pub requeue_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Create the claims of a pod, and then the pod.
    Create(NewPod),
    /// Create claims that a pending pod lacks.
    CreateClaims {
        pod: &'a str,
        claims: Vec<NewClaim>,
    },
    /// Set the labels that identify a pod.
    Relabel {
        name: &'a str,
        uid: &'a str,
        ordinal: i64,
    },
    /// Change the owner references of a claim by the retention policy.
    OwnClaim {
        claim: String,
        user: User<'a>,
    },
    Delete {
        name: &'a str,
        uid: &'a str,
    },
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    pub name: String,
    pub ordinal: i64,
    /// Whether the pod gets the current revision, not the update revision.
    pub is_current: bool,
    /// The claims that do not exist.
    pub claims: Vec<NewClaim>,
    /// A claim that is being deleted. The pod cannot be created before it is gone.
    pub terminating_claim: Option<String>,
}

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// The name of the claim template.
    pub template: Box<str>,
    pub name: String,
}

/// Plans the next step of a StatefulSet.
pub fn plan<'a>(input: &Input<'a>) -> Plan<'a> {
    let set = input.set;
    let members = Members::of(input);
    let mut status = status::counts(input, members.all());
    let mut phases = Vec::new();
    if !set.metadata.is_terminating() {
        let updates = members.steps(&mut phases);
        let replaced = updates.iter().filter(|pod| status::revision(pod) == input.revisions.current);
        status.current_replicas -= i64::try_from(replaced.count()).unwrap_or(0);
        phases.push(updates.iter().map(delete).collect());
    }
    status::complete_update(set, &mut status);
    phases.retain(|phase| !phase.is_empty());
    let requeue_after = status::next_availability(set, input.pods, input.now);
    Plan { phases, status, requeue_after }
}

/// Whether a new pod gets the current revision, because the update has not reached its ordinal.
pub fn is_current(set: &StatefulSet, ordinal: i64) -> bool {
    let kept = match &set.spec.update_strategy.rolling_update {
        Some(rolling) => rolling.partition.unwrap_or(0),
        None if set.is_rolling() => set.status.current_replicas,
        None => 0,
    };
    ordinal < set.spec.ordinals.start.saturating_add(kept)
}

pub(super) fn delete<'a>(pod: &Replica<'a>) -> Write<'a> {
    Write::Delete { name: pod.name, uid: pod.uid }
}

/// Returns the new pod of an ordinal. Returns `None` if one of its claims belongs to an earlier pod and will be deleted
/// with it.
pub(super) fn new_pod(input: &Input<'_>, ordinal: i64) -> Option<NewPod> {
    let name = pod_name(&input.set.metadata.name, ordinal);
    let mut terminating_claim = None;
    for template in &input.set.spec.volume_claim_templates {
        let claim = claim_name(&template.metadata.name, &name);
        let Some(known) = input.claims.get(&*claim) else { continue };
        if super::claims::is_stale(input.set, &name, known.owners) {
            return None;
        }
        if known.is_terminating {
            terminating_claim = terminating_claim.or(Some(claim));
        }
    }
    let (claims, is_current) = (missing_claims(input, &name), is_current(input.set, ordinal));
    Some(NewPod { name, ordinal, is_current, claims, terminating_claim })
}

/// Returns the claims that a pod lacks.
pub(super) fn missing_claims(input: &Input<'_>, pod: &str) -> Vec<NewClaim> {
    let templates = input.set.spec.volume_claim_templates.iter();
    let claims = templates.map(|template| {
        let template = template.metadata.name.clone();
        NewClaim { name: claim_name(&template, pod), template }
    });
    claims.filter(|claim| !input.claims.contains_key(&*claim.name)).collect()
}

/// Whether the StatefulSet gives the name of this pod to one of its pods.
pub fn is_member(set: &StatefulSet, pod: &Replica<'_>) -> bool {
    ordinal(&set.metadata.name, pod.name).is_some()
}
