//! EndpointSlices of Services on a lone node, by the rules of the EndpointSlice controller. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::strategy::addresses::reject_special_ip;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, PodStatus, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The label with the Service of an EndpointSlice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label with the owner of an EndpointSlice. Other programs do not change it.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "kubelet";
/// The label of EndpointSlices of headless Services.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A pod of this node.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The pod, with its status.
    pub pod: &'a Pod,
    /// Whether the pod is desired. Other pods are terminating.
    pub is_desired: bool,
}

/// Whether the endpoints of a Service are computed from pods.
pub fn has_selector(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.type_.as_deref() != Some("ExternalName")
            && spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
    })
}

/// The EndpointSlices of a Service: one per address family and combination of target ports. Each family of the Service
/// has at least one. A Service without a selector has none.
pub fn slices_of(service: &Service, pods: &[Candidate<'_>], node: &str) -> Vec<EndpointSlice> {
    let Some(spec) = service.spec.as_ref().filter(|_| has_selector(service)) else { return Vec::new() };
    let selected = pods.iter().filter(|candidate| selects(service, candidate.pod));
    let selected: Vec<_> = selected.filter(|candidate| !has_ended(candidate.pod)).collect();
    let ports = spec.ports.as_deref().unwrap_or_default();
    let families = spec.ip_families.clone().unwrap_or_default();
    let mut slices = Vec::new();
    for family in &families {
        let mut groups: BTreeMap<Vec<(usize, i32)>, Vec<Endpoint>> = BTreeMap::new();
        for candidate in &selected {
            let addresses = addresses(candidate.pod).filter(|ip| ip.is_ipv4() == (family == "IPv4"));
            let addresses: Vec<String> = addresses.map(|ip| ip.to_string()).collect();
            if addresses.is_empty() {
                continue;
            }
            let numbers = ports.iter().enumerate();
            let numbers = numbers.filter_map(|(at, port)| Some((at, target(port, candidate.pod)?)));
            let endpoint = endpoint(service, candidate, addresses, node);
            groups.entry(numbers.collect()).or_default().push(endpoint);
        }
        if groups.is_empty() {
            groups.insert(Vec::new(), Vec::new());
        }
        for (at, (numbers, endpoints)) in groups.into_iter().enumerate() {
            let ports =
                numbers.into_iter().filter_map(|(at, number)| Some(endpoint_port(ports.get(at)?, number)));
            slices.push(EndpointSlice {
                metadata: metadata(service, family, at),
                address_type: family.clone(),
                endpoints: Some(endpoints),
                ports: Some(ports.collect()),
            });
        }
    }
    slices
}

/// The name depends on the family and the position, so that it stays while endpoints change.
fn metadata(service: &Service, family: &str, position: usize) -> ObjectMeta {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let is_headless = service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"));
    if is_headless {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    ObjectMeta {
        name: Some(format!("{name}-{}-{position}", family.to_lowercase())),
        namespace: service.metadata.namespace.clone(),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = pod.metadata.labels.as_ref();
    service.metadata.namespace == pod.metadata.namespace
        && selector
            .into_iter()
            .flatten()
            .all(|(name, value)| labels.and_then(|all| all.get(name)) == Some(value))
}

fn status(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(status(pod).and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = status(pod).and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The addresses of a pod. Loopback and similar addresses cannot be endpoints.
fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let ips = status(pod).and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
    ips.iter().filter_map(|one| one.ip.parse().ok()).filter(|ip| reject_special_ip(*ip).is_none())
}

/// The number of the target port in a pod. `None` if the pod has no port with this name.
fn target(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        Some(IntOrString::Int(number)) if *number > 0 => Some(*number),
        Some(IntOrString::String(name)) if !name.is_empty() => {
            let spec = pod.spec.as_ref()?;
            // Other init containers do not serve.
            let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
            let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
            let protocol = |text: Option<&str>| text.unwrap_or("TCP").to_owned();
            let mut known = spec.containers.iter().chain(sidecars).flat_map(|it| it.ports.iter().flatten());
            let found = known.find(|known| {
                known.name.as_ref() == Some(name)
                    && protocol(known.protocol.as_deref()) == protocol(port.protocol.as_deref())
            });
            found.map(|found| found.container_port)
        }
        _ => Some(port.port),
    }
}

fn endpoint_port(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        port: Some(number),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(service: &Service, candidate: &Candidate<'_>, addresses: Vec<String>, node: &str) -> Endpoint {
    let Candidate { pod, is_desired } = candidate;
    let terminating = !is_desired || pod.metadata.deletion_timestamp.is_some();
    let serving = is_ready(pod);
    let publishes_all = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    // The host name counts only in the domain of this Service.
    let spec = pod.spec.as_ref().filter(|spec| spec.subdomain == service.metadata.name);
    Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all || serving && !terminating),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty()),
        node_name: Some(node.to_owned()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests;
