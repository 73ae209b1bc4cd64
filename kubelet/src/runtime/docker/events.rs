//! Subscribes to the engine's event stream, and converts each event to "inspect this container".

use std::collections::HashMap;
use std::time::SystemTime;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Deserialize;

use super::Docker;
use super::stream::{self, lines};
use crate::observed::PodUid;
use crate::runtime::{Error, Event, labels};

/// Actions that change a container without a request of the kubelet. Exec and health-check events are excluded,
/// because there can be thousands per second. Creations are excluded because the kubelet knows its own.
const ACTIONS: [&str; 6] = ["start", "die", "oom", "pause", "unpause", "destroy"];

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "Action")]
    action: String,
    #[serde(rename = "Actor")]
    actor: Actor,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Attributes", default)]
    attributes: HashMap<String, String>,
}

pub(super) async fn events(docker: &Docker) -> Result<BoxStream<'static, Result<Event, Error>>, Error> {
    const OPERATION: &str = "follow events";
    let mut filters = docker.node_filter();
    filters.insert("type".to_owned(), vec!["container".to_owned()]);
    filters.insert("event".to_owned(), ACTIONS.map(str::to_owned).to_vec());
    // The engine answers before it has subscribed the client; `since` includes the events in between.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let filters = serde_json::to_string(&filters).unwrap_or_default();
    let since = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
    let path = stream::query("/events", &[("since", &since), ("filters", &filters)]);
    let body = stream::get(docker, OPERATION, "events", &path).await?;
    let events = lines(body, OPERATION).filter_map(|line| {
        std::future::ready(match line {
            Ok(line) => event(&line).map(Ok),
            Err(error) => Some(Err(error)),
        })
    });
    Ok(events.boxed())
}

fn event(line: &[u8]) -> Option<Event> {
    let Line { action, actor } = serde_json::from_slice(line).ok()?;
    let uid = PodUid::new(actor.attributes.get(labels::POD_UID)?);
    Some(Event { id: actor.id, uid, removed: action == "destroy" })
}

#[cfg(test)]
mod tests {
    //! Tests of events of a real engine.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_event_names_the_container_and_its_pod() {
        let line = br#"{"status":"die","id":"abc","from":"busybox","Type":"container","Action":"die","Actor":{"ID":"abc",
        "Attributes":{"exitCode":"0","io.kubernetes.pod.uid":"u1","name":"k8s_app"}},"scope":"local","time":1}"#;
        assert_eq!(event(line), Some(Event { id: "abc".to_owned(), uid: PodUid::new("u1"), removed: false }));
        let line =
            br#"{"Action":"destroy","Actor":{"ID":"abc","Attributes":{"io.kubernetes.pod.uid":"u1"}}}"#;
        assert!(event(line).unwrap().removed);
    }

    #[test]
    fn events_of_foreign_containers_are_ignored() {
        assert_eq!(event(br#"{"Action":"die","Actor":{"ID":"abc","Attributes":{"name":"x"}}}"#), None);
        assert_eq!(event(b"not json"), None);
    }
}
