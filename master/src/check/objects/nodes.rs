//! Nodes: who is not ready, who has not been heard of, who lacks something, and whether any takes pods. Pure.

use std::collections::HashMap;

use ipnet::IpNet;
use jiff::SignedDuration;
use serde_json::Value;

use super::World;
use super::field::{condition, list, part, text};
use crate::check::finding::{Finding, Subject, counted};
use crate::controllers::Object;
use crate::pod_ranges;
use crate::trust::{CONDITION, SIGNED_BY};

/// A node that is silent for longer is taken for dead; the stock `--node-monitor-grace-period`.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// Without a lease only the status tells, which is written every five minutes.
const STATUS_GRACE: SignedDuration = SignedDuration::from_mins(6);
/// Where nodes have their leases.
const LEASES: &str = "kube-node-lease";
/// Conditions that should not hold, what they mean, and the cure.
const PRESSURES: &[(&str, &str, &str)] = &[
    (
        "MemoryPressure",
        "is short of memory",
        "end or move pods, or give their containers limits: `kubectl top`, `kubectl describe node`",
    ),
    (
        "DiskPressure",
        "is short of disk",
        "make room on it: images nobody uses, logs, volumes of pods that are gone",
    ),
    ("PIDPressure", "is short of processes", "look which container makes so many (`ps` on the node)"),
];
/// Set where pods of a node have no network.
const NO_NETWORK: &str = "NetworkUnavailable";
/// What taints begin with that follow from conditions, which are told of already.
const OF_CONDITIONS: &str = "node.kubernetes.io/";
/// The taint of a node that waits for a cloud's controller.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Nodes that are named in one line.
const MOST_NAMES: usize = 20;

/// What is wrong with nodes.
pub fn findings(world: &World) -> Vec<Finding> {
    let leases = world.of("leases").iter().filter(|lease| lease.namespace == LEASES);
    let leases: HashMap<&str, &Object> = leases.map(|lease| (lease.name.as_str(), lease)).collect();
    let nodes = world.of("nodes");
    let mut found: Vec<Finding> =
        nodes.iter().flat_map(|node| of_node(world, node, leases.get(node.name.as_str()).copied())).collect();
    found.extend(ranges(nodes));
    if !nodes.is_empty() && nodes.iter().all(closed) {
        let remedy = "take a taint off (`kubectl taint nodes NAME KEY-`) or uncordon a node; pods may tolerate taints instead";
        let cause = "every node is cordoned or has a taint";
        found.push(Finding::warning("nodes", "none takes pods without tolerations", remedy).because(cause));
    }
    found
}

/// Nodes whose pods have the same addresses, and those whose pods have none while those of others do.
pub fn ranges(nodes: &[Object]) -> Vec<Finding> {
    let held: Vec<(&str, Vec<IpNet>)> = nodes
        .iter()
        .map(|node| (node.name.as_str(), pod_ranges::of(&node.kept).unwrap_or_default()))
        .collect();
    if held.iter().all(|(_, ranges)| ranges.is_empty()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut all: Vec<(IpNet, &str)> =
        held.iter().flat_map(|(node, ranges)| ranges.iter().map(|range| (*range, *node))).collect();
    // A range comes right before what lies in it.
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
        let what = format!("pods of two nodes have the same addresses: {first}{more}");
        let remedy =
            "end the pods of one of them and delete its Node: it registers again and gets another range";
        let cause = "ranges were written by hand, or before this master gave them";
        found.push(Finding::problem("nodes", what, remedy).because(cause));
    }
    let without: Vec<&str> = held.iter().filter(|(_, own)| own.is_empty()).map(|(node, _)| *node).collect();
    if !without.is_empty() {
        let named = without.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
        let rest = if without.len() > MOST_NAMES { ", ..." } else { "" };
        let what = format!("{} without a range for pods: {named}{rest}", counted(without.len(), "node"));
        let remedy = "remove Nodes that are gone for good (`kubectl delete node`), or widen `--cluster-cidr`";
        found.push(Finding::warning("nodes", what, remedy).because("no range of `--cluster-cidr` is left"));
    }
    found
}

/// Nodes that show what none of these authorities of the root of now has signed, and those of which nobody knows.
pub fn unrenewed(nodes: &[Object], authorities: &[String]) -> Vec<Finding> {
    let signer = |node: &Object| {
        let annotations = node.kept("/metadata/annotations");
        let found = annotations.and_then(|annotations| annotations.get(SIGNED_BY)?.as_str());
        found.unwrap_or_default().to_owned()
    };
    let (unknown, known): (Vec<&Object>, Vec<&Object>) =
        nodes.iter().partition(|node| signer(node).is_empty());
    let other: Vec<&Object> = known.into_iter().filter(|node| !authorities.contains(&signer(node))).collect();
    let of = |nodes: Vec<&Object>, what: &str, cause: String, remedy: &str| {
        let named =
            nodes.iter().take(MOST_NAMES).map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
        let rest = if nodes.len() > MOST_NAMES { ", ..." } else { "" };
        let what = format!("{} {what}: {named}{rest}", counted(nodes.len(), "node"));
        (!nodes.is_empty()).then(|| Finding::warning("certificate authority", what, remedy).because(cause))
    };
    let authority = authorities.first().map_or("an authority of the new root", String::as_str);
    let cause = format!(
        "{authority} signs now, and one of another root signed what was shown when the Node was last written"
    );
    let remedy = "before `master rotate-ca --retire`, which shuts them out, wait until they have renewed (kubelets do by themselves: ours when they \
                  hear of the new root, others late in the life of their certificate), or have them join anew";
    let shown = of(other, "without a certificate of the new root", cause, remedy);
    let cause = "nothing has been written by the node itself since masters note it".to_owned();
    let remedy = "before `master rotate-ca --retire`, look whether the machine is there; it tells with its next status";
    let unknown = of(unknown, "of which nobody knows who signed their certificate", cause, remedy);
    shown.into_iter().chain(unknown).collect()
}

