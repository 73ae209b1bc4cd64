//! Metric series of a pod's probes. They survive container restarts and end with the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{Target, name};
use crate::metrics::{Metrics, Probe, ProbeCounters};
use crate::observed::probes::Kind;

/// The counters of all probes of the pod, by container and probe type.
#[derive(Default)]
pub(super) struct ProbeMetrics(BTreeMap<(String, Kind), (Arc<Pod>, ProbeCounters)>);

impl ProbeMetrics {
    pub fn of(&mut self, metrics: &Metrics, target: &Target, kind: Kind) -> ProbeCounters {
        let probe = self.0.entry((target.name.clone(), kind)).or_insert_with(|| {
            let counters = with_names(&target.pod, &target.name, kind, |probe| metrics.probe(probe));
            (target.pod.clone(), counters)
        });
        probe.1.clone()
    }

    /// Removes all series from the registry.
    pub fn forget(&self, metrics: &Metrics) {
        for ((container, kind), (pod, _)) in &self.0 {
            with_names(pod, container, *kind, |probe| metrics.forget_probe(probe));
        }
    }
}

fn with_names<T>(pod: &Pod, container: &str, kind: Kind, then: impl FnOnce(&Probe<'_>) -> T) -> T {
    let meta = &pod.metadata;
    let word = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    then(&Probe {
        kind: name(kind),
        namespace: &word(&meta.namespace),
        pod: &word(&meta.name),
        uid: &word(&meta.uid),
        container,
    })
}
