//! The event recorder: writes Events about what controllers do.

use api::time::seconds;
use client::{Client, Error, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// An event about an object.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The namespace of the object; empty if it is cluster-scoped.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The UID of the object.
    pub uid: &'a str,
    /// Whether the event type is `Warning`, not `Normal`.
    pub is_warning: bool,
    /// The event reason, in CamelCase.
    pub reason: &'a str,
    /// The message, one sentence.
    pub message: &'a str,
    /// The reporting component.
    pub component: &'a str,
}

/// Records an event. If that fails, the failure is only logged.
pub async fn record_event(client: &Client, new: NewEvent<'_>) {
    let (reason, name) = (new.reason, new.name);
    if let Err(error) = create_event(client, new).await {
        tracing::debug!(reason, name, %error, "cannot record an event");
    }
}

/// Creates an event.
///
/// # Errors
/// If it may not exist. The caller can create it again, under another name.
pub async fn create_event(client: &Client, new: NewEvent<'_>) -> Result<(), Error> {
    let now = Timestamp::now();
    let namespace = if new.namespace.is_empty() { DEFAULT_NAMESPACE } else { new.namespace };
    client.create(&Kind::EVENT, namespace, event(&new, namespace, now)).await?;
    Ok(())
}

fn event(new: &NewEvent<'_>, namespace: &str, now: Timestamp) -> Value {
    let time = seconds(now);
    let mut involved = json!({
        "apiVersion": new.kind.api_version(), "kind": new.kind.kind, "name": new.name, "uid": new.uid,
    });
    if !new.namespace.is_empty() {
        involved["namespace"] = new.namespace.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        // The time makes each name unique.
        "metadata": {"name": format!("{}.{:x}", new.name, now.as_nanosecond()), "namespace": namespace},
        "involvedObject": involved,
        "type": if new.is_warning { "Warning" } else { "Normal" },
        "reason": new.reason,
        "message": new.message,
        "source": {"component": new.component},
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    })
}
