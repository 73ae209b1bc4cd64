//! Builds Pod objects of the local API.

use apiserver::watch_cache::{Object, Scope, WatchCache};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::resources::PODS;
use crate::observed::PodUid;

/// Annotation with the time at which the pod was first seen.
const SEEN: &str = "kubernetes.io/config.seen";
/// Annotation with the source of a pod.
const SOURCE: &str = "kubernetes.io/config.source";
/// The source of pushed pods.
const PUSH: &str = "push";

/// Creates the Pod object.
///
/// `created` is the creation timestamp of the pod's first appearance. Without it and without one of its own, the
/// pod gets the time when it was first seen, or its start time.
pub fn object(
    pod: &Pod,
    status: &PodStatus,
    deletion: Option<(Timestamp, i64)>,
    created: Option<String>,
    now: Timestamp,
) -> Map<String, Value> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(pod) else { return Map::new() };
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        if pod.metadata.creation_timestamp.is_none() {
            let started = || status.start_time.as_ref().map(|time| time.0);
            let created = created.unwrap_or_else(|| rfc3339(seen(pod).or_else(started).unwrap_or(now)));
            metadata.insert("creationTimestamp".to_owned(), created.into());
        }
        if let Some((began, grace_seconds)) = deletion {
            let ends = began.checked_add(SignedDuration::from_secs(grace_seconds)).unwrap_or(Timestamp::MAX);
            metadata.insert("deletionTimestamp".to_owned(), rfc3339(ends).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
        }
    }
    if let Ok(status) = serde_json::to_value(status) {
        object.insert("status".to_owned(), status);
    }
    object
}

/// When the pod was first seen. It survives restarts, even for rejected pods.
fn seen(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotations.as_ref()?.get(SEEN)?.parse().ok()
}

/// Formats a timestamp as Kubernetes does: whole seconds, UTC.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Finds a pod by UID. It first looks under the name in the metadata.
pub fn find(store: &WatchCache, uid: &PodUid, metadata: &ObjectMeta) -> Option<Object> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    store
        .get(PODS, namespace, name)
        .filter(|object| object.uid() == uid.as_str())
        .or_else(|| find_by_uid(store, uid))
}

/// Finds a pod by UID under any name.
pub fn find_by_uid(store: &WatchCache, uid: &PodUid) -> Option<Object> {
    let listing = store.list(PODS, &Scope::All);
    listing.objects.into_iter().find(|object| object.uid() == uid.as_str())
}

pub fn creation_timestamp(object: &Object) -> Option<String> {
    let object = object.decode();
    object.get("metadata")?.get("creationTimestamp")?.as_str().map(str::to_owned)
}

/// Whether a pod was pushed to this node.
pub fn is_of_push(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(SOURCE)).is_some_and(|source| source == PUSH)
}

/// A text of the metadata, empty if absent.
pub fn metadata_text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let metadata = object.get("metadata").and_then(|metadata| metadata.get(field));
    metadata.and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object has the same namespace and name as a stored one.
pub fn same_place(shown: &Object, object: &Map<String, Value>) -> bool {
    let text = |name: &str| metadata_text(object, name);
    (shown.namespace(), shown.name()) == (text("namespace"), text("name"))
}
