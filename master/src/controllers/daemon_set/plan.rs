//! Plans the next step of a DaemonSet: on which nodes to create pods, and which pods to delete. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::eligibility::Eligibility;
use super::pods::{DaemonNode, DaemonPod, PodsByNode, by_node};
use super::rolling;
use crate::controllers::workloads::pod_writes::{BURST, PodToDelete};
use crate::objects::DaemonSet;
use crate::objects::values::Rounding;

/// Returns how long a failed pod on a node must wait until it is replaced. `None` if it need not wait.
pub type Backoff<'a> = &'a (dyn Fn(&str) -> Option<Duration> + Sync);

/// The input of the plan.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub set: &'a DaemonSet,
    pub nodes: &'a [DaemonNode<'a>],
    pub pods: &'a [DaemonPod<'a>],
    /// The hash of the current revision.
    pub hash: &'a str,
    pub backoff: Backoff<'a>,
    pub now: Timestamp,
}

/// The writes of one step. Creations and deletions are limited to [`BURST`] each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan<'a> {
    /// Nodes for which a pod is created.
    pub create: Vec<&'a str>,
    pub delete: Vec<PodToDelete<'a>>,
    /// The deleted pods that have ended, for events and the backoff.
    pub ended: Vec<Ended<'a>>,
    /// Time until a failed pod may be replaced.
    pub wait: Option<Duration>,
}

/// A pod that has ended although it should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<'a> {
    pub pod: &'a str,
    pub node: &'a str,
    /// Whether the phase is `Failed`, not `Succeeded`.
    pub has_failed: bool,
}

/// Returns the next step. A rolling update continues only when each node has the pods that it should have.
pub fn plan(input: Input<'_>) -> Plan<'_> {
    let pods = by_node(input.pods);
    let mut plan = manage(input, &pods);
    if plan.create.is_empty() && plan.delete.is_empty() && is_rolling(input.set) {
        let step = rolling::step(input, &pods);
        plan.create = step.create;
        plan.delete = step.delete;
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

/// Returns how long a ready pod must stay ready until it is available.
pub fn min_ready(set: &DaemonSet) -> Duration {
    Duration::from_secs(u64::try_from(set.spec.min_ready_seconds).unwrap_or(0))
}

fn is_rolling(set: &DaemonSet) -> bool {
    &*set.spec.update_strategy.r#type == "RollingUpdate"
}

/// The limits of a rolling update in nodes. Both are 0 for other strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of nodes with a new pod beside an old one.
    pub surge: i64,
    /// Maximum number of nodes without an available pod.
    pub unavailable: i64,
}

impl Limits {
    /// Computes the limits for the number of nodes that should run a pod. Percentages are rounded up. If both are 0,
    /// one node may be unavailable, because no rollout could make progress otherwise.
    pub fn of(set: &DaemonSet, desired: i64) -> Self {
        let rolling = set.spec.update_strategy.rolling_update.as_ref().filter(|_| is_rolling(set));
        let scaled = |value: Option<&crate::objects::IntOrString>| {
            value.map_or(0, |value| value.scaled(desired, Rounding::Up))
        };
        let surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()));
        let unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()));
        let is_stuck = is_rolling(set) && desired > 0 && surge == 0 && unavailable == 0;
        Self { surge, unavailable: if is_stuck { 1 } else { unavailable } }
    }
}

/// Plans creations and deletions so that each node that should run a pod has exactly one.
fn manage<'a>(input: Input<'a>, pods: &PodsByNode<'a>) -> Plan<'a> {
    let mut plan = Plan::default();
    for node in input.nodes {
        let here = pods.get(node.name).map(Vec::as_slice).unwrap_or_default();
        match node.eligibility {
            Eligibility::Run if here.is_empty() => plan.create.push(node.name),
            Eligibility::Run | Eligibility::Continue => keep_one(input, node, here, &mut plan),
            Eligibility::Stop => plan.delete.extend(here.iter().filter(|pod| stays(pod)).map(to_delete)),
        }
    }
    // No kubelet and no pod garbage collector deletes a pod that waits for a node that does not exist.
    let is_missing = |node: &str| input.nodes.iter().all(|known| known.name != node);
    let stray = pods.iter().filter(|(node, _)| is_missing(node)).flat_map(|(_, pods)| pods);
    plan.delete.extend(stray.filter(|pod| pod.replica.node.is_empty() && stays(pod)).map(to_delete));
    plan
}

/// Deletes ended pods, and all but one pod of a node. With surge, an old and a new pod may run beside each other.
fn keep_one<'a>(input: Input<'a>, node: &DaemonNode<'a>, here: &[DaemonPod<'a>], plan: &mut Plan<'a>) {
    let (ended, live): (Vec<&DaemonPod<'a>>, Vec<&DaemonPod<'a>>) =
        here.iter().filter(|pod| stays(pod)).partition(|pod| pod.replica.is_terminal());
    let mut is_waiting = false;
    for pod in ended {
        let pause = (input.backoff)(node.name).filter(|_| pod.has_failed);
        if let Some(pause) = pause {
            is_waiting = true;
            plan.wait = Some(plan.wait.map_or(pause, |known| known.min(pause)));
            continue;
        }
        plan.ended.push(Ended { pod: pod.replica.name, node: node.name, has_failed: pod.has_failed });
        plan.delete.push(to_delete(pod));
    }
    // One node is enough to see whether there is any surge.
    if Limits::of(input.set, 1).surge == 0 {
        plan.delete.extend(live.iter().skip(1).map(|pod| to_delete(pod)));
        return;
    }
    if live.is_empty() && !is_waiting && node.eligibility == Eligibility::Run {
        plan.create.push(node.name);
    }
    let (new, old): (Vec<_>, Vec<_>) = live.iter().copied().partition(|pod| pod.is_updated(input.hash));
    let excess = new.iter().skip(1).chain(old.iter().skip(1));
    plan.delete.extend(excess.map(|pod| to_delete(pod)));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.replica.is_ready || new.is_available(min_ready(input.set), input.now))
    {
        plan.delete.push(to_delete(old));
    }
}

/// Whether the pod is not being deleted.
fn stays(pod: &DaemonPod<'_>) -> bool {
    !pod.replica.is_terminating
}

/// The pod as one to delete.
pub fn to_delete<'a>(pod: &DaemonPod<'a>) -> PodToDelete<'a> {
    PodToDelete { name: pod.replica.name, uid: pod.replica.uid }
}
