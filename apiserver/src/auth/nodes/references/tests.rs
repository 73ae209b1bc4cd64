//! All references in pods and volumes of the API are covered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use api::schema::{Kind as Holds, all};
use serde_json::json;

use super::*;

/// Types of references to Secrets and ConfigMaps, with the name field.
const REFERENCES: &[(&str, &str)] = &[
    ("core.v1.ConfigMapEnvSource", "name"),
    ("core.v1.ConfigMapKeySelector", "name"),
    ("core.v1.ConfigMapProjection", "name"),
    ("core.v1.ConfigMapVolumeSource", "name"),
    ("core.v1.LocalObjectReference", "name"),
    ("core.v1.ObjectReference", "name"),
    ("core.v1.SecretEnvSource", "name"),
    ("core.v1.SecretKeySelector", "name"),
    ("core.v1.SecretProjection", "name"),
    ("core.v1.SecretReference", "name"),
    ("core.v1.SecretVolumeSource", "secretName"),
    ("core.v1.AzureFileVolumeSource", "secretName"),
    ("core.v1.AzureFilePersistentVolumeSource", "secretName"),
    ("core.v1.PersistentVolumeClaimVolumeSource", "claimName"),
];

/// All paths below a type that contain a reference.
fn places(of: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(of, "", &mut found);
    found
}

fn walk(of: &str, path: &str, found: &mut BTreeSet<String>) {
    if let Some((_, field)) = REFERENCES.iter().find(|(name, _)| *name == of) {
        found.insert(format!("{path}{field}"));
        return;
    }
    for field in all().get(of).unwrap().fields() {
        let (mut kind, mut brackets) = (&field.kind, "");
        while let Holds::List(of) = kind {
            (kind, brackets) = (of, "[]");
        }
        if let Holds::Object(inner) = kind
            // Resolved by controllers.
            && !matches!(field.name, "volumeClaimTemplate" | "claimRef")
            && !inner.starts_with("meta.")
        {
            walk(inner, &format!("{path}{}{brackets}.", field.name), found);
        }
    }
}

#[test]
fn every_reference_field_of_a_pod_is_known() {
    let mut known: BTreeSet<String> = IN_SPEC.iter().map(|(_, path)| (*path).to_owned()).collect();
    for list in CONTAINERS {
        known.extend(IN_CONTAINER.iter().map(|(_, path)| format!("{list}[].{path}")));
    }
    // Plain strings, which the schema does not mark as references.
    for plain in ["serviceAccountName", "resourceClaims[].resourceClaimName"] {
        assert!(known.remove(plain), "{plain}");
    }
    assert_eq!(places("core.v1.PodSpec"), known);
}

#[test]
fn every_reference_field_of_a_volume_is_known_or_for_controllers() {
    let known: BTreeSet<String> =
        IN_VOLUME.iter().chain(IN_VOLUME_WITH_NAMESPACE).map(|path| format!("{path}.name")).collect();
    let others =
        ["azureFile.secretName", "csi.controllerExpandSecretRef.name", "csi.controllerPublishSecretRef.name"];
    let found = places("core.v1.PersistentVolumeSpec");
    let expected: BTreeSet<String> = known.into_iter().chain(others.map(str::to_owned)).collect();
    assert_eq!(found, expected);
}

/// A value with this string at a path.
fn value_at(path: &str, text: &str) -> Value {
    match path.split_once('.') {
        None => json!({path: text}),
        Some((first, rest)) => match first.strip_suffix("[]") {
            Some(list) => json!({list: [value_at(rest, "other"), value_at(rest, text)]}),
            None => json!({first: value_at(rest, text)}),
        },
    }
}

