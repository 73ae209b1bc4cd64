//! Revisions of a Deployment: the annotations and names of its ReplicaSets, and template hashes. Pure.

use std::collections::BTreeMap;

use crate::controllers::workloads::names::safe_letters;
use crate::objects::StringMap;
use crate::objects::template::TemplateDigest;

/// The annotation with the revision of a ReplicaSet, or the current revision of a Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with earlier revisions of a ReplicaSet to which the Deployment was rolled back.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The annotation with the replicas of the Deployment when it scaled the ReplicaSet.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation with the replicas of the Deployment plus its surge when it scaled the ReplicaSet.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that are not copied from a Deployment to its ReplicaSets.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];
/// Maximum length of the revision history in characters, as in stock Kubernetes.
const HISTORY_LENGTH: usize = 2000;
/// Maximum length of an object's name.
const NAME_LENGTH: usize = 253;
/// Returns the revision in annotations. Returns 0 if it is absent, and `None` if it is not a number.
pub fn revision(annotations: &StringMap) -> Option<i64> {
    annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// Returns the number in an annotation.
pub fn number(annotations: &StringMap, key: &str) -> Option<i64> {
    annotations.get(key)?.parse().ok()
}

/// Returns the annotations that the ReplicaSet of the current template lacks: those of the Deployment, and its
/// revision. The revision is the highest of all ReplicaSets.
pub fn missing_annotations(
    deployment: &StringMap,
    set: &StringMap,
    next_revision: i64,
) -> BTreeMap<Box<str>, Box<str>> {
    let copied =
        deployment.iter().filter(|(key, value)| !NOT_COPIED.contains(key) && set.get(key) != Some(*value));
    let mut missing: BTreeMap<Box<str>, Box<str>> =
        copied.map(|(key, value)| (key.into(), value.into())).collect();
    // A revision that is no number is left alone.
    if let Some(own) = revision(set)
        && own < next_revision
    {
        missing.insert(REVISION.into(), next_revision.to_string().into());
        if let Some(own) = set.get(REVISION) {
            let history = with_history(set.get(REVISION_HISTORY).unwrap_or_default(), own);
            missing.insert(REVISION_HISTORY.into(), history.into());
        }
    }
    missing
}

/// Appends a revision to the history, and drops the oldest revisions above the limit.
fn with_history(history: &str, revision: &str) -> String {
    let mut all: Vec<&str> = history.split(',').filter(|one| !one.is_empty()).collect();
    all.push(revision);
    let length = |all: &[&str]| all.iter().map(|one| one.len() + 1).sum::<usize>();
    while all.len() > 1 && length(&all) > HISTORY_LENGTH {
        all.remove(0);
    }
    all.join(",")
}

/// Returns the value of `pod-template-hash` for a template: the 32-bit FNV-1a hash, in letters that are safe in
/// names.
///
/// Stock hashes have the same form but other values, so ReplicaSets are found by their templates.
pub fn template_hash(digest: &TemplateDigest, collisions: i64) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let collisions = if collisions == 0 { Vec::new() } else { collisions.to_le_bytes().to_vec() };
    for byte in digest.bytes().iter().chain(&collisions) {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    safe_letters(hash.to_string().as_bytes())
}

/// Returns the name of the ReplicaSet for a template. Shortens a long name of the Deployment.
pub fn replica_set_name(deployment: &str, hash: &str) -> String {
    let end = deployment.floor_char_boundary(NAME_LENGTH.saturating_sub(hash.len() + 1));
    format!("{}-{hash}", deployment.get(..end).unwrap_or(deployment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::template::PodTemplate;

    fn map(entries: &[(&str, &str)]) -> StringMap {
        entries.iter().copied().collect()
    }

    #[test]
    fn annotations_are_copied_and_revisions_counted() {
        let deployment = map(&[
            ("team", "a"),
            ("deployment.kubernetes.io/revision", "9"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ]);
        for (set, next, expected) in [
            (map(&[]), 1, vec![(REVISION, "1"), ("team", "a")]),
            (map(&[(REVISION, "3"), ("team", "a")]), 3, vec![]),
            (map(&[(REVISION, "3"), ("team", "b")]), 2, vec![("team", "a")]),
            (map(&[(REVISION, "1"), ("team", "a")]), 4, vec![(REVISION, "4"), (REVISION_HISTORY, "1")]),
            (
                map(&[(REVISION, "9"), (REVISION_HISTORY, "1,5"), ("team", "a")]),
                10,
                vec![(REVISION, "10"), (REVISION_HISTORY, "1,5,9")],
            ),
            (map(&[(REVISION, "x"), ("team", "a")]), 4, vec![]),
        ] {
            let expected = expected.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            assert_eq!(missing_annotations(&deployment, &set, next), expected, "{set:?}");
        }
        let long = "1234567,".repeat(249) + "7";
        let history = with_history(&long, "8888888");
        assert!(history.len() <= HISTORY_LENGTH && history.ends_with(",7,8888888"), "{}", history.len());
    }

    #[test]
    fn hashes_are_short_words_that_collisions_change() {
        let template = |image: &str| PodTemplate::from(serde_json::json!({"spec": {"image": image}})).digest;
        let hash = template_hash(&template("a"), 0);
        assert!((7..=10).contains(&hash.len()), "{hash}");
        assert_eq!(hash, template_hash(&template("a"), 0));
        assert!(hash != template_hash(&template("b"), 0) && hash != template_hash(&template("a"), 1));
        assert_eq!(replica_set_name("web", "abc"), "web-abc");
        assert_eq!(replica_set_name(&"w".repeat(253), "abc").len(), 253);
    }
}
