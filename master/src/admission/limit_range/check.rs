//! What is too little or too much for a LimitRange, in the stock words. Pure.

use api::quantity::Quantity;
use api::resources::{pod_limits, pod_requests, slim_spec};
use api::strategy::Json;
use serde_json::Value;

use super::items;
use crate::quota::{Amounts, amounts};

/// Everything that is wrong with a pod.
pub fn pod(pod: &Json, range: &Json) -> Vec<String> {
    let Some(spec) = pod.get("spec").and_then(Value::as_object) else { return Vec::new() };
    let mut wrong = Vec::new();
    for item in items(range, "Container") {
        let lists = ["containers", "initContainers"].map(|list| spec.get(list).and_then(Value::as_array));
        for container in lists.into_iter().flatten().flatten() {
            let of = |part: &str| amounts(container.get("resources").and_then(|all| all.get(part)));
            wrong.extend(all(item, "Container", &of("requests"), &of("limits")));
        }
    }
    for item in items(range, "Pod") {
        let spec = slim_spec(spec);
        wrong.extend(all(item, "Pod", &pod_requests(&spec), &pod_limits(&spec)));
    }
    wrong
}

/// Everything that is wrong with a claim.
pub fn claim(claim: &Json, range: &Json) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    let resources = claim.get("spec").and_then(|spec| spec.get("resources"));
    let requests = amounts(resources.and_then(|resources| resources.get("requests")));
    let mut wrong = Vec::new();
    for item in items(range, KIND) {
        let of = |field: &str| amounts(item.get(field));
        for (name, least) in of("min") {
            wrong.extend(too_little(KIND, &name, least, requests.get(&name), None));
        }
        for (name, most) in of("max") {
            let head = format!("maximum {name} usage per {KIND} is {most}");
            wrong.extend(match requests.get(&name) {
                None => Some(format!("{head}.  No request is specified")),
                Some(request) if *request > most => Some(format!("{head}, but request is {request}")),
                Some(_) => None,
            });
        }
    }
    wrong
}

fn all(item: &Value, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let of = |field: &str| amounts(item.get(field));
    let mut wrong = Vec::new();
    for (name, least) in of("min") {
        wrong.extend(too_little(kind, &name, least, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in of("max") {
        wrong.extend(too_much(kind, &name, most, requests.get(&name), limits.get(&name)));
    }
    for (name, ratio) in of("maxLimitRequestRatio") {
        wrong.extend(too_wide(kind, &name, ratio, requests.get(&name), limits.get(&name)));
    }
    wrong
}

fn too_little(
    kind: &str,
    name: &str,
    least: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let head = format!("minimum {name} usage per {kind} is {least}");
    match (request, limit) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if *request < least => Some(format!("{head}, but request is {request}")),
        (_, Some(limit)) if *limit < least => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

fn too_much(
    kind: &str,
    name: &str,
    most: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let head = format!("maximum {name} usage per {kind} is {most}");
    match (request, limit) {
        (_, None) => Some(format!("{head}.  No limit is specified")),
        (_, Some(limit)) if *limit > most => Some(format!("{head}, but limit is {limit}")),
        (Some(request), _) if *request > most => Some(format!("{head}, but request is {request}")),
        _ => None,
    }
}

fn too_wide(
    kind: &str,
    name: &str,
    ratio: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {ratio}");
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return Some(format!("{head}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return Some(format!("{head}, but no limit is specified or limit is 0"));
    };
    let given = as_number(*limit) / as_number(*request);
    (given > as_number(ratio) / 1000.0).then(|| format!("{head}, but provided ratio is {given:.6}"))
}

/// Thousandths, or units where there are too many: precise enough to be compared.
fn as_number(amount: Quantity) -> f64 {
    let milli = amount.milli();
    if milli == i64::MAX { amount.units() as f64 * 1000.0 } else { milli as f64 }
}
