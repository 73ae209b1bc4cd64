//! Pods that wait for what they name: which have waited long, and when a person is told of it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::line;
use super::shelf::{API_SERVICE, Missing};
use crate::observed::PodUid;

/// It is told first after so long: a server that works answers at once.
const FIRST: Duration = Duration::from_secs(30);
/// It is told again each time so much later: the stock kubelet says so often that volumes are not there yet.
const AGAIN: Duration = Duration::from_secs(120);

/// Those that wait, each with when that is told next.
#[derive(Debug, Default)]
pub struct Waits(BTreeMap<PodUid, Instant>);

impl Waits {
    /// These wait now, and no others.
    pub fn follow(&mut self, waiting: &BTreeSet<PodUid>, now: Instant) {
        self.0.retain(|uid, _| waiting.contains(uid));
        for uid in waiting {
            self.0.entry(uid.clone()).or_insert(now + FIRST);
        }
    }

    /// When one has to be told of next.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Those that are to be told of now.
    pub fn due(&mut self, now: Instant) -> Vec<PodUid> {
        let due = self.0.iter_mut().filter(|(_, due)| **due <= now);
        due.map(|(uid, due)| {
            *due = now + AGAIN;
            uid.clone()
        })
        .collect()
    }
}

/// The reason and the message of the event that says what a pod waits for, in the words that the stock kubelet has for where it is named.
pub fn words(pod: &Pod, missing: &[Missing]) -> (&'static str, String) {
    let mut unmounted = serde_json::to_value(pod).unwrap_or_default();
    unmounted["spec"]["volumes"].take();
    let by_containers = line::refers(&unmounted);
    let is_for_volumes = |one: &Missing| match one {
        Missing::Object(object, _) => !by_containers.contains(object),
        Missing::Token => true,
        Missing::ApiService => false,
    };
    let reason = if missing.iter().any(is_for_volumes) { "FailedMount" } else { "Failed" };
    let named = missing.iter().map(|one| match one {
        Missing::Object(object, why) => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            format!("{} {}/{}{why}", object.kind.resource(), object.namespace, object.name)
        }
        Missing::Token => "a token of its account".to_owned(),
        Missing::ApiService => format!("services {}/{}", API_SERVICE.0, API_SERVICE.1),
    });
    let named: Vec<String> = named.collect();
    let text = format!(
        "the pod does not begin before the API server says what there is of {}; it is asked again",
        named.join(", ")
    );
    (reason, text)
}
