//! Tells the cluster the events of this node and its pods, one after the other; what repeats is counted where it stands.
//!
//! They have been counted and dammed by then (`status::events`). Nothing waits for them: while no master answers the latest are kept.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::patience::{Patience, is_of_its_own, may_be_its_own};
use crate::identity::{Api, Trouble};
use crate::report::{Event, Events};

/// The least time between two: the stock kubelet tells 50 a second.
const BETWEEN: Duration = Duration::from_millis(20);

/// By which UID clients look for events of a pod that is the node's own, where that is another than its own.
pub type KnownAs = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Who tells.
pub struct Poster {
    /// What is to be told.
    pub events: Arc<Events>,
    /// Whom to tell.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// How others know pods.
    pub known_as: KnownAs,
}

impl Poster {
    /// Tells for as long as the kubelet runs.
    pub async fn run(mut self) {
        let mut patience = Patience::new();
        loop {
            let api = self.apis.borrow_and_update().clone();
            let (Some(api), Some(event)) = (api, self.events.first()) else {
                tokio::select! {
                    changed = self.apis.changed() => if changed.is_err() { return },
                    () = self.events.arrived() => {}
                }
                continue;
            };
            match self.tell(&api, &event).await {
                Err(trouble) if !is_of_its_own(&trouble) => {
                    if may_be_its_own(&trouble) {
                        self.events.put_off(&event);
                    }
                    if patience.wait(&trouble, &mut self.apis).await.is_none() {
                        return;
                    }
                }
                told => {
                    if let Err(trouble) = told {
                        // Its namespace is gone, or the role of nodes does not let them.
                        tracing::debug!(%trouble, "an event is not told to the cluster");
                    }
                    patience.is_fine();
                    self.events.told(&event);
                    tokio::time::sleep(BETWEEN).await;
                }
            }
            let lost = self.events.lost();
            if lost > 0 {
                tracing::warn!(
                    events = lost,
                    "the oldest events are not told to the cluster: there were too many to wait"
                );
            }
        }
    }

    /// Tells one: makes it, or counts on where it is there.
    async fn tell(&self, api: &Api, event: &Event) -> Result<(), Trouble> {
        let text =
            |name: &str| event.get("metadata").and_then(|all| all.get(name)?.as_str()).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/events", text("namespace"));
        let place = format!("{path}/{}", text("name"));
        let (made, counted) = (made(event, &self.known_as), counted(event));
        if event.get("count").and_then(Value::as_u64).unwrap_or(1) > 1 {
            match api.patch(&place, &counted).await {
                Err(trouble) if trouble.is_code(404) => {}
                other => return other.map(drop),
            }
        }
        match api.post(&path, &made).await {
            // The answer of before did not come through, or an earlier kubelet told it.
            Err(trouble) if trouble.is_code(409) => api.patch(&place, &counted).await.map(drop),
            other => other.map(drop),
        }
    }
}

/// The whole, as others are to see it.
fn made(event: &Event, known_as: &KnownAs) -> Value {
    let mut made = Value::Object(event.clone());
    if let Some(metadata) = made["metadata"].as_object_mut() {
        metadata.retain(|name, _| name == "name" || name == "namespace");
    }
    let uid = made["involvedObject"]["uid"].as_str().and_then(known_as);
    if let Some(uid) = uid {
        made["involvedObject"]["uid"] = uid.into();
    }
    made
}

/// What changes of one that is there.
fn counted(event: &Event) -> Value {
    let part = |name: &str| event.get(name).cloned().unwrap_or_default();
    json!({"count": part("count"), "lastTimestamp": part("lastTimestamp"), "message": part("message")})
}

#[cfg(test)]
mod tests;
