//! Services of a lone node: assigns cluster IPs and node ports, computes endpoints from the pods of this node, and
//! publishes both for the service proxy, the DNS server and the API of the node.
//!
//! In a cluster, the API server does this instead, and `cluster::services` follows it.

mod endpoints;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::strategy::Json;
use apiserver::admission::ServiceIpAllocator;
use apiserver::watch_cache::{Scope, WatchCache};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use self::endpoints::{Candidate, slices_of};
use crate::cluster::services::{ServiceName, ServiceSnapshot, ServicesFile};
use crate::desired::{Completeness, Desired};
use crate::observed::PodUid;
use crate::report::{About, Outbox, Severity};
use crate::status::{StatusManager, resources};

/// Shortest time between two reconciliations. It bounds the CPU time when pods change constantly.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// What the Services of a lone node depend on.
pub struct LocalServices {
    /// The node's name.
    pub node: String,
    /// The root directory. The last Services are stored there.
    pub root_dir: PathBuf,
    /// Assigns cluster IPs and node ports.
    pub allocator: Arc<ServiceIpAllocator>,
    /// The pods and the Services of all sources.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Shows the objects in the API of the node, and has the status of pods.
    pub status_manager: Arc<StatusManager>,
    /// Receives the Services.
    pub sender: watch::Sender<Arc<ServiceSnapshot>>,
    /// Whether the service proxy of this node uses them.
    pub is_served: bool,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
}

impl LocalServices {
    /// Publishes the Services after each change, until the kubelet stops.
    pub async fn run(mut self) {
        let file = ServicesFile::under(&self.root_dir);
        let stored = file.read().await.unwrap_or_default();
        let sender = self.sender.clone();
        let mut state = State { stored, ..State::default() };
        let write = file.write(sender.subscribe());
        tokio::select! {
            () = write => {}
            () = self.follow(&mut state, &sender) => {}
        }
    }

    async fn follow(&mut self, state: &mut State, sender: &watch::Sender<Arc<ServiceSnapshot>>) {
        let cache = self.status_manager.store().clone();
        loop {
            // The watches begin before the computation, so that no change is missed.
            let watch = |resource: &str| cache.watch(resource, Scope::All, cache.revision()).ok();
            let (mut pods, mut services) = (watch(resources::PODS), watch(resources::SERVICES));
            let desired = self.desired.borrow_and_update().clone();
            if desired.completeness == Completeness::Complete
                && let Some(snapshot) = self.reconcile(&desired, state)
                && **sender.borrow() != snapshot
            {
                sender.send_replace(Arc::new(snapshot));
            }
            tokio::time::sleep(MIN_INTERVAL).await;
            tokio::select! {
                changed = self.desired.changed() => if changed.is_err() { return },
                () = changed(&mut pods) => {}
                () = changed(&mut services) => {}
            }
        }
    }

    /// Publishes the Services and their EndpointSlices in the API of the node. Returns the snapshot for the service
    /// proxy and the DNS server. `None` if an object cannot be converted.
    fn reconcile(&self, desired: &Desired, state: &mut State) -> Option<ServiceSnapshot> {
        let now = Timestamp::now();
        let manifests = self.complete_manifests(desired, state);
        if state.shown_services != manifests {
            self.status_manager.set(resources::SERVICES, manifests.iter(), now);
            state.shown_services = manifests;
        }
        let cache = self.status_manager.store();
        let services: Vec<Service> = all(cache, resources::SERVICES);
        self.report_unserved(&services, state);
        let pods: Vec<Pod> = if services.iter().any(endpoints::has_selector) {
            all(cache, resources::PODS)
        } else {
            Vec::new()
        };
        let is_desired = |pod: &Pod| {
            let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
            desired.pods.contains_key(&uid)
        };
        let candidates: Vec<Candidate<'_>> =
            pods.iter().map(|pod| Candidate { pod, is_desired: is_desired(pod) }).collect();
        let slices: Vec<EndpointSlice> =
            services.iter().flat_map(|service| slices_of(service, &candidates, &self.node)).collect();
        if state.shown_slices != slices {
            self.status_manager.set(resources::ENDPOINT_SLICES, slices.iter(), now);
            state.shown_slices.clone_from(&slices);
        }
        let objects = services.iter().map(json).collect::<Option<Vec<_>>>()?;
        let slices = slices.iter().map(json).collect::<Option<Vec<_>>>()?;
        ServiceSnapshot::of_objects(objects, slices)
    }

