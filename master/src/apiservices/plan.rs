//! Computes the writes after which the APIServices match the served group versions. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::Json;
use crate::objects::{self, Condition, Conditioned, PartialObject};

/// The label of APIServices that a server manages.
const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The condition of a served group version.
const AVAILABLE: &str = "Available";
/// The served version of the core group.
const CORE_VERSION: &str = "v1";
/// Group priorities from the table of the stock server (`cmd/kube-apiserver/app`). Groups that it lacks, such as
/// `apiregistration.k8s.io`, have no APIService.
const GROUP_PRIORITIES: [(&str, u32); 20] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("apiextensions.k8s.io", 16700),
    ("admissionregistration.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("resource.k8s.io", 15900),
];
/// Version priorities that differ from [`DEFAULT_VERSION_PRIORITY`].
const VERSION_PRIORITIES: [(&str, &str, u32); 3] =
    [("", "v1", 1), ("autoscaling", "v2", 30), ("flowcontrol.apiserver.k8s.io", "v1", 21)];
/// The version priority of built-in groups.
const DEFAULT_VERSION_PRIORITY: u32 = 15;
/// Group and version priorities of custom resources.
const CRD_PRIORITIES: (u32, u32) = (1000, 100);

/// A served group version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedVersion {
    /// The group; empty for the core group.
    pub group: String,
    pub version: String,
    /// Whether the group is built in. Otherwise a CustomResourceDefinition defines it.
    pub is_built_in: bool,
}

impl ServedVersion {
    /// Group and version priority. `None` if the group has no APIService.
    fn priorities(&self) -> Option<(u32, u32)> {
        if !self.is_built_in {
            return Some(CRD_PRIORITIES);
        }
        let (group, version) = (self.group.as_str(), self.version.as_str());
        if group.is_empty() && version != CORE_VERSION {
            return None;
        }
        let of_group = GROUP_PRIORITIES.iter().find(|(name, _)| *name == group)?.1;
        let of_version = VERSION_PRIORITIES.iter().find(|(name, of, _)| (*name, *of) == (group, version));
        Some((of_group, of_version.map_or(DEFAULT_VERSION_PRIORITY, |(_, _, priority)| *priority)))
    }
}

/// A write to an APIService.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create a missing APIService.
    Create(Value),
    /// Replace the spec.
    Update(Json),
    /// Replace the status.
    UpdateStatus(Json),
    /// Delete an APIService whose group version is not served.
    Delete(String),
}

/// An existing APIService.
struct Found<'a> {
    object: &'a Json,
    /// The value of the management label. `None` if a user created the object.
    managed_by: Option<String>,
}

/// The writes for all APIServices. Built-in ones that are not served are deleted only at the start. Later they may
/// belong to a newer master.
pub fn plan(served: &BTreeSet<ServedVersion>, found: &[Json], at_start: bool, now: Timestamp) -> Vec<Step> {
    let found = found.iter().map(|object| {
        let PartialObject { metadata } = objects::read(object);
        let managed_by = metadata.labels.get(AUTOMANAGED_LABEL).map(str::to_owned);
        (metadata.name, Found { object, managed_by })
    });
    let mut there: BTreeMap<Box<str>, Found<'_>> = found.collect();
    let mut steps = Vec::new();
    for served in served {
        let Some(priorities) = served.priorities() else { continue };
        let wanted = wanted(served, priorities);
        let name = format!("{}.{}", served.version, served.group);
        match there.remove(name.as_str()) {
            None => steps.push(Step::Create(wanted)),
            Some(Found { object, managed_by: Some(_) }) => steps.extend(repair(object, &wanted, now)),
            // A user's APIService.
            Some(_) => {}
        }
    }
    let stale = there.into_iter().filter(|(_, found)| match found.managed_by.as_deref() {
        Some("true") => true,
        Some(_) => at_start,
        None => false,
    });
    steps.extend(stale.map(|(name, _)| Step::Delete(name.into())));
    steps
}

/// Adds the condition `Available`. Returns `None` if it is already true.
pub fn with_available_condition(found: &Json, now: Timestamp) -> Option<Json> {
    let Conditioned { status, .. } = objects::read(found);
    if status.conditions.of_type(AVAILABLE).is_some_and(Condition::is_true) {
        return None;
    }
    let mut updated = found.clone();
    let condition = json!({
        "type": AVAILABLE, "status": "True", "reason": "Local", "message": "Local APIServices are always available",
        "lastTransitionTime": api::time::seconds(now),
    });
    updated.insert("status".to_owned(), json!({"conditions": [condition]}));
    Some(updated)
}

