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
    let leaving = |pod: &&Object| {
        cordoned.contains(text(pod, "/spec/nodeName"))
            && !pod.is_ending
            && text(pod, "/status/phase") == "Running"
    };
    let leaving: Vec<&Object> = world.of("pods").iter().filter(leaving).collect();
    let found = |budget: &Object| blocks(budget).map(|why| finding(budget, &leaving, why));
    world.of("poddisruptionbudgets").iter().filter_map(found).collect()
}

/// Why a budget lets nobody go.
struct Why {
    cause: String,
    remedy: &'static str,
    /// It does not pass when pods become ready.
    stays: bool,
}

/// A drain that nobody ends is a problem; that there could be one, a warning.
fn finding(budget: &Object, leaving: &[&Object], Why { cause, remedy, stays }: Why) -> Finding {
    let subject = Subject::of("PodDisruptionBudget", budget);
    let none = Map::new();
    let selector = budget.kept("/spec/selector").unwrap_or(&Value::Null);
    let is_held = |pod: &&&Object| {
        pod.namespace == budget.namespace
            && selector::matches_selector(selector, pods::labels(pod).unwrap_or(&none))
    };
    let held: Vec<&&Object> = leaving.iter().filter(is_held).collect();
    let nodes: BTreeSet<&str> = held.iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    let Some(first) = nodes.first() else {
        return Finding::warning(subject, "lets no pod be evicted, so that a drain never ends", remedy)
            .because(cause);
    };
    let more = match nodes.len() {
        1 => String::new(),
        many => format!(" and {}", counted(many.saturating_sub(1), "other")),
    };
    let pods = counted(held.len(), "pod");
    let what = format!("lets no pod be evicted, and {pods} on {first}{more}, which is cordoned, cannot go");
    match stays {
        true => Finding::problem(subject, what, remedy),
        false => Finding::warning(subject, what, remedy),
    }
    .because(cause)
}

fn blocks(budget: &Object) -> Option<Why> {
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
    if expected == 0 || number("disruptionsAllowed") > 0 {
        return None;
    }
    Some(if healthy < wanted {
        let cause = format!("{healthy} of its pods are healthy and {wanted} have to be");
        Why { cause, remedy: "mend the pods that are not ready", stays: false }
    } else {
        let cause = format!("{wanted} of {expected} pods have to be healthy");
        Why { cause, remedy: "run one pod more, or let it spare one (maxUnavailable: 1)", stays: true }
    })
}

/// It allows none, however many pods there are.
fn never(budget: &Object) -> bool {
    let spec = |field: &str| budget.kept(&format!("/spec/{field}"));
    let spares_none = spec("maxUnavailable").is_some_and(|most| *most == 0 || *most == "0%");
    spares_none || spec("minAvailable").is_some_and(|least| *least == "100%")
}
