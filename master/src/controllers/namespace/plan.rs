//! Computes the status of a terminating namespace. Pure.

use std::collections::BTreeMap;

use client::{Json, Kind};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{List, ObjectMeta};

/// The fields of a Namespace that the controller reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// Finalizers that keep the namespace until its content is deleted.
    pub finalizers: List<Box<str>>,
}

/// How far the deletion of the content has come.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The content was not listed yet.
    Started,
    Deleted(&'a RemainingContent),
}

/// The remaining content of a namespace.
#[derive(Debug, Default)]
pub struct RemainingContent {
    /// Object counts by resource, written as in conditions: `pods.`, `deployments.apps`.
    counts: BTreeMap<String, usize>,
    /// Object counts by remaining finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Errors of deletions.
    pub failed: Vec<String>,
    /// Error of discovery. The content is unknown then.
    pub undiscovered: Option<String>,
}

impl RemainingContent {
    /// Adds the remaining objects of a kind.
    pub fn add(&mut self, kind: &Kind, left: Vec<ObjectMeta>) {
        if left.is_empty() {
            return;
        }
        self.counts.insert(format!("{}.{}", kind.plural, kind.group), left.len());
        for finalizer in left.into_iter().flat_map(|object| object.finalizers) {
            *self.finalizers.entry(finalizer.into()).or_default() += 1;
        }
    }

    /// Whether the namespace is certainly empty.
    pub fn is_nothing(&self) -> bool {
        self.counts.is_empty() && self.failed.is_empty() && self.undiscovered.is_none()
    }
}

/// A condition: its type, the reason and message if it is true, and those if it is false.
struct Condition {
    name: &'static str,
    holds: Option<(&'static str, String)>,
    otherwise: (&'static str, &'static str),
}

/// Returns the status that the namespace should have, or `None` if it already has this status.
pub fn status(namespace: &Json, seen: Progress<'_>, now: Timestamp) -> Option<Value> {
    let old = namespace.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut status = old.clone();
    status["phase"] = "Terminating".into();
    if let Progress::Deleted(remains) = seen {
        let known = old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        status["conditions"] = Value::Array(merged(known, conditions(remains), now));
    }
    (status != old).then_some(status)
}

/// Removes a finalizer from `spec.finalizers`.
pub fn without(mut namespace: Json, finalizers: &[Box<str>], finalizer: &str) -> Json {
    let left: Vec<&str> = finalizers.iter().map(|own| &**own).filter(|own| *own != finalizer).collect();
    namespace.insert("spec".to_owned(), json!({"finalizers": left}));
    namespace
}

// Types, reasons and messages are those of a stock cluster, since users and tools search for them.
fn conditions(remains: &RemainingContent) -> [Condition; 5] {
    let listed = |counts: &BTreeMap<String, usize>, verb: &str| {
        let one = |(name, count): (&String, &usize)| format!("{name} {verb} {count} resource instances");
        counts.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let undiscovered = remains.undiscovered.clone().map(|why| ("DiscoveryFailed", why));
    let failed = (!remains.failed.is_empty()).then(|| {
        let (count, all) = (remains.failed.len(), remains.failed.join(", "));
        ("ContentDeletionFailed", format!("Failed to delete all resource types, {count} remaining: {all}"))
    });
    let content = (!remains.counts.is_empty()).then(|| {
        ("SomeResourcesRemain", format!("Some resources are remaining: {}", listed(&remains.counts, "has")))
    });
    let finalizers = (!remains.finalizers.is_empty()).then(|| {
        let all = listed(&remains.finalizers, "in");
        ("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {all}"))
    });
    [
        Condition {
            name: "NamespaceDeletionDiscoveryFailure",
            holds: undiscovered,
            otherwise: ("ResourcesDiscovered", "All resources successfully discovered"),
        },
        Condition {
            name: "NamespaceDeletionGroupVersionParsingFailure",
            holds: None,
            otherwise: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        },
        Condition {
            name: "NamespaceDeletionContentFailure",
            holds: failed,
            otherwise: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        },
        Condition {
            name: "NamespaceContentRemaining",
            holds: content,
            otherwise: ("ContentRemoved", "All content successfully removed"),
        },
        Condition {
            name: "NamespaceFinalizersRemaining",
            holds: finalizers,
            otherwise: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        },
    ]
}

/// Merges conditions. `lastTransitionTime` changes only when the status changes.
fn merged(mut known: Vec<Value>, conditions: [Condition; 5], now: Timestamp) -> Vec<Value> {
    for condition in conditions {
        let (status, reason, message) = match condition.holds {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", condition.otherwise.0, condition.otherwise.1.to_owned()),
        };
        let place = known.iter().position(|old| old["type"] == condition.name);
        let old = place.and_then(|place| known.get(place)).filter(|old| old["status"] == status);
        let since = old
            .and_then(|old| old.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| api::time::seconds(now).into());
        let new = json!({
            "type": condition.name, "status": status, "lastTransitionTime": since,
            "reason": reason, "message": message,
        });
        match place.and_then(|place| known.get_mut(place)) {
            Some(old) => *old = new,
            None => known.push(new),
        }
    }
    known
}

#[cfg(test)]
mod tests {
    //! Tests of conditions of a terminating namespace.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn message(status: &Value, name: &str) -> String {
        let all = status["conditions"].as_array().unwrap();
        let condition = all.iter().find(|condition| condition["type"] == name).unwrap();
        format!("{} {}: {}", condition["status"], condition["reason"], condition["message"]).replace('"', "")
    }

    #[test]
    fn remaining_content_is_reported_once() {
        let mut remains = RemainingContent::default();
        assert!(remains.is_nothing());
        let held = ObjectMeta { finalizers: vec!["example.com/hold".into()].into(), ..ObjectMeta::default() };
        remains.add(&Kind::POD, vec![held, ObjectMeta::default()]);
        remains.add(&Kind::JOB, Vec::new());
        remains.failed.push("jobs.batch: 500".to_owned());
        assert!(!remains.is_nothing());
        let mut namespace = Json::new();
        let told = status(&namespace, Progress::Deleted(&remains), now()).unwrap();
        for (name, expected) in [
            (
                "NamespaceDeletionDiscoveryFailure",
                "False ResourcesDiscovered: All resources successfully discovered",
            ),
            (
                "NamespaceContentRemaining",
                "True SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining",
                "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
                 example.com/hold in 1 resource instances",
            ),
            (
                "NamespaceDeletionContentFailure",
                "True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: jobs.batch: 500",
            ),
        ] {
            assert_eq!(message(&told, name), expected);
        }
        namespace.insert("status".to_owned(), told);
        let later = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(status(&namespace, Progress::Deleted(&remains), later), None, "nothing new");
        let empty = status(&namespace, Progress::Deleted(&RemainingContent::default()), later).unwrap();
        assert_eq!(empty["conditions"].as_array().unwrap().len(), 5);
        assert_eq!(empty["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(empty["conditions"][3]["lastTransitionTime"], "2026-01-02T00:00:00Z");
    }

    #[test]
    fn the_phase_is_written_first_and_the_finalizer_is_removed_last() {
        let namespace =
            json!({"spec": {"finalizers": ["kubernetes", "mine"]}, "status": {"phase": "Active"}});
        let namespace = namespace.as_object().unwrap().clone();
        assert_eq!(status(&namespace, Progress::Started, now()), Some(json!({"phase": "Terminating"})));
        let finalizers = ["kubernetes".into(), "mine".into()];
        let finalized = without(namespace, &finalizers, "kubernetes");
        assert_eq!(finalized["spec"], json!({"finalizers": ["mine"]}));
    }
}
