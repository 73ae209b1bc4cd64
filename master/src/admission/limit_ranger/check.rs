//! Checks objects against a LimitRange, with the stock messages. Pure.

use api::quantity::Quantity;
use api::resources::{pod_limits, pod_requests};
use api::strategy::Json;

use super::items;
use crate::objects::pod::PodSpec;
use crate::objects::quota::{LimitRange, LimitRangeItem};
use crate::objects::resources::quantities;
use crate::objects::volume::PersistentVolumeClaimSpec;
use crate::objects::{self, Spec};
use crate::quota::Amounts;

/// All violations of a pod.
pub fn pod(pod: &Json, range: &LimitRange) -> Vec<String> {
    let Spec { spec } = objects::read::<Spec<PodSpec>>(pod);
    let mut violations = Vec::new();
    for item in items(range, "Container") {
        for container in spec.containers.iter().chain(&spec.init_containers) {
            let resources = &container.resources;
            let (requests, limits) = (quantities(&resources.requests), quantities(&resources.limits));
            violations.extend(all(item, "Container", &requests, &limits));
        }
    }
    for item in items(range, "Pod") {
        let spec = spec.resources_only();
        violations.extend(all(item, "Pod", &pod_requests(&spec), &pod_limits(&spec)));
    }
    violations
}

/// All violations of a PersistentVolumeClaim.
pub fn claim(claim: &Json, range: &LimitRange) -> Vec<String> {
    const KIND: &str = "PersistentVolumeClaim";
    let Spec { spec } = objects::read::<Spec<PersistentVolumeClaimSpec>>(claim);
    let requests = quantities(&spec.resources.requests);
    let mut violations = Vec::new();
    for item in items(range, KIND) {
        for (name, least) in quantities(&item.min) {
            violations.extend(below_minimum(KIND, &name, least, requests.get(&name), None));
        }
        for (name, most) in quantities(&item.max) {
            let head = format!("maximum {name} usage per {KIND} is {most}");
            violations.extend(match requests.get(&name) {
                None => Some(format!("{head}.  No request is specified")),
                Some(request) if *request > most => Some(format!("{head}, but request is {request}")),
                Some(_) => None,
            });
        }
    }
    violations
}

fn all(item: &LimitRangeItem, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut violations = Vec::new();
    for (name, least) in quantities(&item.min) {
        violations.extend(below_minimum(kind, &name, least, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in quantities(&item.max) {
        violations.extend(above_maximum(kind, &name, most, requests.get(&name), limits.get(&name)));
    }
    for (name, ratio) in quantities(&item.max_limit_request_ratio) {
        violations.extend(above_ratio(kind, &name, ratio, requests.get(&name), limits.get(&name)));
    }
    violations
}

fn below_minimum(
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

fn above_maximum(
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

fn above_ratio(
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

/// Converts a quantity to thousandths. They are precise enough to compare ratios.
fn as_number(amount: Quantity) -> f64 {
    let milli = amount.milli();
    if milli == i64::MAX { amount.units() as f64 * 1000.0 } else { milli as f64 }
}
