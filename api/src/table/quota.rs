//! Printer columns of ResourceQuotas and PodDisruptionBudgets.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, Object, age, at, count, name, number, plain, shown};

/// The printer columns of ResourceQuotas.
pub const RESOURCE_QUOTAS: Columns = Columns {
    heads: &[
        NAME,
        shown("Request", "The used and the hard requests."),
        shown("Limit", "The used and the hard limits."),
        AGE,
    ],
    cells: resource_quota,
};

/// The printer columns of PodDisruptionBudgets.
pub const DISRUPTION_BUDGETS: Columns = Columns {
    heads: &[
        NAME,
        shown("Min Available", "The minimum number of available pods."),
        shown("Max Unavailable", "The maximum number of unavailable pods."),
        number("Allowed Disruptions", "The number of pods that can be evicted now."),
        AGE,
    ],
    cells: disruption_budget,
};

fn resource_quota(object: &Object, now: Timestamp) -> Vec<Value> {
    let hard = at(object, &["status", "hard"]).and_then(Value::as_object);
    let mut hard: Vec<(&String, String)> =
        hard.into_iter().flatten().map(|(resource, amount)| (resource, plain(amount))).collect();
    hard.sort_unstable();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in hard {
        let used = at(object, &["status", "used", resource]).map_or_else(|| "0".to_owned(), plain);
        let usage = format!("{resource}: {used}/{hard}");
        if resource.starts_with("limits.") { limits.push(usage) } else { requests.push(usage) }
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age::of(object, now)]
}

fn disruption_budget(object: &Object, now: Timestamp) -> Vec<Value> {
    let amount = |of: &str| at(object, &["spec", of]).map_or_else(|| "N/A".to_owned(), plain);
    vec![
        name(object),
        amount("minAvailable").into(),
        amount("maxUnavailable").into(),
        count(object, &["status", "disruptionsAllowed"]).into(),
        age::of(object, now),
    ]
}