    /// The Services of files and URLs with all assigned values. Values of the last snapshot are kept.
    fn complete_manifests(&self, desired: &Desired, state: &mut State) -> Vec<Service> {
        let services = desired.references.services.iter();
        let services = services.filter(|(key, _)| desired.is_of_manifest("Service", key));
        // Services that already have an address come first, so that no new one takes it.
        let before = |namespace: &str, name: &str| {
            let known = state.shown_services.iter().find(|known| {
                known.metadata.namespace.as_deref() == Some(namespace)
                    && known.metadata.name.as_deref() == Some(name)
            });
            known.and_then(json).and_then(object).or_else(|| stored_object(&state.stored, namespace, name))
        };
        let mut found: Vec<_> = services
            .map(|((namespace, name), service)| (before(namespace, name), namespace, name, service))
            .collect();
        found.sort_by_key(|(before, namespace, name, _)| (before.is_none(), *namespace, *name));
        let mut complete = Vec::new();
        let mut failed = BTreeMap::new();
        for (before, namespace, name, service) in found {
            let Some(mut service) = json(&**service).and_then(object) else { continue };
            let assigned = self.allocator.assign(namespace, name, &mut service, before.as_ref());
            match assigned {
                Ok(()) => complete.extend(serde_json::from_value::<Service>(Value::Object(service)).ok()),
                Err((field, why)) => {
                    let text = format!("the Service {namespace}/{name} does not work: {field}: {why}");
                    failed.insert(format!("{namespace}/{name}"), text);
                }
            }
        }
        complete.sort_by(|a, b| {
            let key = |one: &Service| (one.metadata.namespace.clone(), one.metadata.name.clone());
            key(a).cmp(&key(b))
        });
        for (name, text) in &failed {
            if state.failed.get(name) != Some(text) {
                self.warn("ServiceNotAssigned", text.clone());
            }
        }
        state.failed = failed;
        complete
    }

    /// Reports once that Services exist, but this node does not serve them.
    fn report_unserved(&self, services: &[Service], state: &mut State) {
        if self.is_served || services.is_empty() || state.is_unserved_reported {
            return;
        }
        state.is_unserved_reported = true;
        let text = "Services of this node do not work: they need the native pod network (--pod-network native) and the \
                    service proxy of the kubelet (--service-proxy nftables)";
        self.warn("ServicesNotServed", text.to_owned());
    }

    fn warn(&self, reason: &'static str, text: String) {
        self.outbox.note(About::node(&self.node), Severity::Warning, reason, text);
    }
}

/// What was shown and reported.
#[derive(Default)]
struct State {
    /// The Services of the previous kubelet process.
    stored: ServiceSnapshot,
    shown_services: Vec<Service>,
    shown_slices: Vec<EndpointSlice>,
    /// Why Services could not be completed, by namespace and name.
    failed: BTreeMap<String, String>,
    is_unserved_reported: bool,
}

/// The addresses and node ports that a Service had in the previous kubelet process.
fn stored_object(stored: &ServiceSnapshot, namespace: &str, name: &str) -> Option<Json> {
    let service = stored.services.get(&ServiceName::new(namespace, name))?;
    let ips: Vec<String> = service.cluster_ips.iter().map(ToString::to_string).collect();
    let ports: Vec<Value> = service
        .ports
        .iter()
        .filter(|port| port.node_port > 0)
        .map(|port| {
            let protocol = port.protocol.as_str();
            serde_json::json!({"port": port.port, "protocol": protocol, "nodePort": port.node_port})
        })
        .collect();
    let mut spec = serde_json::json!({"type": service.service_type, "ports": ports});
    if let Some(first) = ips.first() {
        spec["clusterIP"] = first.as_str().into();
        spec["clusterIPs"] = ips.clone().into();
    }
    object(serde_json::json!({"spec": spec}))
}

async fn changed(watcher: &mut Option<apiserver::watch_cache::Watcher>) {
    match watcher {
        // A watch that fell behind is renewed by the next computation.
        Some(watcher) => drop(watcher.next().await),
        None => std::future::pending().await,
    }
}

fn all<T: DeserializeOwned>(cache: &WatchCache, resource: &str) -> Vec<T> {
    let objects = cache.list(resource, &Scope::All).objects;
    objects.iter().filter_map(|object| serde_json::from_slice(object.json()).ok()).collect()
}

fn json<T: Serialize>(object: &T) -> Option<Value> {
    serde_json::to_value(object).ok()
}

fn object(value: Value) -> Option<Json> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}
