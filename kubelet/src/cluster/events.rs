//! Posts the events of this node and its pods to the API server, one after the other.
//!
//! For a repeated event, the kubelet updates the count of the existing object. `status::events` has already
//! deduplicated and rate-limited the events. While no API server answers, only the latest version of each event is
//! queued.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::backoff::{Backoff, is_request_error, may_be_request_error};
use crate::identity::{Api, ApiError};
use crate::report::{Event, Events};

/// Shortest time between two posts. The stock kubelet posts 50 events a second.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// Maps a pod's UID to the UID under which clients look for its events. For a static pod, that is the hash of its
/// manifest.
pub type KnownUid = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The task that posts events.
pub struct EventPoster {
    /// The queue of events to post.
    pub events: Arc<Events>,
    /// The client of the API server, or `None` while there is none.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// Maps the UIDs of static pods.
    pub known_uid: KnownUid,
}

impl EventPoster {
    /// Posts events until the kubelet stops.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            let api = self.apis.borrow_and_update().clone();
            let (Some(api), Some(event)) = (api, self.events.first()) else {
                tokio::select! {
                    changed = self.apis.changed() => if changed.is_err() { return },
                    () = self.events.arrived() => {}
                }
                continue;
            };
            match self.post(&api, &event).await {
                Err(error) if !is_request_error(&error) => {
                    if may_be_request_error(&error) {
                        self.events.requeue(&event);
                    }
                    if backoff.wait(&error, &mut self.apis).await.is_none() {
                        return;
                    }
                }
                posted => {
                    if let Err(error) = posted {
                        // The namespace was deleted, or the role of nodes does not allow the event.
                        tracing::debug!(%error, "cannot post an event to the API server");
                    }
                    backoff.reset();
                    self.events.remove_posted(&event);
                    tokio::time::sleep(MIN_INTERVAL).await;
                }
            }
            let lost = self.events.lost();
            if lost > 0 {
                tracing::warn!(
                    events = lost,
                    "dropped the oldest events: the queue for the API server is full"
                );
            }
        }
    }

    /// Posts one event. Creates it, or updates its count if it exists.
    async fn post(&self, api: &Api, event: &Event) -> Result<(), ApiError> {
        let text =
            |name: &str| event.get("metadata").and_then(|all| all.get(name)?.as_str()).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/events", text("namespace"));
        let event_path = format!("{path}/{}", text("name"));
        let (new_event, count_patch) = (new_event(event, &self.known_uid), count_patch(event));
        if event.get("count").and_then(Value::as_u64).unwrap_or(1) > 1 {
            match api.patch(&event_path, &count_patch).await {
                Err(error) if error.has_code(404) => {}
                other => return other.map(drop),
            }
        }
        match api.post(&path, &new_event).await {
            // The response to an earlier request was lost, or an earlier kubelet created the event.
            Err(error) if error.has_code(409) => api.patch(&event_path, &count_patch).await.map(drop),
            other => other.map(drop),
        }
    }
}

/// The Event object to create.
fn new_event(event: &Event, known_uid: &KnownUid) -> Value {
    let mut new_event = Value::Object(event.clone());
    if let Some(metadata) = new_event["metadata"].as_object_mut() {
        metadata.retain(|name, _| name == "name" || name == "namespace");
    }
    let uid = new_event["involvedObject"]["uid"].as_str().and_then(known_uid);
    if let Some(uid) = uid {
        new_event["involvedObject"]["uid"] = uid.into();
    }
    new_event
}

/// The patch that updates the count, time and message of an existing event.
fn count_patch(event: &Event) -> Value {
    let part = |name: &str| event.get(name).cloned().unwrap_or_default();
    json!({"count": part("count"), "lastTimestamp": part("lastTimestamp"), "message": part("message")})
}

#[cfg(test)]
mod tests;
