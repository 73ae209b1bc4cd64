//! Who a pod of a local source is on this node: its name, its UID and the marks of where it came from.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::problem::Problem;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use sha2::{Digest, Sha256};

use crate::desired::SourceKind;
use crate::observed::Timestamp;

/// The annotation that names the source.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// The annotation with the hash of the pod as its source holds it.
pub const HASH: &str = "kubernetes.io/config.hash";
/// The annotation with the time this pod was first seen.
pub const SEEN: &str = "kubernetes.io/config.seen";
/// The annotation of the API's copies of static pods, which nothing here is.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Longest name of a pod; the API's limit.
const NAME_LIMIT: usize = 253;
/// Longest UID: it is part of file names and of the names of containers.
const UID_LIMIT: usize = 128;

/// Makes a pod of a local source one of this node. `known` is the pod that the source held under the same name before: it is
/// returned itself when nothing has changed, so that an unchanged pod stays the same to everyone.
///
/// # Errors
/// A name that gets too long with the node's name, or a UID that cannot be part of a path.
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
            what: format!("on this node the pod is called {name}, {} characters long", name.len()),
            remedy: format!("shorten it by {over}: {NAME_LIMIT} is the most"),
            ..problem()
        }));
    }
    let namespace = pod.metadata.namespace.get_or_insert_with(|| "default".to_owned()).clone();
    let uid = match pod.metadata.uid.take().filter(|uid| !uid.is_empty()) {
        Some(uid) if is_safe(&uid) => uid,
        Some(uid) => {
            return Err(Box::new(Problem {
                path: "metadata.uid".to_owned(),
                what: format!("{uid:?} is no UID"),
                remedy: "use letters, digits, dots and dashes, or leave it out and the node will make one"
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

/// The UID of a pod that was given none: of node, source, namespace and name alone, so that an edit, a reformat or a renamed
/// file is an update of the same pod. It reads as a UUID of version 8, the one for hashes of one's own.
pub fn uid(node: &str, source: SourceKind, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest([node, source.as_str(), namespace, name].join("\0"));
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// What the pod's source says of it, in short.
fn hash(pod: &Pod) -> String {
    // A typed pod always becomes JSON; were one not to, every reading would count as a change of it.
    let text = serde_json::to_vec(pod).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..16])
}

/// Pods of a local source stay whatever befalls the node: nobody else could start them again.
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

/// True for a text that is safe as part of a path and of a container's name.
fn is_safe(uid: &str) -> bool {
    uid.len() <= UID_LIMIT
        && uid.starts_with(|c: char| c.is_ascii_alphanumeric())
        && uid.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

/// A problem that has no place in a text.
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
