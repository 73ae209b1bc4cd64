//! Container probes: one task per probe, with results for the pod worker.
//!
//! [`Prober::sync`] receives the running containers. Each probe task follows its [`schedule`] and counts results
//! against its [`worker::Thresholds`]. It wakes the pod worker when its result changes. Each kind of action has its
//! own file.

mod address;
mod check;
mod exec;
mod grpc;
pub mod handler;
mod http;
mod http1;
mod http2;
mod probe_metrics;
mod schedule;
mod tls;
mod worker;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apiserver::tasks::OwnedTask;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use tokio::sync::{Notify, watch};

use self::check::Check;
pub use self::check::Outcome;
use self::probe_metrics::ProbeMetrics;
use self::worker::ProbeWorker;
use crate::metrics::Metrics;
use crate::observed::Timestamp;
use crate::observed::probes::{Kind, ProbeResult, ProbeResults};
use crate::report::{About, Outbox};
use crate::runtime::Runtime;

/// All probe types. The startup probe is the first, because the others wait for it.
const KINDS: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

/// A running container that may have probes.
#[derive(Clone, Debug)]
pub struct Target {
    /// Engine id.
    pub container_id: String,
    /// The name of the container in the pod.
    pub name: String,
    /// Start time of the container.
    pub started_at: Timestamp,
    /// The desired pod.
    pub pod: Arc<Pod>,
    /// The pod IP, or the node IP with host network. Probes that need it wait for it.
    pub ip: Option<IpAddr>,
}

/// The probes of one pod, owned by its worker. The worker creates it before containers start. A container that
/// started earlier counts as adopted, and its first attempts are spread over a period.
pub struct Prober {
    shared: Arc<Shared>,
    born_at: Timestamp,
    containers: BTreeMap<String, Probed>,
    probe_metrics: ProbeMetrics,
    ending: bool,
}

/// State shared by the probe tasks of a pod.
struct Shared {
    runtime: Arc<dyn Runtime>,
    outbox: Arc<Outbox>,
    metrics: Arc<Metrics>,
    changed: Arc<Notify>,
    probe_results: Mutex<ProbeResults>,
}

/// A container and its probe tasks.
struct Probed {
    target: Target,
    /// Whether the startup probe has succeeded or does not exist.
    started: watch::Sender<bool>,
    probes: BTreeMap<Kind, OwnedTask>,
}

impl Prober {
    /// Creates a prober without containers. `changed` is notified when a probe result changes.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        outbox: Arc<Outbox>,
        metrics: Arc<Metrics>,
        changed: Arc<Notify>,
    ) -> Self {
        let shared = Shared { runtime, outbox, metrics, changed, probe_results: Mutex::default() };
        Self {
            shared: Arc::new(shared),
            born_at: Timestamp::now(),
            containers: BTreeMap::new(),
            probe_metrics: ProbeMetrics::default(),
            ending: false,
        }
    }

    /// Sets the containers to probe, with the probes of their desired pods. An unchanged probe continues. An edited
    /// one restarts and keeps its result.
    pub fn sync(&mut self, targets: &[Target]) {
        let ids: Vec<&str> = targets.iter().map(|target| target.container_id.as_str()).collect();
        self.containers.retain(|id, _| ids.contains(&id.as_str()));
        self.shared.probe_results().keep(&ids);
        for target in targets {
            self.sync_one(target);
        }
    }

    /// Keeps only readiness probes, because containers of a terminating pod are not restarted.
    pub fn end(&mut self) {
        self.ending = true;
        for probed in self.containers.values_mut() {
            probed.probes.retain(|kind, _| *kind == Kind::Readiness);
        }
    }

    /// The current probe results.
    pub fn probe_results(&self) -> ProbeResults {
        self.shared.probe_results().clone()
    }

    /// Restores results from a checkpoint. Each stays until its probe has another result.
    pub fn restore(&mut self, probe_results: ProbeResults) {
        *self.shared.probe_results() = probe_results;
    }

    fn sync_one(&mut self, target: &Target) {
        let Some(container) = container(&target.pod, &target.name) else { return };
        let id = target.container_id.as_str();
        if !self.containers.contains_key(id) {
            let passed = self.shared.current(id, Kind::Startup) == Some(true);
            let started = watch::Sender::new(passed || container.startup_probe.is_none());
            let probed = Probed { target: target.clone(), started, probes: BTreeMap::new() };
            self.containers.insert(id.to_owned(), probed);
        }
        let Some(probed) = self.containers.get_mut(id) else { return };
        if container.startup_probe.is_none() {
            probed.started.send_replace(true);
        }
        for kind in KINDS {
            let Some(probe) = probe(container, kind) else {
                probed.probes.remove(&kind);
                continue;
            };
            if probed.probes.contains_key(&kind) && same_settings(&probed.target, target, kind) {
                continue;
            }
            probed.probes.remove(&kind);
            if self.ending && kind != Kind::Readiness || is_decided(&self.shared, probed, kind) {
                continue;
            }
            let Some(check) = Check::prepare(probe, container, target.ip) else { continue };
            let worker = ProbeWorker {
                shared: self.shared.clone(),
                kind,
                container_id: id.to_owned(),
                probe_metrics: self.probe_metrics.of(&self.shared.metrics, target, kind),
                about: About::container(&target.pod, &target.name),
                check,
                settings: worker::Settings::of(probe),
                started_at: target.started_at,
                adopted: target.started_at < self.born_at,
                started: probed.started.clone(),
            };
            probed.probes.insert(kind, OwnedTask::spawn(worker.run()));
        }
        probed.target = target.clone();
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.probe_metrics.forget(&self.shared.metrics);
    }
}

