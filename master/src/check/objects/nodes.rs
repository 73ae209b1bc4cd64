//! Checks nodes: readiness, heartbeats, pressure, pod CIDRs and taints. Pure.

use std::collections::HashMap;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::World;
use super::clocks::{self, ServerClock};
use super::kinds::{Node, condition, why};
use crate::check::finding::{Finding, Subject, counted};
use crate::objects::{Lease, Taint};
use crate::pod_cidrs;
use crate::trust::CONDITION;

/// Grace period for heartbeats; the stock `--node-monitor-grace-period`.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// Grace period without a lease. Kubelets update the status every five minutes.
const STATUS_GRACE: SignedDuration = SignedDuration::from_mins(6);
/// Namespace of node leases.
const LEASES: &str = "kube-node-lease";
/// Pressure conditions with their meaning and remedy.
const PRESSURES: &[(&str, &str, &str)] = &[
    (
        "MemoryPressure",
        "is short of memory",
        "delete or move pods, or set memory limits: `kubectl top`, `kubectl describe node`",
    ),
    ("DiskPressure", "is short of disk", "free space on it: unused images, logs, volumes of deleted pods"),
    ("PIDPressure", "is short of process ids", "find the container with many processes (`ps` on the node)"),
];
/// Condition of nodes whose pods have no network.
const NO_NETWORK: &str = "NetworkUnavailable";
/// Prefix of taints that follow from conditions. These conditions are already reported.
const OF_CONDITIONS: &str = "node.kubernetes.io/";
/// Taint of nodes that wait for a cloud controller manager.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Maximum number of node names in one finding.
const MOST_NAMES: usize = 20;

/// Findings for all nodes.
pub fn findings(world: &World) -> Vec<Finding> {
    let leases = world.lists.leases.iter().filter(|lease| &*lease.metadata.namespace == LEASES);
    let leases: HashMap<&str, &Lease> = leases.map(|lease| (&*lease.metadata.name, lease)).collect();
    let nodes = &world.lists.nodes;
    let clock = ServerClock::of(world);
    let lease = |node: &Node| leases.get(&*node.metadata.name).copied();
    let of = |node| of_node(world, &clock, node, lease(node));
    let mut found: Vec<Finding> = nodes.iter().flat_map(of).collect();
    found.extend(ranges(nodes));
    if !nodes.is_empty() && nodes.iter().all(closed) {
        let remedy =
            "remove a taint (`kubectl taint nodes NAME KEY-`), uncordon a node, or add tolerations to pods";
        let cause = "every node is cordoned or has a taint";
        found.push(Finding::warning("nodes", "none accepts pods without tolerations", remedy).because(cause));
    }
    found
}

