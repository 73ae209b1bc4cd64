//! Disruption budgets that block every eviction: a drain of a node waits for them for ever. Pure.

use std::collections::{BTreeSet, HashSet};

use apiserver::selector;
use serde_json::{Map, Value};

use super::field::{condition, text};
use super::nodes::is_cordoned;
use super::{World, pods};
use crate::check::finding::{Finding, Subject, counted};
use crate::controllers::Object;

/// What is wrong with budgets.
pub fn findings(world: &World) -> Vec<Finding> {
    let cordoned = world.of("nodes").iter().filter(|node| is_cordoned(node));
    let cordoned: HashSet<&str> = cordoned.map(|node| node.name.as_str()).collect();
    let running: Vec<&Object> = world
        .of("pods")
        .iter()
        .filter(|pod| !pod.is_ending && text(pod, "/status/phase") == "Running")
        .collect();
    let found = |budget: &Object| {
        let none = Map::new();
        let selector = budget.kept("/spec/selector").unwrap_or(&Value::Null);
        let is_held = |pod: &&&Object| {
            pod.namespace == budget.namespace
                && selector::matches_selector(selector, pods::labels(pod).unwrap_or(&none))
        };
        let held: Vec<&Object> = running.iter().filter(is_held).copied().collect();
        let nobodys = held.iter().filter(|pod| !pod.owners.iter().any(|owner| owner.controls)).count();
        let why = blocks(budget, nobodys)?;
        let leaving =
            held.iter().map(|pod| text(pod, "/spec/nodeName")).filter(|node| cordoned.contains(node));
        Some(finding(budget, &leaving.collect::<Vec<_>>(), why))
    };
    world.of("poddisruptionbudgets").iter().filter_map(found).collect()
}

/// Why a budget lets nobody go.
struct Why {
    cause: String,
    remedy: &'static str,
    /// It does not pass when pods become ready.
    stays: bool,
}

/// A drain that nobody ends is a problem; that there could be one, a warning. Of each pod that is to leave, its node.
fn finding(budget: &Object, leaving: &[&str], Why { cause, remedy, stays }: Why) -> Finding {
    let subject = Subject::of("PodDisruptionBudget", budget);
    let nodes: BTreeSet<&str> = leaving.iter().copied().collect();
    let Some(first) = nodes.first() else {
        return Finding::warning(subject, "lets no pod be evicted, so that a drain never ends", remedy)
            .because(cause);
    };
    let more = match nodes.len() {
        1 => String::new(),
        many => format!(" and {}", counted(many.saturating_sub(1), "other")),
    };
    let pods = counted(leaving.len(), "pod");
    let what = format!("lets no pod be evicted, and {pods} on {first}{more}, which is cordoned, cannot go");
    match stays {
        true => Finding::problem(subject, what, remedy),
        false => Finding::warning(subject, what, remedy),
    }
    .because(cause)
}

/// Why it lets nobody go, if so; so many of its pods were made by nobody who would make them again.
fn blocks(budget: &Object, nobodys: usize) -> Option<Why> {
    // What is not written is zero.
    let number =
        |field: &str| budget.kept(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default();
    let (expected, healthy, wanted) =
        (number("expectedPods"), number("currentHealthy"), number("desiredHealthy"));
    if never(budget) {
        let remedy = "let it spare one: maxUnavailable: 1, or minAvailable below the number of pods";
        return Some(Why { cause: "it says so for any number of pods".to_owned(), remedy, stays: true });
    }
    let allowed = condition(budget, "DisruptionAllowed");
    if allowed.status == "False" && allowed.reason == "SyncFailed" {
        let remedy = "say minAvailable as a number, which needs to know nothing but the pods; or see to what keeps them (a ReplicaSet, a \
                      StatefulSet), which is not there";
        return Some(Why { cause: allowed.why(), remedy, stays: true });
    }
    if number("disruptionsAllowed") > 0 {
        return None;
    }
    if expected == 0 {
        let is_number = budget.kept("/spec/minAvailable").is_some_and(Value::is_number);
        let cause = format!(
            "{} made by nobody (no ReplicaSet or the like), and maxUnavailable and percentages count those alone that are",
            if nobodys == 1 { "1 of its pods was".to_owned() } else { format!("{nobodys} of its pods were") }
        );
        let remedy = "say minAvailable as a number, less than there are pods";
        return (nobodys > 0 && !is_number).then_some(Why { cause, remedy, stays: true });
    }
    Some(if expected < wanted {
        let cause = format!("there are {expected} pods and {wanted} have to be healthy");
        Why { cause, remedy: "run more of them, or let minAvailable be less", stays: true }
    } else if healthy < wanted {
        let cause = format!("{healthy} of its pods are healthy and {wanted} have to be");
        Why { cause, remedy: "mend the pods that are not ready", stays: false }
    } else {
        let cause = format!("{wanted} of {expected} pods have to be healthy");
        let remedy = match nobodys {
            0 => "run one pod more, or let it spare one (maxUnavailable: 1)",
            _ => "run one pod more, or let minAvailable be less than there are pods",
        };
        Why { cause, remedy, stays: true }
    })
}

/// It allows none, however many pods there are.
fn never(budget: &Object) -> bool {
    let spec = |field: &str| budget.kept(&format!("/spec/{field}"));
    let spares_none = spec("maxUnavailable").is_some_and(|most| *most == 0 || *most == "0%");
    spares_none || spec("minAvailable").is_some_and(|least| *least == "100%")
}
