//! `autoscaling/v1` HorizontalPodAutoscalers: v2 objects with CPU utilization in a field of its own.
//!
//! Other v2 fields are kept in annotations with the stock names.

mod metrics;

use serde_json::{Map, Value, json};

use self::metrics::{CURRENT, WANTED};
use crate::resource::Conversion;

const SHOWN: &str = "autoscaling/v1";
const STORED: &str = "autoscaling/v2";

/// Annotation with metrics other than CPU utilization.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// Annotation with current metrics.
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// Annotation with conditions.
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Annotation with the scaling behavior; field names start with a capital letter, as in stock Kubernetes.
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// The annotations that hold fields of `autoscaling/v2`. Clients may send them. The server never stores them.
const ANNOTATIONS: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

/// Converts between `autoscaling/v1` and `autoscaling/v2`.
#[derive(Clone, Copy)]
pub(super) struct AutoscalersV1;

impl Conversion for AutoscalersV1 {
    fn to_served(&self, mut scaler: Map<String, Value>) -> Map<String, Value> {
        let mut notes = Map::new();
        let mut note = |name: &str, what: Value| {
            notes.insert(name.to_owned(), what.to_string().into());
        };
        if let Some(spec) = part(&mut scaler, "spec") {
            let (mut share, mut others) = (None, Vec::new());
            for metric in taken_list(spec, "metrics") {
                match metrics::cpu_utilization(&metric, WANTED) {
                    Some(percent) => share = share.or(Some(percent)),
                    None => others.push(WANTED.in_v1(&metric)),
                }
            }
            if let Some(percent) = share {
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
            }
            if !others.is_empty() {
                note(METRICS, others.into());
            }
            if let Some(behavior) = spec.remove("behavior") {
                note(BEHAVIOR, renamed(behavior, capital));
            }
        }
        if let Some(status) = part(&mut scaler, "status") {
            let found = taken_list(status, "currentMetrics");
            if let Some(percent) = found.iter().find_map(|metric| metrics::cpu_utilization(metric, CURRENT)) {
                status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
            }
            if !found.is_empty() {
                note(CURRENT_METRICS, found.iter().map(|metric| CURRENT.in_v1(metric)).collect());
            }
            if let Some(conditions) = status.remove("conditions") {
                note(CONDITIONS, conditions);
            }
            // Optional in v2, but required by typed clients of v1.
            for count in ["currentReplicas", "desiredReplicas"] {
                status.entry(count).or_insert_with(|| 0.into());
            }
        }
        if !notes.is_empty()
            && let Some(metadata) = part(&mut scaler, "metadata")
        {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.extend(notes);
            }
        }
        scaler.insert("apiVersion".to_owned(), SHOWN.into());
        scaler
    }

    fn to_stored(&self, mut scaler: Map<String, Value>) -> Map<String, Value> {
        let [others, found, conditions, behavior] = taken_notes(&mut scaler);
        let list = |note: Option<Value>| match note {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        if let Some(spec) = part(&mut scaler, "spec") {
            let mut wanted: Vec<Value> = list(others).iter().map(|metric| WANTED.in_v2(metric)).collect();
            if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
                wanted.push(metrics::cpu_metric(percent, WANTED));
            }
            insert(spec, "metrics", wanted);
            if let Some(behavior) = behavior {
                spec.insert("behavior".to_owned(), renamed(behavior, small));
            }
        }
        // Current metrics belong to the status, which the request may not contain.
        let found: Vec<Value> = list(found).iter().map(|metric| CURRENT.in_v2(metric)).collect();
        if !found.is_empty() || conditions.is_some() {
            scaler.entry("status").or_insert_with(|| json!({}));
        }
        if let Some(status) = part(&mut scaler, "status") {
            let percent = status.remove("currentCPUUtilizationPercentage");
            let share = percent.map(|percent| vec![metrics::cpu_metric(percent, CURRENT)]);
            insert(
                status,
                "currentMetrics",
                if found.is_empty() { share.unwrap_or_default() } else { found },
            );
            insert(status, "conditions", list(conditions));
        }
        scaler.insert("apiVersion".to_owned(), STORED.into());
        scaler
    }
}

/// Removes the annotations and returns their parsed values. Invalid values are dropped.
fn taken_notes(scaler: &mut Map<String, Value>) -> [Option<Value>; 4] {
    let Some(metadata) = part(scaler, "metadata") else { return [const { None }; 4] };
    let Some(annotations) = part(metadata, "annotations") else { return [const { None }; 4] };
    let notes = ANNOTATIONS.map(|name| serde_json::from_str(annotations.remove(name)?.as_str()?).ok());
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    notes
}

fn part<'a>(object: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}

/// Removes and returns a list. A value that is not a list stays, so that validation rejects it.
fn taken_list(object: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match object.get_mut(name) {
        Some(Value::Array(list)) => {
            let list = std::mem::take(list);
            object.remove(name);
            list
        }
        _ => Vec::new(),
    }
}

fn insert(object: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object.insert(name.to_owned(), list.into());
    }
}

/// Renames all fields recursively by changing their first letter.
fn renamed(value: Value, name: fn(char) -> char) -> Value {
    match value {
        Value::Object(fields) => {
            let rename = |(field, value): (String, Value)| {
                let mut letters = field.chars();
                let first = letters.next().map(name);
                (first.into_iter().chain(letters).collect::<String>(), renamed(value, name))
            };
            Value::Object(fields.into_iter().map(rename).collect())
        }
        Value::Array(elements) => elements.into_iter().map(|element| renamed(element, name)).collect(),
        value => value,
    }
}

fn capital(letter: char) -> char {
    letter.to_ascii_uppercase()
}

fn small(letter: char) -> char {
    letter.to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
