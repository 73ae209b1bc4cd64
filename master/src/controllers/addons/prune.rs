//! Deletes an object that left the directory, if it is certainly the one that was applied, and no other data ends with
//! it.

use client::{Client, DeleteOptions, Error, Json, Propagation};

use super::inventory::Applied;
use super::live::Metadata;
use super::plan::{ObjectKey, kind_of};
use crate::controllers::discovery::Served;
use crate::objects::StatefulSet;

/// The annotation that decides whether an object is deleted when it leaves the directory: `true` permits it for objects
/// that are otherwise kept, any other value keeps the object.
pub const ANNOTATION: &str = "addons.coracle.io/prune";
/// The value of [`ANNOTATION`] that permits the deletion.
const PERMITTED: &str = "true";
/// Group and kind of objects that are kept, because their deletion destroys other objects or data.
const KEPT: [(&str, &str); 6] = [
    ("", "Namespace"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
];

/// The result for an object without a manifest.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was deleted, or did not exist any more.
    Deleted,
    /// It is no longer an object of the add-ons: it stays, and leaves the inventory.
    Released(&'static str),
    /// It is deleted after the objects in it, which the add-ons have.
    Waits(&'static str),
    /// It stays in the cluster and in the inventory.
    Kept(&'static str),
    /// Its kind is not served at present.
    Unserved,
}

/// What to do with a live object.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Delete exactly this version.
    Delete {
        resource_version: Box<str>,
    },
    Leave(Outcome),
}

/// Deletes an object with the recorded UID. The server checks UID and version again.
///
/// # Errors
/// If the object cannot be read or deleted. The caller retries.
pub async fn prune(
    client: &Client,
    served: &[Served],
    key: &ObjectKey,
    applied: &Applied,
) -> Result<Outcome, Error> {
    let Some(kind) = kind_of(served, &key.group, &key.kind) else { return Ok(Outcome::Unserved) };
    let Some(live) = client.find(kind, &key.namespace, &key.name).await? else {
        return Ok(Outcome::Deleted);
    };
    let resource_version = match decide(key, applied, &live) {
        Decision::Delete { resource_version } => resource_version,
        Decision::Leave(outcome) => return Ok(outcome),
    };
    let how = DeleteOptions {
        uid: Some(&applied.uid),
        resource_version: Some(&resource_version),
        propagation: Some(Propagation::Background),
        grace_seconds: None,
    };
    client.delete(kind, &key.namespace, &key.name, &how).await?;
    Ok(Outcome::Deleted)
}

fn decide(key: &ObjectKey, applied: &Applied, live: &Json) -> Decision {
    let metadata = Metadata::of(live);
    let leave = |outcome| Decision::Leave(outcome);
    if applied.uid.is_empty() || *metadata.uid != *applied.uid {
        return leave(Outcome::Released("another object has taken its name"));
    }
    if metadata.deletion_timestamp.is_some() {
        return leave(Outcome::Deleted);
    }
    if !metadata.is_managed() {
        return leave(Outcome::Released("the add-ons no longer manage a field of it"));
    }
    match metadata.annotations.get(ANNOTATION) {
        Some(PERMITTED) => {}
        Some(_) => return leave(Outcome::Kept("its annotation addons.coracle.io/prune keeps it")),
        None if applied.is_adopted => {
            return leave(Outcome::Kept("it existed before the add-ons applied it"));
        }
        None if KEPT.contains(&(&key.group, &key.kind)) => {
            return leave(Outcome::Kept("its deletion would destroy other objects or data"));
        }
        None if deletes_claims(key, live) => {
            return leave(Outcome::Kept("its deletion would delete its PersistentVolumeClaims"));
        }
        None => {}
    }
    Decision::Delete { resource_version: metadata.resource_version }
}

/// Whether the object is a StatefulSet that deletes its claims with it.
fn deletes_claims(key: &ObjectKey, live: &Json) -> bool {
    (key.group.as_str(), key.kind.as_str()) == ("apps", "StatefulSet")
        && crate::objects::read::<StatefulSet>(live)
            .spec
            .persistent_volume_claim_retention_policy
            .deletes_with_set()
}

#[cfg(test)]
mod tests {
    //! Tests of the decision about a live object.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::super::NAME;
    use super::*;

    fn applied(uid: &str) -> Applied {
        Applied { uid: uid.to_owned(), file: "a.yaml".to_owned(), is_adopted: false }
    }

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: "a".to_owned(),
            ..ObjectKey::default()
        }
    }

    fn live(change: Value) -> Json {
        let mut object = json!({"metadata": {
            "uid": "u", "resourceVersion": "7", "managedFields": [{"manager": NAME, "operation": "Apply"}],
        }});
        for (name, value) in change.as_object().unwrap() {
            match name.as_str() {
                "spec" => object[name] = value.clone(),
                _ => object["metadata"][name] = value.clone(),
            }
        }
        object.as_object().unwrap().clone()
    }

    fn is_deleted(key: &ObjectKey, change: Value) -> bool {
        let decision = decide(key, &applied("u"), &live(change));
        matches!(decision, Decision::Delete { resource_version } if &*resource_version == "7")
    }

    #[test]
    fn only_the_recorded_object_of_the_add_ons_is_deleted() {
        let config_map = key("", "ConfigMap");
        assert!(is_deleted(&config_map, json!({})));
        for change in [
            json!({"uid": "other"}),
            json!({"managedFields": []}),
            json!({"managedFields": [{"manager": "kubectl", "operation": "Apply"}]}),
            json!({"managedFields": [{"manager": NAME, "operation": "Update"}]}),
        ] {
            let decision = decide(&config_map, &applied("u"), &live(change.clone()));
            assert!(matches!(decision, Decision::Leave(Outcome::Released(_))), "{change}: {decision:?}");
        }
        let none = decide(&config_map, &applied(""), &live(json!({"uid": ""})));
        assert!(
            matches!(none, Decision::Leave(Outcome::Released(_))),
            "an entry without UID names no object"
        );
        let terminating = live(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(decide(&config_map, &applied("u"), &terminating), Decision::Leave(Outcome::Deleted));
        assert!(!is_deleted(&config_map, json!({"annotations": {ANNOTATION: "false"}})));
    }

    #[test]
    fn adopted_objects_are_kept_unless_an_annotation_permits_it() {
        let (config_map, adopted) = (key("", "ConfigMap"), Applied { is_adopted: true, ..applied("u") });
        let decision = decide(&config_map, &adopted, &live(json!({})));
        assert!(matches!(decision, Decision::Leave(Outcome::Kept(_))), "{decision:?}");
        let permitted = live(json!({"annotations": {ANNOTATION: "true"}}));
        assert!(matches!(decide(&config_map, &adopted, &permitted), Decision::Delete { .. }));
    }

    #[test]
    fn objects_that_other_data_depends_on_are_kept_unless_an_annotation_permits_it() {
        for (group, kind) in KEPT {
            let key = key(group, kind);
            assert!(!is_deleted(&key, json!({})), "{kind}");
            assert!(!is_deleted(&key, json!({"annotations": {ANNOTATION: "yes"}})), "{kind}");
            assert!(is_deleted(&key, json!({"annotations": {ANNOTATION: "true"}})), "{kind}");
        }
        let set = key("apps", "StatefulSet");
        let policy =
            |when: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when}}});
        assert!(is_deleted(&set, policy("Retain")));
        assert!(!is_deleted(&set, policy("Delete")));
        assert!(is_deleted(&key("example.com", "Namespace"), json!({})), "a custom kind of that name");
    }
}
