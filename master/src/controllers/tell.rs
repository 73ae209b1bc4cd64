//! Events by which controllers tell people what they did.

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::{Client, Kind};

/// Where events about what lies in no namespace go.
const OF_CLUSTER: &str = "default";

/// What is told of an object.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// Its namespace, empty where it lies in none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its identity.
    pub uid: &'a str,
    /// Somebody has to look.
    pub is_warning: bool,
    /// A word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
    /// Who tells it.
    pub component: &'a str,
}

/// Tells it. That nobody can be told keeps nobody from going on.
pub async fn tell(client: &Client, told: Told<'_>) {
    let now = Timestamp::now();
    let namespace = if told.namespace.is_empty() { OF_CLUSTER } else { told.namespace };
    if let Err(error) = client.create(&Kind::EVENT, namespace, event(&told, namespace, now)).await {
        tracing::debug!(reason = told.reason, name = told.name, %error, "cannot tell of what was done");
    }
}

fn event(told: &Told<'_>, namespace: &str, now: Timestamp) -> Value {
    let time = seconds(now);
    let mut about = json!({
        "apiVersion": told.kind.api_version(), "kind": told.kind.kind, "name": told.name, "uid": told.uid,
    });
    if !told.namespace.is_empty() {
        about["namespace"] = told.namespace.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        // Another one each time.
        "metadata": {"name": format!("{}.{:x}", told.name, now.as_nanosecond()), "namespace": namespace},
        "involvedObject": about,
        "type": if told.is_warning { "Warning" } else { "Normal" },
        "reason": told.reason,
        "message": told.message,
        "source": {"component": told.component},
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    })
}
