//! The LimitRanger plugin: applies default requests and limits, and rejects pods and claims outside the range.

mod check;

use std::collections::BTreeSet;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde_json::{Map, Value};

use super::lister::Lister;
use super::pods::{field, fills_in, forbidden, is_new_pod, known_containers, may_grow};
use crate::objects::StringMap;
use crate::objects::quota::{LimitRange, LimitRangeItem};

/// The resource name of LimitRanges.
const RANGES: &str = "limitranges";
/// The annotation that lists the applied defaults.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The stock plugin `LimitRanger`.
#[derive(Clone, Debug)]
pub struct LimitRanger {
    lister: Lister,
}

impl LimitRanger {
    /// Creates the plugin, which reads LimitRanges from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }

    fn ranges(&self, attempt: &AdmissionRequest<'_>) -> Vec<LimitRange> {
        let ranges = attempt.namespace.map(|namespace| self.lister.list(RANGES, Some(namespace)));
        ranges.unwrap_or_default()
    }
}

/// The items of a LimitRange for a type.
fn items<'a>(range: &'a LimitRange, kind: &'a str) -> impl Iterator<Item = &'a LimitRangeItem> {
    range.spec.limits.iter().filter(move |item| &*item.r#type == kind)
}

/// Applies defaults to the containers that are not in `known`. An annotation of a new pod lists the defaults. It
/// stays unchanged when containers are added later.
fn apply_defaults(pod: &mut Json, range: &LimitRange, known: &BTreeSet<String>) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for item in items(range, "Container") {
        let json = |amounts: &StringMap| {
            let amounts = amounts.iter().map(|(name, amount)| (name.to_owned(), Value::from(amount)));
            amounts.collect::<Json>()
        };
        requests.extend(json(&item.default_request));
        limits.extend(json(&item.default));
    }
    let mut defaulted = Vec::new();
    let Some(spec) = field(pod, "spec") else { return };
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let all = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in all.filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if known.contains(&name) {
                continue;
            }
            for (part, defaults, called) in [("requests", &requests, "request"), ("limits", &limits, "limit")]
            {
                let set = add_missing(container, part, defaults);
                if !set.is_empty() {
                    defaulted.push(format!("{} {called} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !defaulted.is_empty()
        && known.is_empty()
        && let Some(annotations) = field(pod, "metadata").and_then(|metadata| field(metadata, "annotations"))
    {
        annotations.insert(
            ANNOTATION.to_owned(),
            format!("LimitRanger plugin set: {}", defaulted.join("; ")).into(),
        );
    }
}

/// Adds missing quantities and returns their names, sorted.
fn add_missing(container: &mut Json, part: &str, defaults: &Json) -> Vec<String> {
    if defaults.is_empty() {
        return Vec::new();
    }
    let Some(amounts) = field(container, "resources").and_then(|resources| field(resources, part)) else {
        return Vec::new();
    };
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if !amounts.contains_key(name) {
            amounts.insert(name.clone(), amount.clone());
            set.push(name.clone());
        }
    }
    set.sort();
    set
}

#[async_trait]
impl Admission for LimitRanger {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if is_new_pod(attempt) || fills_in(attempt) {
            let known = known_containers(attempt);
            for range in self.ranges(attempt) {
                apply_defaults(&mut attempt.object, &range, &known);
            }
        }
        Ok(())
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_claim = attempt.is_of("persistentvolumeclaims")
            && matches!(attempt.operation, Operation::Create | Operation::Update)
            && attempt.subresource.is_none();
        let check = match (is_new_pod(attempt) || may_grow(attempt), is_claim) {
            (true, _) => check::pod,
            (_, true) => check::claim,
            _ => return Ok(()),
        };
        for range in self.ranges(attempt) {
            let violations = check(&attempt.object, &range);
            let why = if violations.len() == 1 {
                violations.concat()
            } else {
                format!("[{}]", violations.join(", "))
            };
            if !violations.is_empty() {
                return Err(forbidden(attempt, &why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
