//! Services with an address that is not of the cluster's ranges any more. Pure.

use std::net::IpAddr;

use serde_json::Value;

use super::World;
use super::field::list;
use crate::check::finding::{Finding, counted};
use crate::controllers::Object;
use crate::options::is_within;

/// The ServiceCIDR that a server makes of its flags.
const OWN: &str = "kubernetes";

/// What is wrong with addresses of services.
pub fn findings(world: &World) -> Vec<Finding> {
    // A master of ours gives addresses of its own range alone, whatever others there are.
    let counts = |range: &&Object| range.name == OWN || !world.version.is_own();
    let cidrs: Vec<&str> =
        world.of("servicecidrs").iter().filter(counts).flat_map(|it| texts(it, "/spec/cidrs")).collect();
    let ranges: Vec<(IpAddr, u8)> = cidrs.iter().filter_map(|cidr| range(cidr)).collect();
    // An older server has none, and one that has just begun not yet.
    if ranges.is_empty() {
        return Vec::new();
    }
    let is_inside = |ip: IpAddr| ranges.iter().any(|(network, bits)| is_within(ip, *network, *bits));
    let strange = |service: &Object| {
        let ip =
            texts(service, "/spec/clusterIPs").filter_map(|ip| ip.parse().ok()).find(|ip| !is_inside(*ip))?;
        Some(format!("{}/{} has {ip}", service.namespace, service.name))
    };
    let strangers: Vec<String> = world.of("services").iter().filter_map(strange).collect();
    let Some(first) = strangers.first() else { return Vec::new() };
    let who = match strangers.len() {
        1 => first.clone(),
        many => format!("{first}, and {} like it", counted(many.saturating_sub(1), "service")),
    };
    let remedy = "delete these services and make them anew (default/kubernetes comes back by itself), or put the range back \
                  (`--service-cluster-ip-range`)";
    let what = format!("{who}, which is outside {}", cidrs.join(", "));
    vec![Finding::warning("services", what, remedy).because("the range was another one when they were made")]
}

fn texts<'a>(object: &'a Object, pointer: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    list(object, pointer).iter().filter_map(Value::as_str)
}

fn range(cidr: &str) -> Option<(IpAddr, u8)> {
    let (network, bits) = cidr.split_once('/')?;
    Some((network.parse().ok()?, bits.parse().ok()?))
}