#[test]
fn each_reference_field_is_read() {
    let check = |pod: Value, kind: Kind, place: &str| {
        let found = of_pod(pod.as_object().unwrap());
        let expected = Object::new(kind, "shop", "wanted");
        assert!(found.contains(&expected), "{place}: {found:?}");
        assert!(found.iter().all(|object| object.kind == kind), "{place}: {found:?}");
    };
    let metadata = json!({"name": "p", "namespace": "shop"});
    for (kind, path) in IN_SPEC {
        check(json!({"metadata": metadata, "spec": value_at(path, "wanted")}), *kind, path);
    }
    for (kind, path) in IN_STATUS {
        check(json!({"metadata": metadata, "status": value_at(path, "wanted")}), *kind, path);
    }
    for list in CONTAINERS {
        for (kind, path) in IN_CONTAINER {
            let spec = json!({list: [{}, value_at(path, "wanted")]});
            check(json!({"metadata": metadata, "spec": spec}), *kind, path);
        }
    }
    let pod = json!({"metadata": metadata, "spec": {"volumes": [{"name": "scratch", "ephemeral": {}}]}});
    assert_eq!(of_pod(pod.as_object().unwrap()), [Object::new(Kind::Claim, "shop", "p-scratch")]);
    for nonsense in
        [json!({}), json!({"spec": 1}), json!({"spec": {"volumes": {}, "containers": [1, null, [[]]]}})]
    {
        assert_eq!(of_pod(nonsense.as_object().unwrap()), [], "{nonsense}");
    }
}

#[test]
fn volume_secret_is_in_the_claim_namespace_or_an_explicit_one() {
    for (spec, expected) in [
        (json!({"rbd": {"secretRef": {"name": "s"}}}), Some("shop")),
        (json!({"rbd": {"secretRef": {"name": "s", "namespace": "other"}}}), Some("other")),
        (json!({"azureFile": {"secretName": "s"}}), Some("shop")),
        (json!({"azureFile": {"secretName": "s", "secretNamespace": "other"}}), Some("other")),
        (json!({"csi": {"nodePublishSecretRef": {"name": "s", "namespace": "other"}}}), Some("other")),
        (json!({"csi": {"nodePublishSecretRef": {"name": "s"}}}), Some("")),
        (json!({"csi": {"controllerPublishSecretRef": {"name": "s", "namespace": "other"}}}), None),
        (json!({"nfs": {}}), None),
    ] {
        let mut volume = json!({"metadata": {"name": "v"}, "spec": spec});
        assert_eq!(of_volume(volume.as_object().unwrap()), None, "{volume}");
        volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": "c"});
        let found = of_volume(volume.as_object().unwrap()).unwrap();
        assert_eq!(found.claim, Object::new(Kind::Claim, "shop", "c"));
        let expected: Vec<_> =
            expected.iter().map(|namespace| Object::new(Kind::Secret, namespace, "s")).collect();
        assert_eq!(found.secrets, expected, "{volume}");
    }
}

#[test]
fn reference_hash_changes_only_with_the_references() {
    let pod = || {
        json!({
            "metadata": {"name": "p", "namespace": "n", "annotations": {"a": "1"}, "resourceVersion": "7"},
            "spec": {"nodeName": "one", "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            "status": {"phase": "Pending"},
        })
    };
    let brief = |pod: &Value| reference_hash(pod.to_string().as_bytes()).unwrap();
    let changed = |path: &str, value: Value| {
        let mut changed = pod();
        let (parent, field) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = value;
        changed
    };
    let mirror = changed("/metadata/annotations", json!({MIRROR: "x"}));
    let claims = json!({"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "made"}]});
    let more = json!({"extendedResourceClaimStatus": {"resourceClaimName": "made"}});
    for other in [
        changed("/spec/nodeName", json!("two")),
        changed("/spec/containers/0/envFrom", json!([])),
        changed("/spec/volumes", json!([{"name": "v", "secret": {"secretName": "t"}}])),
        changed("/status", claims),
        changed("/status", more),
        mirror.clone(),
    ] {
        assert_ne!(brief(&pod()), brief(&other), "{other}");
    }
    // The mirror annotation is removed, but its name is still mentioned.
    let spoken_of = changed("/metadata/annotations", json!({"a": MIRROR}));
    assert_ne!(brief(&mirror), brief(&spoken_of));
    for same in [
        changed("/metadata/annotations", json!({"a": "2"})),
        changed("/metadata/resourceVersion", json!("8")),
        changed("/status/phase", json!("Running")),
    ] {
        assert_eq!(brief(&pod()), brief(&same), "{same}");
    }
    assert_eq!((reference_hash(b""), reference_hash(b"[1]"), reference_hash(b"{")), (None, None, None));
}
