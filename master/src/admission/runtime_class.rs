//! The RuntimeClass plugin: applies the overhead and scheduling constraints of a pod's RuntimeClass.

use api::resources::ResourceList;
use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::lister::Lister;
use super::pods::{field, forbidden, is_new_pod, list_mut, spec, text};
use crate::objects::resources::quantities;
use crate::objects::{self, StringMap};

/// The stock plugin `RuntimeClass`.
#[derive(Clone, Debug)]
pub struct RuntimeClass {
    lister: Lister,
}

impl RuntimeClass {
    /// Creates the plugin, which reads RuntimeClasses from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

/// The fields of a RuntimeClass that are applied to pods. Fields that the pod gets unchanged are JSON.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Class {
    overhead: Overhead,
    scheduling: Scheduling,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Overhead {
    pod_fixed: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Scheduling {
    node_selector: StringMap,
    tolerations: Vec<Value>,
}

/// Applies a class to a pod.
///
/// # Errors
/// If the pod and the class conflict. The error is the stock message.
fn apply(pod: &mut Json, class: Class) -> Result<(), String> {
    let Class { overhead: Overhead { pod_fixed }, scheduling } = class;
    let Some(spec) = field(pod, "spec") else { return Ok(()) };
    let own = spec.get("overhead").and_then(Value::as_object).map(amounts).unwrap_or_default();
    let overhead = amounts(&pod_fixed);
    if overhead.is_empty() {
        if !own.is_empty() {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned());
        }
    } else {
        if !own.is_empty() && own != overhead {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
            );
        }
        spec.insert("overhead".to_owned(), pod_fixed.into());
    }
    if !scheduling.node_selector.is_empty() {
        let Some(own) = field(spec, "nodeSelector") else { return Ok(()) };
        for (key, value) in scheduling.node_selector.iter() {
            let other = own.get(key).and_then(Value::as_str);
            if let Some(other) = other.filter(|other| *other != value) {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                ));
            }
            own.insert(key.to_owned(), value.into());
        }
    }
    if !scheduling.tolerations.is_empty() {
        let Some(own) = list_mut(spec, "tolerations") else { return Ok(()) };
        let missing: Vec<Value> =
            scheduling.tolerations.into_iter().filter(|one| !own.contains(one)).collect();
        own.extend(missing);
    }
    Ok(())
}

fn amounts(overhead: &Map<String, Value>) -> ResourceList {
    quantities(&objects::read(overhead))
}

#[async_trait]
impl Admission for RuntimeClass {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if !is_new_pod(attempt) {
            return Ok(());
        }
        let name =
            spec(&attempt.object).map(|spec| text(spec, "runtimeClassName")).unwrap_or_default().to_owned();
        let class = match name.as_str() {
            "" => Class::default(),
            name => {
                let found = self.lister.get("runtimeclasses.node.k8s.io", "", name);
                let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
                found.ok_or_else(|| forbidden(attempt, &why))?
            }
        };
        apply(&mut attempt.object, class).map_err(|why| forbidden(attempt, &why))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of fields that a RuntimeClass sets on a pod, and conflicts.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn runtime_class_sets_overhead_and_scheduling_unless_they_conflict() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]},
        });
        let class: Class = serde_json::from_value(class).unwrap();
        for (spec, expected) in [
            (
                json!({}),
                Ok(
                    json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]}),
                ),
            ),
            (
                json!({"overhead": {"cpu": "0.25"}, "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "sandbox"}]}),
                Ok(json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"disk": "fast", "sandbox": "yes"},
                    "tolerations": [{"key": "sandbox"}]})),
            ),
            (json!({"overhead": {"cpu": "1"}}), Err("doesn't match")),
            (json!({"nodeSelector": {"sandbox": "no"}}), Err("[sandbox] = yes; pod")),
        ] {
            let mut pod = json!({"spec": spec}).as_object().unwrap().clone();
            match (apply(&mut pod, class.clone()), expected) {
                (Ok(()), Ok(expected)) => assert_eq!(pod["spec"], expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
        let mut pod = json!({"spec": {"overhead": {"cpu": "1"}}}).as_object().unwrap().clone();
        assert!(apply(&mut pod, Class::default()).unwrap_err().contains("without corresponding"));
    }
}
