//! Probes of running containers: one task a probe, verdicts for the pod's worker to plan with.
//!
//! [`Prober::sync`] is told which containers run; each probe then looks at its own pace ([`pace`]), counts what it
//! saw ([`thresholds`]) and wakes the worker when a verdict flips. What a look does is one file a kind.

mod address;
mod check;
mod counted;
mod exec;
mod grpc;
pub mod handler;
mod http;
mod http1;
mod http2;
mod pace;
mod probing;
mod tcp;
mod thresholds;
mod tls;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use self::check::Check;
pub use self::check::Outcome;
use self::counted::Counted;
use self::probing::Probing;
use crate::metrics::Metrics;
use crate::observed::Timestamp;
use crate::observed::probes::{Kind, Verdict, Verdicts};
use crate::report::{About, Outbox};
use crate::runtime::Runtime;

/// All kinds, the one that holds the others back first.
const KINDS: [Kind; 3] = [Kind::Startup, Kind::Readiness, Kind::Liveness];

/// A running container that may have probes.
#[derive(Clone, Debug)]
pub struct Target {
    /// Engine id.
    pub container_id: String,
    /// The name in the pod.
    pub name: String,
    /// When it started.
    pub started_at: Timestamp,
    /// The pod as it is wanted now.
    pub pod: Arc<Pod>,
    /// The pod's address, the host's for a pod on the host's network; probes that need one wait for it.
    pub ip: Option<IpAddr>,
}

/// The probes of one pod, owned by its worker. Make it before the pod's containers start: one that started earlier
/// counts as adopted, and its first looks are spread over a period.
pub struct Prober {
    shared: Arc<Shared>,
    born_at: Timestamp,
    containers: BTreeMap<String, Probed>,
    counted: Counted,
    ending: bool,
}

/// What the tasks of one pod have in common.
struct Shared {
    runtime: Arc<dyn Runtime>,
    outbox: Arc<Outbox>,
    metrics: Arc<Metrics>,
    changed: Arc<Notify>,
    verdicts: Mutex<Verdicts>,
}

/// One container and the probes that run on it.
struct Probed {
    target: Target,
    /// Whether its startup probe has passed, or there is none.
    started: watch::Sender<bool>,
    probes: BTreeMap<Kind, Task>,
}

/// A probe's task, which ends with this value.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Prober {
    /// A prober without targets. `changed` is notified whenever a verdict flips.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        outbox: Arc<Outbox>,
        metrics: Arc<Metrics>,
        changed: Arc<Notify>,
    ) -> Self {
        let shared = Shared { runtime, outbox, metrics, changed, verdicts: Mutex::default() };
        Self {
            shared: Arc::new(shared),
            born_at: Timestamp::now(),
            containers: BTreeMap::new(),
            counted: Counted::default(),
            ending: false,
        }
    }

    /// Probes exactly these running containers from now on, by the probes their pods ask for now. A probe whose
    /// settings did not change goes on undisturbed; one that was edited starts anew and keeps its verdict.
    pub fn sync(&mut self, targets: &[Target]) {
        let ids: Vec<&str> = targets.iter().map(|target| target.container_id.as_str()).collect();
        self.containers.retain(|id, _| ids.contains(&id.as_str()));
        self.shared.verdicts().keep(&ids);
        for target in targets {
            self.sync_one(target);
        }
    }

    /// The pod is being ended: from now on only readiness is probed, nothing gets restarted any more.
    pub fn end(&mut self) {
        self.ending = true;
        for probed in self.containers.values_mut() {
            probed.probes.retain(|kind, _| *kind == Kind::Readiness);
        }
    }

    /// The standing verdicts.
    pub fn verdicts(&self) -> Verdicts {
        self.shared.verdicts().clone()
    }

    /// Takes over verdicts written down before a restart of the kubelet; each stands until a probe says otherwise.
    pub fn restore(&mut self, verdicts: Verdicts) {
        *self.shared.verdicts() = verdicts;
    }

    fn sync_one(&mut self, target: &Target) {
        let Some(container) = container(&target.pod, &target.name) else { return };
        let id = target.container_id.as_str();
        if !self.containers.contains_key(id) {
            let passed = self.shared.stands(id, Kind::Startup) == Some(true);
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
            let probing = Probing {
                shared: self.shared.clone(),
                kind,
                container_id: id.to_owned(),
                counted: self.counted.of(&self.shared.metrics, target, kind),
                about: About::container(&target.pod, &target.name),
                check,
                settings: probing::Settings::of(probe),
                started_at: target.started_at,
                adopted: target.started_at < self.born_at,
                started: probed.started.clone(),
            };
            probed.probes.insert(kind, Task(tokio::spawn(probing.run()).abort_handle()));
        }
        probed.target = target.clone();
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.counted.forget(&self.shared.metrics);
    }
}

impl Shared {
    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stands(&self, container_id: &str, kind: Kind) -> Option<bool> {
        self.verdicts().get(container_id, kind).map(|verdict| verdict.success)
    }

    /// Puts a verdict down and wakes the worker when it flips; `since` stays when it does not.
    fn decide(&self, container_id: &str, kind: Kind, mut verdict: Verdict) {
        let mut verdicts = self.verdicts();
        if let Some(old) = verdicts.get(container_id, kind)
            && old.success == verdict.success
        {
            if old.message == verdict.message {
                return;
            }
            verdict.since = old.since;
        }
        let flipped = verdicts.set(container_id, kind, verdict);
        drop(verdicts);
        if flipped {
            self.changed.notify_one();
        }
    }
}

/// True when that probe has nothing left to find out about this container: it has started, or must be restarted.
fn is_decided(shared: &Shared, probed: &Probed, kind: Kind) -> bool {
    let stands = shared.stands(&probed.target.container_id, kind);
    match kind {
        Kind::Startup => *probed.started.borrow() || stands.is_some(),
        Kind::Liveness => stands == Some(false),
        Kind::Readiness => false,
    }
}

/// True when both say the same about that probe of the container.
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

/// The kind as events and metrics write it.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Startup => "Startup",
        Kind::Readiness => "Readiness",
        Kind::Liveness => "Liveness",
    }
}

/// The container of that name, sidecars included.
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
