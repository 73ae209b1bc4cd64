//! Ends the condition `DisruptionTarget` of pods that were not deleted, for example because the component that set it
//! failed. Otherwise a Job would not count a later failure of such a pod.

use std::time::Duration;

use api::time::seconds;
use client::{Client, Error, Kind};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::controllers::fields::DISRUPTION_TARGET;
use crate::controllers::object::Object;
use crate::controllers::rate_limited_queue::Action;

/// Time in which a pod with the condition must be deleted, as in stock Kubernetes.
const STALE_AFTER: Duration = Duration::from_secs(2 * 60);
/// Prefix of queue keys of pods. Keys of budgets start with a namespace, which contains no colon.
const PREFIX: &str = "pod:";

/// Returns the queue key of a pod with the condition.
pub fn key_of(pod: &Object) -> Option<String> {
    pod.pod().disruption_start.map(|_| format!("{PREFIX}{}", pod.key()))
}

/// Returns namespace and name of the pod of a queue key, or `None` for the key of a budget.
pub fn pod_of(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('/')
}

/// Sets the condition to false if it is stale.
///
/// # Errors
/// If the API server rejects the change.
pub async fn reconcile(client: &Client, pod: &Object, now: Timestamp) -> Result<Action, Error> {
    let Some(start) = stale_since(pod) else { return Ok(Action::AwaitChange) };
    let age = now.duration_since(start);
    let left = SignedDuration::try_from(STALE_AFTER).unwrap_or(SignedDuration::ZERO) - age;
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => return Ok(Action::RequeueAfter(left)),
        _ => {}
    }
    let condition = json!({
        "type": DISRUPTION_TARGET, "status": "False", "reason": null, "message": null,
        "lastTransitionTime": seconds(now),
    });
    // The version, because the pod may be deleted or disrupted again meanwhile.
    let metadata = json!({"uid": pod.uid, "resourceVersion": pod.resource_version});
    let patch = json!({"metadata": metadata, "status": {"conditions": [condition]}});
    client.patch_subresource(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await?;
    Ok(Action::AwaitChange)
}

/// Returns the start of the condition, unless the pod is being deleted or has ended.
fn stale_since(pod: &Object) -> Option<Timestamp> {
    pod.pod().disruption_start.filter(|_| !pod.is_terminating && !pod.pod().is_terminal())
}
