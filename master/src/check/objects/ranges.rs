//! Checks services whose IP is outside the service CIDRs. Pure.

use std::net::IpAddr;

use super::World;
use super::kinds::{Service, ServiceCidr};
use crate::check::finding::{Finding, counted};
use crate::options::is_within;

/// The ServiceCIDR that the API server creates from its flags.
const OWN: &str = "kubernetes";

/// Findings for service IPs.
pub fn findings(world: &World) -> Vec<Finding> {
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