impl Shared {
    fn probe_results(&self) -> MutexGuard<'_, ProbeResults> {
        self.probe_results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self, container_id: &str, kind: Kind) -> Option<bool> {
        self.probe_results().get(container_id, kind).map(|probe_result| probe_result.success)
    }

    /// Stores a result, and wakes the worker if it changed. An unchanged result keeps its `since`.
    fn decide(&self, container_id: &str, kind: Kind, mut probe_result: ProbeResult) {
        let mut probe_results = self.probe_results();
        if let Some(old) = probe_results.get(container_id, kind)
            && old.success == probe_result.success
        {
            if old.message == probe_result.message {
                return;
            }
            probe_result.since = old.since;
        }
        let flipped = probe_results.set(container_id, kind, probe_result);
        drop(probe_results);
        if flipped {
            self.changed.notify_one();
        }
    }
}

/// Whether the result of the probe is final for this run of the container.
fn is_decided(shared: &Shared, probed: &Probed, kind: Kind) -> bool {
    let current = shared.current(&probed.target.container_id, kind);
    match kind {
        Kind::Startup => *probed.started.borrow() || current.is_some(),
        Kind::Liveness => current == Some(false),
        Kind::Readiness => false,
    }
}

/// Whether both targets have the same settings for this probe.
fn same_settings(old: &Target, new: &Target, kind: Kind) -> bool {
    if old.ip != new.ip {
        return false;
    }
    if Arc::ptr_eq(&old.pod, &new.pod) {
        return true;
    }
    let settings = |target: &Target| {
        container(&target.pod, &target.name)
            .map(|c| (probe(c, kind).cloned(), c.ports.clone(), c.env.clone()))
    };
    settings(old) == settings(new)
}

/// The name of the probe type in events and metrics.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Startup => "Startup",
        Kind::Readiness => "Readiness",
        Kind::Liveness => "Liveness",
    }
}

/// The container or sidecar of this name.
fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|c| c.name == name)
}

fn probe(container: &Container, kind: Kind) -> Option<&Probe> {
    match kind {
        Kind::Startup => container.startup_probe.as_ref(),
        Kind::Readiness => container.readiness_probe.as_ref(),
        Kind::Liveness => container.liveness_probe.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of container probes against test servers.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod bed;
    mod exec;
    mod grpc;
    mod hooks;
    mod http;
    mod life;
    mod pure;
}
