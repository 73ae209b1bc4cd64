//! Disruption budgets that block every eviction: a drain of a node waits for them for ever. Pure.

use serde_json::Value;

use super::World;
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// What is wrong with budgets.
pub fn findings(world: &World) -> Vec<Finding> {
    world.of("poddisruptionbudgets").iter().filter_map(blocks).collect()
}

fn blocks(budget: &Object) -> Option<Finding> {
    let number = |field: &str| budget.kept(&format!("/status/{field}")).and_then(Value::as_i64);
    let expected = number("expectedPods").unwrap_or_default();
    let (healthy, wanted) =
        (number("currentHealthy").unwrap_or_default(), number("desiredHealthy").unwrap_or_default());
    let subject = Subject::of("PodDisruptionBudget", budget);
    let finding = |remedy: &str| {
        Finding::warning(subject, "lets no pod be evicted, so that a drain never ends", remedy)
    };
    if never(budget) {
        let remedy = "let it spare one: maxUnavailable: 1, or minAvailable below the number of pods";
        return Some(finding(remedy).because("it says so for any number of pods"));
    }
    if expected == 0 || number("disruptionsAllowed") != Some(0) {
        return None;
    }
    Some(if healthy < wanted {
        let cause = format!("{healthy} of its pods are healthy and {wanted} have to be");
        finding("mend the pods that are not ready").because(cause)
    } else {
        let cause = format!("{wanted} of {expected} pods have to be healthy");
        finding("run one pod more, or let it spare one (maxUnavailable: 1)").because(cause)
    })
}

/// It allows none, however many pods there are.
fn never(budget: &Object) -> bool {
    let spec = |field: &str| budget.kept(&format!("/spec/{field}"));
    let spares_none = spec("maxUnavailable").is_some_and(|most| *most == 0 || *most == "0%");
    spares_none || spec("minAvailable").is_some_and(|least| *least == "100%")
}
