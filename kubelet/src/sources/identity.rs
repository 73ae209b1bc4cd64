//! Gives pods of local sources an identity on this node: name, UID and config annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::problem::Problem;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use sha2::{Digest, Sha256};

use crate::desired::SourceKind;
use crate::observed::Timestamp;

/// Annotation with the source of a pod.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// Annotation with the hash of the pod in its source.
pub const HASH: &str = "kubernetes.io/config.hash";
/// Annotation with the time at which the pod was first seen.
pub const SEEN: &str = "kubernetes.io/config.seen";
/// Annotation of mirror pods, which is removed from local pods.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Maximum length of a pod name, as in the API.
const NAME_LIMIT: usize = 253;
/// Maximum length of a UID. It is part of file and container names.
const UID_LIMIT: usize = 128;

/// Converts a pod of a local source to a pod of this node. `known` is the previous pod of that name. If nothing
/// changed, `known` is returned, so that equal pointers mean "unchanged".
///
/// # Errors
/// If the name with the node's name is too long, or the UID is not safe in a path.
pub fn place(
    mut pod: Pod,
    node: &str,
    source: SourceKind,
    known: Option<&Arc<Pod>>,
    now: Timestamp,
) -> Result<Arc<Pod>, Box<Problem>> {
    let given = pod.metadata.name.clone().unwrap_or_default();
    let name = format!("{given}-{}", node.to_lowercase());
    if name.len() > NAME_LIMIT {
        let over = name.len() - NAME_LIMIT;
        return Err(Box::new(Problem {
            path: "metadata.name".to_owned(),
            what: format!("the full name of the pod is {name}, {} characters long", name.len()),
            remedy: format!("shorten it by {over}: the limit is {NAME_LIMIT}"),
            ..problem()
        }));
    }
    let namespace = pod.metadata.namespace.get_or_insert_with(|| "default".to_owned()).clone();
    let uid = match pod.metadata.uid.take().filter(|uid| !uid.is_empty()) {
        Some(uid) if is_safe(&uid) => uid,
        Some(uid) => {
            return Err(Box::new(Problem {
                path: "metadata.uid".to_owned(),
                what: format!("{uid:?} is not a valid UID"),
                remedy: "use letters, digits, dots and dashes, or remove it: the node then creates one"
                    .to_owned(),
                ..problem()
            }));
        }
        None => uid(node, source, &namespace, &given),
    };
    pod.metadata.uid = Some(uid);
    pod.status = None;
    let hash = hash(&pod);
    let known = known.filter(|known| known.metadata.uid == pod.metadata.uid);
    let noted = |key: &str| known?.metadata.annotations.as_ref()?.get(key).cloned();
    if let Some(known) = known
        && noted(HASH).as_ref() == Some(&hash)
        && noted(SOURCE).as_deref() == Some(source.as_str())
        && known.metadata.name.as_ref() == Some(&name)
    {
        return Ok(known.clone());
    }
    let seen = noted(SEEN).unwrap_or_else(|| now.to_string());
    let annotations: &mut BTreeMap<_, _> = pod.metadata.annotations.get_or_insert_default();
    annotations.remove(MIRROR);
    annotations.insert(SOURCE.to_owned(), source.as_str().to_owned());
    annotations.insert(HASH.to_owned(), hash);
    annotations.insert(SEEN.to_owned(), seen);
    pod.metadata.name = Some(name);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node.to_owned());
    tolerate_no_execute(spec.tolerations.get_or_insert_default());
    Ok(Arc::new(pod))
}

/// Converts a pushed pod to the pod that the kubelet runs: without the fields that every write changes, and with the
/// config annotations. The API keeps the pod as it was pushed.
pub fn place_pushed(mut pod: Pod) -> Pod {
    pod.status = None;
    pod.metadata.managed_fields = None;
    pod.metadata.resource_version = None;
    // A deletion, and what the API counts, are no new version of the pod.
    let mut hashed = pod.clone();
    hashed.metadata.generation = None;
    hashed.metadata.deletion_timestamp = None;
    hashed.metadata.deletion_grace_period_seconds = None;
    let hash = hash(&hashed);
    let seen = pod.metadata.creation_timestamp.as_ref().map(|created| created.0.to_string());
    let annotations: &mut BTreeMap<_, _> = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE.to_owned(), SourceKind::Push.as_str().to_owned());
    annotations.insert(HASH.to_owned(), hash);
    annotations.extend(seen.map(|seen| (SEEN.to_owned(), seen)));
    tolerate_no_execute(pod.spec.get_or_insert_default().tolerations.get_or_insert_default());
    pod
}

/// UID of a pod that specifies none, derived from node, source, namespace and name. It stays the same if the file
/// is edited, reformatted or renamed. It has the format of a UUID of version 8.
pub fn uid(node: &str, source: SourceKind, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest([node, source.as_str(), namespace, name].join("\0"));
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Hash of the pod as its source contains it.
fn hash(pod: &Pod) -> String {
    // A typed pod always serializes; otherwise each read would count as a change.
    let text = serde_json::to_vec(pod).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..16])
}

/// Adds a toleration for all NoExecute taints, because no other node could run a local pod.
fn tolerate_no_execute(tolerations: &mut Vec<Toleration>) {
    let all = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    if !tolerations.contains(&all) {
        tolerations.push(all);
    }
}

/// Whether a text is safe in a path and in a container name.
fn is_safe(uid: &str) -> bool {
    uid.len() <= UID_LIMIT
        && uid.starts_with(|c: char| c.is_ascii_alphanumeric())
        && uid.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

/// Returns an empty problem, without a position.
pub(super) fn problem() -> Problem {
    Problem {
        line: 0,
        column: 0,
        path: String::new(),
        what: String::new(),
        remedy: String::new(),
        object: None,
    }
}
