//! Checks services: a selector without ready endpoints, and IPs outside the service CIDRs. Pure.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::kinds::{Endpoint, Pod, Service, ServiceCidr};
use super::{PATIENCE, World, pods};
use crate::check::finding::{Finding, Subject, counted};
use crate::options::is_within;

/// Label of an EndpointSlice that names its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// Findings for all services.
pub fn findings(world: &World) -> Vec<Finding> {
    let mut served: HashSet<(&str, &str)> = HashSet::new();
    for slice in &world.lists.endpoint_slices {
        let service = slice.metadata.labels.get(OF_SERVICE);
        if let Some(service) = service.filter(|_| slice.endpoints.iter().any(takes_requests)) {
            served.insert((&*slice.metadata.namespace, service));
        }
    }
    let mut by_namespace: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in &world.lists.pods {
        by_namespace.entry(&pod.metadata.namespace).or_default().push(pod);
    }
    let unserved = world.lists.services.iter().filter(|service| {
        let name = (&*service.metadata.namespace, &*service.metadata.name);
        !served.contains(&name) && &*service.spec.r#type != "ExternalName"
    });
    unserved
        .filter_map(|service| {
            let beside = by_namespace.get(&*service.metadata.namespace).map_or(&[][..], Vec::as_slice);
            missing_endpoints(service, beside, world.since(service.metadata.creation_timestamp) > PATIENCE)
        })
        .collect()
}

/// True unless the endpoint is reported as not ready.
fn takes_requests(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready.unwrap_or(true)
}

/// The finding for a service without endpoints. Pods and controllers get a grace period.
fn missing_endpoints(service: &Service, beside: &[&Pod], is_late: bool) -> Option<Finding> {
    let selector = &service.spec.selector;
    if selector.is_empty() {
        return None;
    }
    let is_chosen =
        |pod: &&&Pod| selector.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
    let chosen: Vec<&&Pod> = beside.iter().filter(is_chosen).collect();
    let ready = chosen.iter().filter(|pod| pods::is_ready(pod)).count();
    let labels = selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let subject = Subject::of("Service", &service.metadata);
    let what = "has no ready endpoints";
    if chosen.is_empty() {
        let remedy = "run pods with these labels, or correct the service's selector";
        return Some(
            Finding::warning(subject, what, remedy).because(format!("no pod matches the selector {labels}")),
        );
    }
    is_late.then(|| {
        if ready == 0 {
            let remedy = format!(
                "see why they are not ready: `kubectl get pods -n {} -l {labels}`",
                service.metadata.namespace
            );
            let cause = format!("none of the {} that match {labels} is ready", counted(chosen.len(), "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        } else {
            let remedy = "check that the endpoint controllers run (`--controllers`, the master's log)";
            let cause = format!("{} ready, but without endpoints", counted(ready, "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        }
    })
}

/// The ServiceCIDR that the API server creates from its flags.
const OWN: &str = "kubernetes";

/// Findings for service IPs.
pub fn address_findings(world: &World) -> Vec<Finding> {
    // This project's master only allocates from its own range.
    let counts = |range: &&ServiceCidr| &*range.metadata.name == OWN || !world.version.is_own();
    let cidrs = world.lists.service_cidrs.iter().filter(counts).flat_map(|range| &range.spec.cidrs);
    let cidrs: Vec<&str> = cidrs.map(|cidr| &**cidr).collect();
    let ranges: Vec<(IpAddr, u8)> = cidrs.iter().filter_map(|cidr| range(cidr)).collect();
    // Older servers have no ServiceCIDRs, and a new server has not created its own yet.
    if ranges.is_empty() {
        return Vec::new();
    }
    let is_inside = |ip: IpAddr| ranges.iter().any(|(network, bits)| is_within(ip, *network, *bits));
    let strange = |service: &Service| {
        let mut ips = service.spec.cluster_ips.iter().filter_map(|ip| ip.parse().ok());
        let ip = ips.find(|ip| !is_inside(*ip))?;
        Some(format!("{}/{} has {ip}", service.metadata.namespace, service.metadata.name))
    };
    let strangers: Vec<String> = world.lists.services.iter().filter_map(strange).collect();
    let Some(first) = strangers.first() else { return Vec::new() };
    let who = match strangers.len() {
        1 => first.clone(),
        many => format!("{first}, and {} like it", counted(many.saturating_sub(1), "service")),
    };
    let remedy = "delete and recreate these services (default/kubernetes is recreated automatically), or restore the range \
                  (`--service-cluster-ip-range`)";
    let what = format!("{who}, which is outside {}", cidrs.join(", "));
    vec![Finding::warning("services", what, remedy).because("the range was different when they were created")]
}

fn range(cidr: &str) -> Option<(IpAddr, u8)> {
    let (network, bits) = cidr.split_once('/')?;
    Some((network.parse().ok()?, bits.parse().ok()?))
}
