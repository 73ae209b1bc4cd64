//! Finds edits of running pods that admission or decoding rejected. Pure.

use std::collections::BTreeMap;

use api::problem::ObjectName;

use crate::desired::{Decision, Desired, FoundProblem};
use crate::observed::PodUid;
use crate::plan::RefusedEdit;

/// Reason for a pod whose manifest is invalid while its last good version runs. The event of the manifest has the
/// same reason.
const INVALID_MANIFEST: &str = "InvalidManifest";

/// The rejected edit of each admitted pod that has one. A pod without an admitted version has no edit.
pub(super) fn refused(desired: &Desired, decision: &Decision) -> BTreeMap<PodUid, RefusedEdit> {
    let rejected = decision.rejected.iter().filter(|(uid, _)| decision.run.contains_key(*uid));
    let rejected = rejected.map(|(uid, rejection)| {
        let reason = rejection.reason.clone().into_owned();
        (uid.clone(), RefusedEdit { reason, message: rejection.message.clone() })
    });
    let mut refused_edits: BTreeMap<PodUid, RefusedEdit> = rejected.collect();
    // An unreadable source has no new version; its problems have neither position nor object.
    let is_of_text = |found: &FoundProblem| found.problem.line > 0 || found.problem.object.is_some();
    let problems = desired.problems.iter().filter(|found| found.last_good && is_of_text(found));
    for found in problems {
        for uid in decision.run.keys().filter(|uid| is_about(found, desired, uid)) {
            let edit = RefusedEdit { reason: INVALID_MANIFEST.to_owned(), message: found.to_string() };
            refused_edits.entry(uid.clone()).or_insert(edit);
        }
    }
    refused_edits
}

/// Whether the last good version of this pod stays in use because of the problem: both have the same origin, and the
/// problem names the pod or no object.
fn is_about(found: &FoundProblem, desired: &Desired, uid: &PodUid) -> bool {
    let Some(wanted) = desired.pods.get(uid) else { return false };
    let metadata = &wanted.pod.metadata;
    let object = ObjectName {
        kind: "Pod".to_owned(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    if desired.owners.get(&object).is_none_or(|owner| owner.origin != found.origin) {
        return false;
    }
    let node = wanted.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    match &found.problem.object {
        Some(placeholder) if !placeholder.name.is_empty() => {
            placeholder.kind == "Pod"
                && object.name == format!("{}-{}", placeholder.name, node.to_lowercase())
        }
        Some(_) | None => true,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of assignment of rejected edits to pods.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use api::problem::Problem;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::desired::{Admission, Completeness, Found, Merge, Node, Snapshot, SourceKind, SourceObject};

    const HOST_USERS: &str = "hostUsers";

    /// Pods of `a.yaml`: name in the manifest, and a spec field set to false.
    fn objects(pods: &[(&str, Option<&str>)]) -> Vec<Found> {
        let found = |(name, field): &(&str, Option<&str>)| {
            let mut spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
            if let Some(field) = field {
                spec[*field] = Value::Bool(false);
            }
            let metadata = json!({"name": format!("{name}-n"), "namespace": "default", "uid": name});
            let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            Found {
                name: Arc::new(placeholder(name)),
                object: SourceObject::Pod(Arc::new(pod)),
                origin: "a.yaml".into(),
            }
        };
        pods.iter().map(found).collect()
    }

    fn placeholder(name: &str) -> ObjectName {
        ObjectName { kind: "Pod".to_owned(), namespace: "default".to_owned(), name: name.to_owned() }
    }

    /// Returns an error in a manifest whose last good version is in use.
    fn problem(origin: &str, object: Option<&str>) -> FoundProblem {
        let (path, what, remedy) = (String::new(), "wrong".to_owned(), "correct it".to_owned());
        let problem = Problem { line: 1, column: 1, path, what, remedy, object: object.map(placeholder) };
        FoundProblem { origin: origin.into(), problem, last_good: true }
    }

    /// UID and reason of each rejected edit after the pods `a` and `b` were admitted.
    fn edited(after: &[(&str, Option<&str>)], problems: Vec<FoundProblem>) -> Vec<(String, String)> {
        let mut merge = Merge::new([SourceKind::File]);
        let mut desired = |objects, problems| {
            let (waiting, completeness) = (BTreeSet::new(), Completeness::Complete);
            let snapshot = Snapshot {
                source: SourceKind::File,
                objects,
                waiting,
                problems,
                skipped: Vec::new(),
                completeness,
            };
            merge.put(Arc::new(snapshot))
        };
        let (mut admission, node) = (Admission::default(), Node::default());
        admission.decide(&desired(objects(&[("a", None), ("b", None)]), Vec::new()), &node);
        let now = desired(objects(after), problems);
        let decision = admission.decide(&now, &node);
        refused(&now, &decision).into_iter().map(|(uid, edit)| (uid.to_string(), edit.reason)).collect()
    }

    #[test]
    fn rejected_edit_is_reported_only_for_its_pod() {
        let same = [("a", None), ("b", None)];
        let is = |pod: &str, reason: &str| vec![(pod.to_owned(), reason.to_owned())];
        assert_eq!(edited(&same, Vec::new()), []);
        let refused = [("a", None), ("b", Some(HOST_USERS))];
        assert_eq!(edited(&refused, Vec::new()), is("b", "UnsupportedField"));
        assert_eq!(edited(&same, vec![problem("a.yaml", Some("a"))]), is("a", INVALID_MANIFEST));
        assert_eq!(edited(&same, vec![problem("other.yaml", None)]), []);
        let mut skipped = problem("a.yaml", None);
        skipped.problem.line = 0;
        assert_eq!(edited(&same, vec![skipped]), [], "a file that cannot be read has no new version");
        let all = edited(&same, vec![problem("a.yaml", None)]);
        assert_eq!(all.len(), 2, "a file that does not parse is about every pod of it: {all:?}");
        let new = [("a", None), ("b", None), ("c", Some(HOST_USERS))];
        assert_eq!(edited(&new, Vec::new()), [], "a new pod is no edit");
    }
}
