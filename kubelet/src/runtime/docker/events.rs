//! The engine's stream of events, reduced to "look at this container again".

use std::collections::HashMap;
use std::time::SystemTime;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Deserialize;

use super::Docker;
use super::stream::{self, lines};
use crate::observed::PodUid;
use crate::runtime::{Error, Event, labels};

/// What changes a container behind our back. The engine tells of every exec and health check as well, which on a node
/// with many exec probes is thousands of lines a second: it is asked to keep those. Who creates one knows it.
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
    // The engine answers a moment before it subscribes us; with a time it also sends what happened in between.
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
mod tests;