/// The findings for nodes with overlapping pod CIDRs, and for nodes without one while others have one.
pub fn ranges(nodes: &[Node]) -> Vec<Finding> {
    let held: Vec<(&str, Vec<IpNet>)> = nodes
        .iter()
        .map(|node| (&*node.metadata.name, pod_cidrs::of(&node.spec).unwrap_or_default()))
        .collect();
    if held.iter().all(|(_, ranges)| ranges.is_empty()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut all: Vec<(IpNet, &str)> =
        held.iter().flat_map(|(node, ranges)| ranges.iter().map(|range| (*range, *node))).collect();
    // A network sorts directly before its subnets.
    all.sort_unstable();
    let mut wide: Option<(IpNet, &str)> = None;
    let mut shared: Vec<String> = Vec::new();
    for (range, node) in all {
        match wide {
            Some((outer, other)) if outer.contains(&range) => {
                shared.push(format!("{node} has {range} and {other} has {outer}"));
            }
            _ => wide = Some((range, node)),
        }
    }
    if let Some(first) = shared.first() {
        let more = match shared.len() - 1 {
            0 => String::new(),
            more => format!(", and {} like it", counted(more, "pair")),
        };
        let what = format!("the pod CIDRs of two nodes overlap: {first}{more}");
        let remedy = "delete the pods of one of them and its Node: it registers again and gets another CIDR";
        let cause = "the CIDRs were set manually, or before this master allocated them";
        found.push(Finding::problem("nodes", what, remedy).because(cause));
    }
    let without: Vec<&str> = held.iter().filter(|(_, own)| own.is_empty()).map(|(node, _)| *node).collect();
    if !without.is_empty() {
        let named = without.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
        let rest = if without.len() > MOST_NAMES { ", ..." } else { "" };
        let what = format!("{} without a pod CIDR: {named}{rest}", counted(without.len(), "node"));
        let remedy = "delete Nodes of removed machines (`kubectl delete node`), or widen `--cluster-cidr`";
        found.push(Finding::warning("nodes", what, remedy).because("`--cluster-cidr` is exhausted"));
    }
    found
}

/// The findings for nodes whose client certificate was not signed by these CAs of the current root, and for nodes
/// whose signer is unknown.
pub fn unrenewed(nodes: &[Node], authorities: &[String]) -> Vec<Finding> {
    let (unknown, known): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().partition(|node| node.metadata.annotations.signed_by.is_empty());
    let is_current = |node: &Node| {
        let signer = &node.metadata.annotations.signed_by;
        authorities.iter().any(|authority| **authority == **signer)
    };
    let other: Vec<&Node> = known.into_iter().filter(|node| !is_current(node)).collect();
    let of = |nodes: Vec<&Node>, what: &str, cause: String, remedy: &str| {
        let named =
            nodes.iter().take(MOST_NAMES).map(|node| &*node.metadata.name).collect::<Vec<_>>().join(", ");
        let rest = if nodes.len() > MOST_NAMES { ", ..." } else { "" };
        let what = format!("{} {what}: {named}{rest}", counted(nodes.len(), "node"));
        (!nodes.is_empty()).then(|| Finding::warning("certificate authority", what, remedy).because(cause))
    };
    let authority = authorities.first().map_or("a CA of the new root", String::as_str);
    let cause = format!(
        "{authority} signs now, and a CA of another root signed the certificate with which the Node was last \
         written"
    );
    let remedy = "before `master rotate-ca --retire`, which locks them out, wait until they have renewed their \
         certificates, or let them join again. This kubelet renews as soon as it knows the new root, a stock \
         kubelet shortly before its certificate expires";
    let shown = of(other, "without a certificate of the new root", cause, remedy);
    let cause = "the node has not written its Node since masters record the signer".to_owned();
    let remedy = "before `master rotate-ca --retire`, check whether the machine runs; its next status shows the \
         signer";
    let unknown = of(unknown, "whose certificate has an unknown signer", cause, remedy);
    shown.into_iter().chain(unknown).collect()
}

fn of_node(world: &World, clock: &ServerClock, node: &Node, lease: Option<&Lease>) -> Vec<Finding> {
    let subject = || Subject::of("Node", &node.metadata);
    let conditions = &node.status.conditions;
    let skewed = lease.and_then(|lease| clocks::finding(clock, node, lease));
    // A wrong clock makes the lease useless for judging heartbeats.
    let dated = lease.filter(|_| skewed.is_none());
    let mut found = match not_ready_for_its_network(node) {
        Some(finding) => vec![finding],
        None => readiness(world, node, dated).into_iter().chain(network(node)).collect(),
    };
    found.extend(skewed);
    for (kind, what, remedy) in PRESSURES {
        let pressure = condition(conditions, kind);
        if pressure.is_true() {
            found.push(Finding::problem(subject(), *what, *remedy).because(why(pressure)));
        }
    }
    if node.spec.unschedulable {
        let remedy = format!("after the maintenance: `kubectl uncordon {}`", node.metadata.name);
        found.push(Finding::warning(subject(), "accepts no new pods", remedy).because("it is cordoned"));
    }
    let trusted = condition(conditions, CONDITION);
    if &*trusted.status == "False" {
        let remedy = "if it is the right machine: `kubectl annotate node NAME coracle.io/trusted=true`, or let it \
                      join again; otherwise `kubectl delete node NAME`";
        let what = "is not trusted to run pods";
        found.push(Finding::warning(subject(), what, remedy).because(why(trusted)));
    }
    if node.spec.taints.iter().any(|taint| &*taint.key == UNINITIALIZED) {
        let remedy =
            "run the cloud controller manager, or start the kubelet without --cloud-provider=external";
        let cause = format!("the cloud controller manager has not removed the taint {UNINITIALIZED}");
        found.push(Finding::problem(subject(), "waits to be initialized", remedy).because(cause));
    }
    found.extend(world.version.of_node(subject(), &node.status.node_info.kubelet_version));
    found
}

/// The finding for a node that is not ready or sends no heartbeats.
fn readiness(world: &World, node: &Node, lease: Option<&Lease>) -> Option<Finding> {
    let subject = Subject::of("Node", &node.metadata);
    let ready = condition(&node.status.conditions, "Ready");
    let silent = silence(world, lease, ready.last_heartbeat_time);
    let look = "check that the machine is up, and that its kubelet runs (see its log) and reaches the master";
    match &*ready.status {
        "" if world.since(node.metadata.creation_timestamp) < GRACE => None,
        "" => {
            let cause = "no kubelet has reported a status";
            Some(Finding::problem(subject, "has never reported a status", look).because(cause))
        }
        "True" => silent.map(|since| {
            let cause = format!("its last heartbeat is {} s old, by its own clock", since.as_secs());
            Finding::problem(subject, "sends no heartbeats", look).because(cause)
        }),
        "Unknown" => Some(Finding::problem(subject, "sends no heartbeats", look).because(why(ready))),
        _ => {
            let remedy = format!(
                "for details see `kubectl describe node {}` and the kubelet's log on the node",
                node.metadata.name
            );
            Some(Finding::problem(subject, "is not ready", remedy).because(why(ready)))
        }
    }
}

/// The finding for a node without a pod network.
fn network(node: &Node) -> Option<Finding> {
    let unavailable = condition(&node.status.conditions, NO_NETWORK);
    let remedy = format!(
        "follow the message; for details see `kubectl describe node {}`, and on the node `kubelet get events -A` and the kubelet's log",
        node.metadata.name
    );
    let why = if unavailable.message.is_empty() { &unavailable.reason } else { &unavailable.message };
    let finding = Finding::problem(Subject::of("Node", &node.metadata), "its pods have no network", remedy);
    unavailable.is_true().then(|| finding.because(&**why))
}

/// The finding for a node that is NotReady only because of its network. Such a node gets only this one.
fn not_ready_for_its_network(node: &Node) -> Option<Finding> {
    let conditions = &node.status.conditions;
    let (ready, why) = (condition(conditions, "Ready"), &condition(conditions, NO_NETWORK).message);
    let is_why = &*ready.status == "False" && !why.is_empty() && ready.message.contains(&**why);
    let what = "is not ready, because its pods have no network".to_owned();
    network(node).filter(|_| is_why).map(|finding| Finding { what, ..finding })
}

/// Time since the last heartbeat, if it exceeds the grace period.
fn silence(world: &World, lease: Option<&Lease>, heartbeat: Option<Timestamp>) -> Option<SignedDuration> {
    let (time, allowed) = match lease.map(|lease| &lease.spec).filter(|spec| spec.renew_time.is_some()) {
        Some(spec) => (
            spec.renew_time,
            SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or_default()).max(GRACE),
        ),
        None => (heartbeat, STATUS_GRACE),
    };
    let since = world.since(time);
    // Heartbeats could not arrive before the API server was started.
    let is_patient = world.started.is_none_or(|started| world.now.duration_since(started) > allowed);
    (since > allowed && is_patient).then_some(since)
}

/// True if the node is cordoned or has a taint that does not follow from a condition.
fn closed(node: &Node) -> bool {
    let keeps_off = |taint: &Taint| {
        matches!(&*taint.effect, "NoSchedule" | "NoExecute") && !taint.key.starts_with(OF_CONDITIONS)
    };
    node.spec.unschedulable || node.spec.taints.iter().any(keeps_off)
}