fn repair(found: &Json, wanted: &Value, now: Timestamp) -> Option<Step> {
    if found.get("spec") == wanted.get("spec") {
        return with_available_condition(found, now).map(Step::UpdateStatus);
    }
    let mut mended = found.clone();
    mended.insert("spec".to_owned(), wanted["spec"].clone());
    Some(Step::Update(mended))
}

fn wanted(served: &ServedVersion, (of_group, of_version): (u32, u32)) -> Value {
    let ServedVersion { group, version, is_built_in } = served;
    let mut spec =
        json!({"version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version});
    if !group.is_empty() {
        spec["group"] = group.as_str().into();
    }
    let labels = json!({AUTOMANAGED_LABEL: if *is_built_in { "onstart" } else { "true" }});
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": labels},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    //! Tests of APIServices that are created, repaired, kept and deleted.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const NOW: &str = "2026-06-01T12:00:00Z";

    fn served(group: &str, version: &str, is_built_in: bool) -> ServedVersion {
        ServedVersion { group: group.to_owned(), version: version.to_owned(), is_built_in }
    }

    fn planned(of: &[ServedVersion], found: &[Json], at_start: bool) -> Vec<Step> {
        plan(&of.iter().cloned().collect(), found, at_start, NOW.parse().unwrap())
    }

    /// The APIService created for a version, with its Available condition.
    fn made(of: &ServedVersion) -> Json {
        match planned(std::slice::from_ref(of), &[], true).as_slice() {
            [Step::Create(object)] => {
                with_available_condition(object.as_object().unwrap(), NOW.parse().unwrap()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_labels_and_priorities_are_the_stock_ones() {
        for (of, name, label, priorities) in [
            (served("", "v1", true), "v1.", "onstart", (18000, 1)),
            (served("apps", "v1", true), "v1.apps", "onstart", (17800, 15)),
            (served("autoscaling", "v2", true), "v2.autoscaling", "onstart", (17500, 30)),
            (served("example.com", "v1beta1", false), "v1beta1.example.com", "true", (1000, 100)),
        ] {
            let object = Value::from(made(&of));
            assert_eq!(object["metadata"]["name"], name);
            assert_eq!(object["metadata"]["labels"][AUTOMANAGED_LABEL], label, "{name}");
            let spec = &object["spec"];
            assert_eq!(spec["groupPriorityMinimum"], priorities.0, "{name}");
            assert_eq!(
                (&spec["versionPriority"], &spec["version"]),
                (&json!(priorities.1), &json!(of.version))
            );
            assert_eq!(spec.get("group").and_then(Value::as_str).unwrap_or_default(), of.group);
            assert_eq!(object["status"]["conditions"][0]["reason"], "Local");
        }
        for none in [served("", "v1beta3", true), served("apiregistration.k8s.io", "v1", true)] {
            assert_eq!(planned(&[none], &[], true), []);
        }
    }

    #[test]
    fn correct_api_services_are_kept_and_others_are_repaired() {
        let of = [served("apps", "v1", true)];
        let right = made(&of[0]);
        assert_eq!(planned(&of, std::slice::from_ref(&right), false), []);
        let mut silent = right.clone();
        silent.remove("status");
        assert_eq!(planned(&of, &[silent], false), [Step::UpdateStatus(right.clone())]);
        let mut edited = right.clone();
        edited["spec"]["versionPriority"] = 7.into();
        assert_eq!(planned(&of, &[edited.clone()], false), [Step::Update(right)]);
        edited["metadata"]["labels"] = json!({});
        assert_eq!(planned(&of, &[edited], false), [], "managed by another client");
    }

    #[test]
    fn api_services_of_unserved_versions_are_deleted() {
        let (defined, old) = (made(&served("example.com", "v1", false)), made(&served("apps", "v1", true)));
        let mut own = defined.clone();
        own["metadata"] = json!({"name": "v1.mine.example.com"});
        let found = [defined, old, own];
        let gone = |name: &str| Step::Delete(name.to_owned());
        assert_eq!(planned(&[], &found, false), [gone("v1.example.com")]);
        assert_eq!(planned(&[], &found, true), [gone("v1.apps"), gone("v1.example.com")]);
    }
}
