//! The Priority plugin: finds the PriorityClass of a pod, and rejects pods that set another priority.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::lister::Lister;
use super::pods::{field, fills_in, forbidden, is_new_pod, spec, text};
use crate::objects::pod::PodSpec;
use crate::objects::{self, ObjectMeta, Spec};

/// The resource name of PriorityClasses.
const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// The default preemption policy.
const DEFAULT_PREEMPTION: &str = "PreemptLowerPriority";

/// The system PriorityClasses of the stock server: name, value and description.
const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// The system PriorityClasses, which are created at startup.
pub fn system_classes() -> impl Iterator<Item = Json> {
    SYSTEM_CLASSES.iter().filter_map(|(name, value, description)| {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": false,
            "description": description,
            "preemptionPolicy": DEFAULT_PREEMPTION,
        });
        class.as_object().cloned()
    })
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PriorityClass {
    metadata: ObjectMeta,
    value: i64,
    global_default: bool,
    /// Empty for the default policy.
    preemption_policy: Box<str>,
}

/// The stock plugin `Priority`.
#[derive(Clone, Debug)]
pub struct Priority {
    lister: Lister,
}

impl Priority {
    /// Creates the plugin, which reads PriorityClasses from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

/// Applies a class to a new pod: the one that it names, or the default class.
///
/// # Errors
/// If the pod sets another value. The error is the stock message.
fn apply(pod: &mut Json, class: Option<&PriorityClass>) -> Result<(), String> {
    let value = class.map_or(0, |class| class.value);
    let policy = class.map(|class| &*class.preemption_policy).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or(DEFAULT_PREEMPTION);
    let Some(spec) = field(pod, "spec") else { return Ok(()) };
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|own| *own != value) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        ));
    }
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|own| *own != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), Value::from(&*class.metadata.name));
    }
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// Whether a pod initializer adds a priority class to a pod without one.
fn adds_priority_class(attempt: &AdmissionRequest<'_>) -> bool {
    let has_class = |pod: &Json| !objects::read::<Spec<PodSpec>>(pod).spec.priority_class_name.is_empty();
    fills_in(attempt) && attempt.old.is_some_and(|old| !has_class(old)) && has_class(&attempt.object)
}

/// The default class. If several exist, it is the one with the lowest value.
fn default_class(classes: Vec<PriorityClass>) -> Option<PriorityClass> {
    classes.into_iter().filter(|class| class.global_default).min_by_key(|class| class.value)
}

/// Returns the name of another class that is already the default.
fn other_default(classes: Vec<PriorityClass>, name: &str) -> Option<Box<str>> {
    let others = classes.into_iter().filter(|class| *class.metadata.name != *name).collect();
    default_class(others).map(|class| class.metadata.name)
}

#[async_trait]
impl Admission for Priority {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_update = attempt.is_of("pods") && attempt.operation == Operation::Update;
        if is_update && let Some(old) = attempt.old.and_then(spec) {
            // Clients that do not know priorities omit these fields.
            for name in ["priority", "preemptionPolicy"] {
                let is_there = spec(&attempt.object).is_some_and(|new| new.contains_key(name));
                if let Some(value) = old.get(name).filter(|_| !is_there)
                    && let Some(new) = field(&mut attempt.object, "spec")
                {
                    new.insert(name.to_owned(), value.clone());
                }
            }
        }
        if !is_new_pod(attempt) {
            if !adds_priority_class(attempt) {
                return Ok(());
            }
            // The pod has the values of pods without a class.
            let old = attempt.old.and_then(spec);
            let is_stale = |name: &str, value: &Value| {
                ["priority", "preemptionPolicy"].contains(&name)
                    && old.and_then(|old| old.get(name)) == Some(value)
            };
            if let Some(new) = field(&mut attempt.object, "spec") {
                new.retain(|name, value| !is_stale(name, value));
            }
        }
        let name =
            spec(&attempt.object).map(|spec| text(spec, "priorityClassName")).unwrap_or_default().to_owned();
        let class = match name.as_str() {
            "" => default_class(self.lister.list(CLASSES, None)),
            name => {
                let why = format!("no PriorityClass with name {name} was found");
                Some(self.lister.get(CLASSES, "", name).ok_or_else(|| forbidden(attempt, &why))?)
            }
        };
        apply(&mut attempt.object, class.as_ref()).map_err(|why| forbidden(attempt, &why))
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !attempt.is_of(CLASSES) || !is_written {
            return Ok(());
        }
        if objects::read::<PriorityClass>(&attempt.object).global_default
            && let Some(other) = other_default(self.lister.list(CLASSES, None), attempt.name)
        {
            let why =
                format!("PriorityClass {other} is already marked as default. Only one default can exist");
            return Err(forbidden(attempt, &why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of priorities of pods, and the default class.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn class(name: &str, value: i64, global_default: bool) -> PriorityClass {
        let metadata = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
        PriorityClass { metadata, value, global_default, ..PriorityClass::default() }
    }

    #[test]
    fn pod_gets_the_priority_of_its_class() {
        let high = class("high", 100, false);
        let got = |priority: i64| json!({"priority": priority, "preemptionPolicy": DEFAULT_PREEMPTION});
        for (spec, class, expected) in [
            (json!({}), None, Ok(got(0))),
            (json!({"priority": 0}), None, Ok(got(0))),
            (json!({"priority": 5}), None, Err("the integer value of priority (5)")),
            (json!({"priority": 5}), Some(&high), Err("computed 100")),
            (
                json!({"preemptionPolicy": "Never"}),
                Some(&high),
                Err("the string value of PreemptionPolicy (Never)"),
            ),
        ] {
            let mut pod = json!({"spec": spec}).as_object().unwrap().clone();
            match (apply(&mut pod, class), expected) {
                (Ok(()), Ok(expected)) => assert_eq!(pod["spec"], expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
        let mut pod = json!({"spec": {}}).as_object().unwrap().clone();
        apply(&mut pod, Some(&high)).unwrap();
        assert_eq!(pod["spec"]["priorityClassName"], "high");
    }

    #[test]
    fn only_one_priority_class_is_the_default() {
        let all = || vec![class("b", 7, true), class("a", 5, true), class("c", 1, false)];
        assert_eq!(default_class(all()), Some(class("a", 5, true)));
        assert_eq!(other_default(all(), "a").as_deref(), Some("b"));
        assert_eq!(other_default(vec![class("a", 5, true)], "a"), None);
        assert_eq!(system_classes().count(), 2);
    }
}
