//! A LimitRange gives containers amounts they do not state, and refuses what is too little or too much for one.

mod check;

use std::collections::BTreeSet;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use async_trait::async_trait;
use serde_json::{Map, Value};

use super::lookup::Lookup;
use super::pods::{field, fills_in, forbidden, is_new_pod, known_containers, may_grow};

/// The name of ranges in the store.
const RANGES: &str = "limitranges";
/// Where a pod tells what it did not state itself.
const TOLD: &str = "kubernetes.io/limit-ranger";

/// The stock server's `LimitRanger`.
#[derive(Clone, Debug)]
pub struct LimitRanges {
    lookup: Lookup,
}

impl LimitRanges {
    /// Finds ranges there.
    pub fn new(lookup: Lookup) -> Self {
        Self { lookup }
    }

    fn ranges(&self, attempt: &Attempt<'_>) -> Vec<Json> {
        attempt.namespace.map(|namespace| self.lookup.list(RANGES, Some(namespace))).unwrap_or_default()
    }
}

/// The items of a range that are about that type.
fn items<'a>(range: &'a Json, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let items = range.get("spec").and_then(|spec| spec.get("limits")).and_then(Value::as_array);
    items.into_iter().flatten().filter(move |item| item.get("type").and_then(Value::as_str) == Some(kind))
}

/// Gives the containers of a pod what they do not state, apart from those it had before. An annotation tells what a new pod
/// got; it stays as it is when more containers come.
fn fill(pod: &mut Json, range: &Json, known: &BTreeSet<String>) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for item in items(range, "Container") {
        let amounts = |field: &str| item.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        requests.extend(amounts("defaultRequest"));
        limits.extend(amounts("default"));
    }
    let mut told = Vec::new();
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
                let set = add(container, part, defaults);
                if !set.is_empty() {
                    told.push(format!("{} {called} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !told.is_empty()
        && known.is_empty()
        && let Some(annotations) = field(pod, "metadata").and_then(|metadata| field(metadata, "annotations"))
    {
        annotations.insert(TOLD.to_owned(), format!("LimitRanger plugin set: {}", told.join("; ")).into());
    }
}

/// Adds amounts that are not there; their names, sorted.
fn add(container: &mut Json, part: &str, defaults: &Json) -> Vec<String> {
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
impl Admission for LimitRanges {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if is_new_pod(attempt) || fills_in(attempt) {
            let known = known_containers(attempt);
            for range in self.ranges(attempt) {
                fill(&mut attempt.object, &range, &known);
            }
        }
        Ok(())
    }

    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let is_claim = attempt.is_of("persistentvolumeclaims")
            && matches!(attempt.operation, Operation::Create | Operation::Update)
            && attempt.subresource.is_none();
        let look = match (is_new_pod(attempt) || may_grow(attempt), is_claim) {
            (true, _) => check::pod,
            (_, true) => check::claim,
            _ => return Ok(()),
        };
        for range in self.ranges(attempt) {
            let wrong = look(&attempt.object, &range);
            let why = if wrong.len() == 1 { wrong.concat() } else { format!("[{}]", wrong.join(", ")) };
            if !wrong.is_empty() {
                return Err(forbidden(attempt, &why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
