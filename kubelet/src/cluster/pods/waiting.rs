//! Pods that wait for referenced objects: which of them have waited long, and when an event reports that. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::reference_cache::{API_SERVICE, Missing};
use super::server_pod;
use crate::observed::PodUid;

/// How long a pod waits before an event reports it. A working API server answers at once.
const FIRST_REPORT: Duration = Duration::from_secs(30);
/// Interval between further reports. The stock kubelet reports volumes that are not mounted as often.
const REPORT_INTERVAL: Duration = Duration::from_secs(120);

/// The waiting pods, each with the time of its next report.
#[derive(Debug, Default)]
pub struct WaitingPods(BTreeMap<PodUid, Instant>);

impl WaitingPods {
    pub fn set_waiting(&mut self, waiting: &BTreeSet<PodUid>, now: Instant) {
        self.0.retain(|uid, _| waiting.contains(uid));
        for uid in waiting {
            self.0.entry(uid.clone()).or_insert(now + FIRST_REPORT);
        }
    }

    /// The time of the next report.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// The pods to report now.
    pub fn due(&mut self, now: Instant) -> Vec<PodUid> {
        let due = self.0.iter_mut().filter(|(_, due)| **due <= now);
        due.map(|(uid, due)| {
            *due = now + REPORT_INTERVAL;
            uid.clone()
        })
        .collect()
    }
}

/// The reason and message of the event for a waiting pod. The reason is that of the stock kubelet: `FailedMount`
/// for volumes, otherwise `Failed`.
pub fn event(pod: &Pod, missing: &[Missing]) -> (&'static str, String) {
    let mut unmounted = serde_json::to_value(pod).unwrap_or_default();
    unmounted["spec"]["volumes"].take();
    let by_containers = server_pod::references(&unmounted);
    let is_for_volumes = |one: &Missing| match one {
        Missing::Object(object, _) => !by_containers.contains(object),
        Missing::Token | Missing::Claim(..) => true,
        Missing::ApiService => false,
    };
    let reason = if missing.iter().any(is_for_volumes) { "FailedMount" } else { "Failed" };
    let named = missing.iter().map(|one| match one {
        Missing::Object(object, why) => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            format!("{} {}/{}{why}", object.kind.resource(), object.namespace, object.name)
        }
        Missing::Token => "a service-account token".to_owned(),
        Missing::Claim(name, why) => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
            format!("persistentvolumeclaims {namespace}/{name}{why}")
        }
        Missing::ApiService => format!("services {}/{}", API_SERVICE.0, API_SERVICE.1),
    });
    let named: Vec<String> = named.collect();
    let text = format!(
        "the pod does not start before the API server answers requests for {}; the kubelet retries",
        named.join(", ")
    );
    (reason, text)
}