fn of_node(world: &World, node: &Object, lease: Option<&Object>) -> Vec<Finding> {
    let subject = || Subject::of("Node", node);
    let mut found = match not_ready_for_its_network(node) {
        Some(finding) => vec![finding],
        None => readiness(world, node, lease).into_iter().chain(network(node)).collect(),
    };
    for (kind, what, remedy) in PRESSURES {
        let pressure = condition(node, kind);
        if pressure.holds() {
            found.push(Finding::problem(subject(), *what, *remedy).because(pressure.why()));
        }
    }
    if is_cordoned(node) {
        let remedy = format!("when the work on it is done: `kubectl uncordon {}`", node.name);
        found.push(Finding::warning(subject(), "takes no new pods", remedy).because("it is cordoned"));
    }
    let trusted = condition(node, CONDITION);
    if trusted.status == "False" {
        let remedy = "if it is the machine that it should be: `kubectl annotate node NAME coracle.io/trusted=true`, or have it \
                      join anew; else `kubectl delete node NAME`";
        let what = "is not trusted to take work";
        found.push(Finding::warning(subject(), what, remedy).because(trusted.why()));
    }
    if taints(node).any(|taint| part(taint, "key") == UNINITIALIZED) {
        let remedy =
            "run the cloud's controller manager, or start the kubelet without --cloud-provider=external";
        let cause = format!("its taint {UNINITIALIZED} is to be taken off by a cloud's controller");
        found.push(Finding::problem(subject(), "waits to be initialized", remedy).because(cause));
    }
    found.extend(world.version.of_node(node, text(node, "/status/nodeInfo/kubeletVersion")));
    found
}

/// Whether it says that it is ready, and still says so.
fn readiness(world: &World, node: &Object, lease: Option<&Object>) -> Option<Finding> {
    let subject = Subject::of("Node", node);
    let ready = condition(node, "Ready");
    let silent = silence(world, lease, ready.heartbeat);
    let look = "look whether its machine is up, the kubelet runs there (its log) and reaches the master";
    match ready.status {
        "" if world.since(&node.created) < GRACE => None,
        "" => {
            let cause = "no kubelet has reported a status";
            Some(Finding::problem(subject, "has never said how it is", look).because(cause))
        }
        "True" => silent.map(|since| {
            let cause = format!("its last sign of life is {} s old", since.as_secs());
            Finding::problem(subject, "is not heard of any more", look).because(cause)
        }),
        "Unknown" => Some(Finding::problem(subject, "is not heard of any more", look).because(ready.why())),
        _ => {
            let remedy =
                format!("`kubectl describe node {}` and the log of the kubelet there say more", node.name);
            Some(Finding::problem(subject, "is not ready", remedy).because(ready.why()))
        }
    }
}

/// Whether its pods have a network.
fn network(node: &Object) -> Option<Finding> {
    let unavailable = condition(node, NO_NETWORK);
    let remedy = format!(
        "do what it says; `kubectl describe node {}`, and there `kubelet get events -A` and the kubelet's log, say more",
        node.name
    );
    let why = if unavailable.message.is_empty() { unavailable.reason } else { unavailable.message };
    let finding = Finding::problem(Subject::of("Node", node), "its pods have no network", remedy);
    unavailable.holds().then(|| finding.because(why))
}

/// The same of a node that is not ready for no other reason: two conditions tell one story.
fn not_ready_for_its_network(node: &Object) -> Option<Finding> {
    let (ready, why) = (condition(node, "Ready"), condition(node, NO_NETWORK).message);
    let is_why = ready.status == "False" && !why.is_empty() && ready.message.contains(why);
    let what = "is not ready, as its pods have no network".to_owned();
    network(node).filter(|_| is_why).map(|finding| Finding { what, ..finding })
}

/// For how long nothing was heard, where that is too long.
fn silence(world: &World, lease: Option<&Object>, heartbeat: &str) -> Option<SignedDuration> {
    let renewed = lease.map(|lease| text(lease, "/spec/renewTime")).filter(|time| !time.is_empty());
    let (time, allowed) = match renewed {
        Some(time) => {
            let own =
                lease.and_then(|lease| lease.kept("/spec/leaseDurationSeconds")).and_then(Value::as_i64);
            (time, SignedDuration::from_secs(own.unwrap_or_default()).max(GRACE))
        }
        None => (heartbeat, STATUS_GRACE),
    };
    let since = world.since(time);
    // Nobody could be heard by a server that was not there.
    let is_patient = world.started.is_none_or(|started| world.now.duration_since(started) > allowed);
    (since > allowed && is_patient).then_some(since)
}

/// No new pods are to come to it.
pub(super) fn is_cordoned(node: &Object) -> bool {
    node.kept("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default()
}

fn taints(node: &Object) -> impl Iterator<Item = &Value> {
    list(node, "/spec/taints").iter()
}

/// No pod without tolerations gets there, although the node is well.
fn closed(node: &Object) -> bool {
    let keeps_off = |taint: &Value| {
        matches!(part(taint, "effect"), "NoSchedule" | "NoExecute")
            && !part(taint, "key").starts_with(OF_CONDITIONS)
    };
    is_cordoned(node) || taints(node).any(keeps_off)
}
