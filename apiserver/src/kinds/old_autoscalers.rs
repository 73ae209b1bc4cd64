//! HorizontalPodAutoscalers of autoscaling/v1: those of v2, of which one field tells the use of processors.
//!
//! What v1 has no field for stands in annotations there, in the spelling that all clients of v1 know.

mod metrics;

use serde_json::{Map, Value, json};

use self::metrics::{CURRENT, WANTED};
use crate::resource::View;

const SHOWN: &str = "autoscaling/v1";
const STORED: &str = "autoscaling/v2";

/// Where v1 keeps metrics beyond the use of processors.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// Where it keeps what was last found of them.
const FOUND: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// Where it keeps conditions.
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Where it keeps how fast to follow: in names that begin with a capital, as stock servers write them.
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All of them: what a client leaves there is read, and never stored as an annotation.
const KEPT: [&str; 4] = [METRICS, FOUND, CONDITIONS, BEHAVIOR];

/// Stored autoscalers with the use of processors in a field of its own.
#[derive(Clone, Copy)]
pub(super) struct ByProcessor;

impl View for ByProcessor {
    fn shown(&self, mut scaler: Map<String, Value>) -> Map<String, Value> {
        let mut notes = Map::new();
        let mut note = |name: &str, what: Value| {
            notes.insert(name.to_owned(), what.to_string().into());
        };
        if let Some(spec) = part(&mut scaler, "spec") {
            let (mut share, mut others) = (None, Vec::new());
            for metric in taken_list(spec, "metrics") {
                match metrics::processor_share(&metric, WANTED) {
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
            if let Some(percent) = found.iter().find_map(|metric| metrics::processor_share(metric, CURRENT)) {
                status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
            }
            if !found.is_empty() {
                note(FOUND, found.iter().map(|metric| CURRENT.in_v1(metric)).collect());
            }
            if let Some(conditions) = status.remove("conditions") {
                note(CONDITIONS, conditions);
            }
            // In v2 one of them may be left out; clients with classes insist on both.
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

    fn stored(&self, mut scaler: Map<String, Value>) -> Map<String, Value> {
        let [others, found, conditions, behavior] = taken_notes(&mut scaler);
        let list = |note: Option<Value>| match note {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        if let Some(spec) = part(&mut scaler, "spec") {
            let mut wanted: Vec<Value> = list(others).iter().map(|metric| WANTED.in_v2(metric)).collect();
            if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
                wanted.push(metrics::of_processors(percent, WANTED));
            }
            insert(spec, "metrics", wanted);
            if let Some(behavior) = behavior {
                spec.insert("behavior".to_owned(), renamed(behavior, small));
            }
        }
        // What was found stands beside the status there, which may not be among what is sent.
        let found: Vec<Value> = list(found).iter().map(|metric| CURRENT.in_v2(metric)).collect();
        if !found.is_empty() || conditions.is_some() {
            scaler.entry("status").or_insert_with(|| json!({}));
        }
        if let Some(status) = part(&mut scaler, "status") {
            let percent = status.remove("currentCPUUtilizationPercentage");
            let share = percent.map(|percent| vec![metrics::of_processors(percent, CURRENT)]);
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

/// What stands in the annotations of v1, and takes them out; what does not read is nothing.
fn taken_notes(scaler: &mut Map<String, Value>) -> [Option<Value>; 4] {
    let Some(metadata) = part(scaler, "metadata") else { return [const { None }; 4] };
    let Some(annotations) = part(metadata, "annotations") else { return [const { None }; 4] };
    let notes = KEPT.map(|name| serde_json::from_str(annotations.remove(name)?.as_str()?).ok());
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    notes
}

fn part<'a>(object: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}

/// A list that is taken out; what is none stays, to be told as wrong.
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

/// The same with other names of fields.
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
