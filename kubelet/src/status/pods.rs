//! A pod and its status, made one object.

use apiserver::store::{Memory, Object, Scope};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::resources::PODS;
use crate::observed::PodUid;

/// The annotation with the time at which a source first had the pod.
const SEEN: &str = "kubernetes.io/config.seen";

/// The object that is shown.
///
/// `created` is when it was first shown; without it a pod that bears no time of its own is as old as what its source has of
/// it, or as its start.
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

/// When its source first had it, which outlives a restart whether the pod runs or is rejected.
fn seen(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotations.as_ref()?.get(SEEN)?.parse().ok()
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The pod with that UID as it is shown now; most often it stands where its metadata says.
pub fn find(store: &Memory, uid: &PodUid, metadata: &ObjectMeta) -> Option<Object> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    store
        .get(PODS, namespace, name)
        .filter(|object| object.uid() == uid.as_str())
        .or_else(|| find_by_uid(store, uid))
}

/// The pod with that UID, wherever it stands.
pub fn find_by_uid(store: &Memory, uid: &PodUid) -> Option<Object> {
    let listing = store.list(PODS, &Scope::All);
    listing.objects.into_iter().find(|object| object.uid() == uid.as_str())
}

/// When the object says it was made.
pub fn creation_timestamp(object: &Object) -> Option<String> {
    let object = object.decode();
    object.get("metadata")?.get("creationTimestamp")?.as_str().map(str::to_owned)
}

/// True when an object would be written where the other one stands.
pub fn same_place(shown: &Object, object: &Map<String, Value>) -> bool {
    let text = |name: &str| {
        object.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    (shown.namespace(), shown.name()) == (text("namespace"), text("name"))
}
