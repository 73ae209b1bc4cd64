//! References in pods and volumes to objects that a node must read. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::index::{Kind, Object};

/// Annotation of mirror pods.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Container lists of a pod spec.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Reference paths in a pod spec; `[]` iterates over a list.
const IN_SPEC: &[(Kind, &str)] = &[
    (Kind::ServiceAccount, "serviceAccountName"),
    (Kind::Secret, "imagePullSecrets[].name"),
    (Kind::ResourceClaim, "resourceClaims[].resourceClaimName"),
    (Kind::ConfigMap, "volumes[].configMap.name"),
    (Kind::ConfigMap, "volumes[].projected.sources[].configMap.name"),
    (Kind::Secret, "volumes[].secret.secretName"),
    (Kind::Secret, "volumes[].projected.sources[].secret.name"),
    (Kind::Secret, "volumes[].azureFile.secretName"),
    (Kind::Secret, "volumes[].cephfs.secretRef.name"),
    (Kind::Secret, "volumes[].cinder.secretRef.name"),
    (Kind::Secret, "volumes[].csi.nodePublishSecretRef.name"),
    (Kind::Secret, "volumes[].flexVolume.secretRef.name"),
    (Kind::Secret, "volumes[].iscsi.secretRef.name"),
    (Kind::Secret, "volumes[].rbd.secretRef.name"),
    (Kind::Secret, "volumes[].scaleIO.secretRef.name"),
    (Kind::Secret, "volumes[].storageos.secretRef.name"),
    (Kind::Claim, "volumes[].persistentVolumeClaim.claimName"),
];

/// Reference paths in a container.
const IN_CONTAINER: &[(Kind, &str)] = &[
    (Kind::ConfigMap, "env[].valueFrom.configMapKeyRef.name"),
    (Kind::ConfigMap, "envFrom[].configMapRef.name"),
    (Kind::Secret, "env[].valueFrom.secretKeyRef.name"),
    (Kind::Secret, "envFrom[].secretRef.name"),
];

/// Reference paths in a pod status, where controllers record generated claims.
const IN_STATUS: &[(Kind, &str)] = &[
    (Kind::ResourceClaim, "resourceClaimStatuses[].resourceClaimName"),
    (Kind::ResourceClaim, "extendedResourceClaimStatus.resourceClaimName"),
];

/// Secret references in a volume spec that default to the namespace of the claim.
const IN_VOLUME: &[&str] =
    &["cephfs.secretRef", "flexVolume.secretRef", "iscsi.secretRef", "rbd.secretRef", "scaleIO.secretRef"];

/// Secret references in a volume spec with an explicit namespace. CSI secrets used only by controllers are
/// not listed.
const IN_VOLUME_WITH_NAMESPACE: &[&str] = &[
    "cinder.secretRef",
    "storageos.secretRef",
    "csi.nodePublishSecretRef",
    "csi.nodeStageSecretRef",
    "csi.nodeExpandSecretRef",
];

/// The claim of a bound volume and the Secrets that a node needs to mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeReferences {
    /// The bound claim.
    pub claim: Object,
    /// Secrets in any namespace.
    pub secrets: Vec<Object>,
}

/// Hash of the parts of a pod that contain its node and its references. Equal hashes mean equal references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceHash(u64);

/// The parts of a pod that the hash covers, not decoded.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// Reference hash of a stored pod, or `None` if the JSON is not an object.
pub fn reference_hash(json: &[u8]) -> Option<ReferenceHash> {
    /// Part of the names of the status fields that record generated claims.
    const OF_CLAIMS: &str = "esourceClaimStatus";

    /// Returns a part of the pod only if it contains `word`. Metadata and status change often, and rarely contain
    /// references.
    fn if_contains<'a>(part: Option<&'a RawValue>, word: &str) -> Option<&'a str> {
        part.map(RawValue::get).filter(|text| text.contains(word))
    }

    let Parts { metadata, spec, status } = serde_json::from_slice(json).ok()?;
    let mut hasher = DefaultHasher::new();
    spec.map(RawValue::get).hash(&mut hasher);
    if_contains(metadata, MIRROR).hash(&mut hasher);
    if_contains(status, OF_CLAIMS).hash(&mut hasher);
    Some(ReferenceHash(hasher.finish()))
}

/// All references of a pod, possibly with duplicates.
pub fn of_pod(pod: &Map<String, Value>) -> Vec<Object> {
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    let (namespace, own_name) = (text(metadata, "namespace"), text(metadata, "name"));
    let mut found = Vec::new();
    let mut look = |value: Option<&Value>, places: &[(Kind, &str)]| {
        for (kind, path) in places {
            each(value, path, &mut |name| found.push(Object::new(*kind, namespace, name)));
        }
    };
    let spec = pod.get("spec");
    look(spec, IN_SPEC);
    for list in CONTAINERS {
        list_of(spec, list).for_each(|container| look(Some(container), IN_CONTAINER));
    }
    look(pod.get("status"), IN_STATUS);
    for volume in list_of(spec, "volumes").filter(|volume| volume.get("ephemeral").is_some()) {
        let name = format!("{own_name}-{}", text(volume, "name"));
        found.push(Object::new(Kind::Claim, namespace, &name));
    }
    found
}

/// References of a volume, or `None` if it is not bound.
pub fn of_volume(volume: &Map<String, Value>) -> Option<VolumeReferences> {
    let spec = volume.get("spec")?;
    let claim = spec.get("claimRef")?;
    let namespace = text(claim, "namespace");
    let mut secrets = Vec::new();
    let mut take = |own: &str, name: &str| {
        if !name.is_empty() {
            secrets.push(Object::new(Kind::Secret, own, name));
        }
    };
    let or_of_claim = |own| Some(own).filter(|own: &&str| !own.is_empty()).unwrap_or(namespace);
    if let Some(share) = spec.get("azureFile") {
        take(or_of_claim(text(share, "secretNamespace")), text(share, "secretName"));
    }
    for path in IN_VOLUME {
        each_value(Some(spec), path, &mut |of| take(or_of_claim(text(of, "namespace")), text(of, "name")));
    }
    for path in IN_VOLUME_WITH_NAMESPACE {
        each_value(Some(spec), path, &mut |of| take(text(of, "namespace"), text(of, "name")));
    }
    Some(VolumeReferences { claim: Object::new(Kind::Claim, namespace, text(claim, "name")), secrets })
}

/// True for a mirror pod.
pub fn is_mirror(pod: &Map<String, Value>) -> bool {
    let metadata = pod.get("metadata").and_then(Value::as_object);
    metadata.and_then(|metadata| metadata.get("annotations")).is_some_and(|all| all.get(MIRROR).is_some())
}

/// Calls `found` with each non-empty string at a path.
fn each<'a>(value: Option<&'a Value>, path: &str, found: &mut dyn FnMut(&'a str)) {
    each_value(value, path, &mut |value| {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            found(text);
        }
    });
}

/// Calls `found` with each value at a path. The recursion is as deep as the path is long.
fn each_value<'a>(value: Option<&'a Value>, path: &str, found: &mut dyn FnMut(&'a Value)) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut go_on = |value: &'a Value| {
        if rest.is_empty() { found(value) } else { each_value(Some(value), rest, found) }
    };
    match first.strip_suffix("[]") {
        Some(list) => list_of(value, list).for_each(go_on),
        None => {
            if let Some(value) = value.and_then(|value| value.get(first)) {
                go_on(value);
            }
        }
    }
}

fn list_of<'a>(of: Option<&'a Value>, field: &str) -> impl Iterator<Item = &'a Value> {
    of.and_then(|of| of.get(field)).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
