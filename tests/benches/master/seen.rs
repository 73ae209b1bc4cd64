//! Records when a watch first saw each object in the wanted state.

use std::collections::HashMap;
use std::time::Instant;

use http::Method;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::sync::watch;

use crate::client::Way;

/// The time at which a watch first saw each object in the wanted state, by object name.
pub type Moments = HashMap<String, Instant>;

/// The fields of an object that the benchmark reads.
#[derive(Deserialize)]
pub struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Seen {
    /// Whether the object's Ready condition is true.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|one| one.r#type == "Ready" && one.status == "True")
    }

    /// Whether the object is a pod with phase Running.
    pub fn is_running(&self) -> bool {
        self.status.phase == "Running"
    }
}

/// Follows a watch until the returned receiver is dropped. `is_it` says whether an object is in the wanted state.
pub async fn follow(way: &Way, path: &str, is_it: fn(&Seen) -> bool) -> watch::Receiver<Moments> {
    #[derive(Deserialize)]
    struct Event {
        object: Seen,
    }
    let (moments, seen) = watch::channel(Moments::new());
    let mut connection = way.connect().await.unwrap();
    let (code, mut body) = connection.begin(Method::GET, path, "").await.unwrap();
    assert_eq!(code, 200);
    tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            let now = Instant::now();
            rest.extend_from_slice(&data);
            let Some(whole) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let lines: Vec<u8> = rest.drain(..=whole).collect();
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let events = lines.map(|line| serde_json::from_slice::<Event>(line).unwrap().object);
            let found: Vec<String> = events.filter(is_it).map(|seen| seen.metadata.name).collect();
            if !found.is_empty() {
                moments.send_modify(|all| {
                    for name in found {
                        all.entry(name).or_insert(now);
                    }
                });
            }
            if moments.is_closed() {
                return;
            }
        }
        drop(connection);
    });
    seen
}
