//! Determines the cluster IPs and node ports that a Service needs; an [`Allocator`] provides them.

use std::net::IpAddr;

use serde_json::Value;

use crate::dotted::{at, each, set, text};
use crate::strategy::Json;

/// Allocates cluster IPs and node ports.
pub trait Allocator {
    /// Allocates the address `wanted`, or any free one if it is `None`. `family` is `IPv4` or `IPv6`.
    ///
    /// # Errors
    /// If the address cannot be allocated. The error is a message for the client.
    fn address(&mut self, family: &str, wanted: Option<&str>) -> Result<String, String>;

    /// Allocates the node port `wanted`, or any free one if it is `None`.
    ///
    /// # Errors
    /// If the port cannot be allocated. The error is a message for the client.
    fn port(&mut self, protocol: &str, wanted: Option<u16>) -> Result<u16, String>;
}

/// Why an address cannot be an endpoint: other machines cannot reach it. `None` if the address is valid.
pub fn reject_special_ip(ip: IpAddr) -> Option<&'static str> {
    match ip {
        _ if ip.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        _ if ip.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        IpAddr::V4(ip) if ip.is_link_local() => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        _ if ip.is_multicast() => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

/// The IP families of the cluster, the primary one first: `IPv4`, `IPv6`.
pub type Families<'a> = &'a [&'a str];

/// Completes a valid Service: sets IP families, cluster IPs and node ports. Values that `before` already has are
/// kept.
///
/// # Errors
/// If a field cannot be set. The error names the field and the reason. The caller must release the values that were
/// allocated before the error.
pub fn complete(
    service: &mut Json,
    before: Option<&Json>,
    families: Families<'_>,
    allocator: &mut dyn Allocator,
) -> Result<(), (String, String)> {
    if text(service, "spec.type") == "ExternalName" {
        return Ok(());
    }
    choose_families(service, families)?;
    let had = |list: &str, value: &Value| {
        before
            .and_then(|before| at(before, list))
            .and_then(Value::as_array)
            .is_some_and(|list| list.contains(value))
    };
    if text(service, "spec.clusterIP") == "None" {
        set(service, "spec.clusterIPs", Some(Value::Array(vec!["None".into()])));
    } else {
        let chosen = texts(service, "spec.ipFamilies");
        let wanted = texts(service, "spec.clusterIPs");
        let mut addresses = Vec::new();
        for (position, family) in chosen.iter().enumerate() {
            let address = match wanted.get(position) {
                Some(address) if had("spec.clusterIPs", &Value::from(address.as_str())) => address.clone(),
                wanted => (allocator.address(family, wanted.map(String::as_str)))
                    .map_err(|why| (format!("spec.clusterIPs[{position}]"), why))?,
            };
            addresses.push(Value::from(address));
        }
        set(service, "spec.clusterIP", addresses.first().cloned());
        set(service, "spec.clusterIPs", Some(Value::Array(addresses)));
    }
    node_ports(service, before, allocator)
}

/// Selects one or two IP families by the policy of the Service and the families of the cluster.
fn choose_families(service: &mut Json, families: Families<'_>) -> Result<(), (String, String)> {
    let field = || "spec.ipFamilyPolicy".to_owned();
    let policy = match text(service, "spec.ipFamilyPolicy") {
        "" if texts(service, "spec.ipFamilies").len() > 1 || texts(service, "spec.clusterIPs").len() > 1 => {
            "RequireDualStack"
        }
        "" => "SingleStack",
        policy => policy,
    }
    .to_owned();
    let mut chosen = texts(service, "spec.ipFamilies");
    for address in
        texts(service, "spec.clusterIPs").iter().skip(chosen.len()).filter(|address| *address != "None")
    {
        chosen.push(if address.contains(':') { "IPv6" } else { "IPv4" }.to_owned());
    }
    let wanted = match policy.as_str() {
        "SingleStack" => 1,
        _ => 2,
    };
    for family in families {
        if chosen.len() < wanted && !chosen.iter().any(|chosen| chosen == family) {
            chosen.push((*family).to_owned());
        }
    }
    if let Some(family) = chosen.iter().find(|family| !families.contains(&family.as_str())) {
        return Err(("spec.ipFamilies".to_owned(), format!("not configured on this cluster: {family}")));
    }
    if policy == "RequireDualStack" && chosen.len() < 2 {
        return Err((field(), "this cluster is not configured for dual-stack services".to_owned()));
    }
    set(service, "spec.ipFamilyPolicy", Some(policy.into()));
    set(service, "spec.ipFamilies", Some(chosen.into()));
    Ok(())
}

fn node_ports(
    service: &mut Json,
    before: Option<&Json>,
    allocator: &mut dyn Allocator,
) -> Result<(), (String, String)> {
    let is_wanted = match text(service, "spec.type") {
        "NodePort" => true,
        "LoadBalancer" => at(service, "spec.allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    };
    let number =
        |port: &Json| port.get("nodePort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    let mut taken: Vec<u16> =
        (before.and_then(|before| at(before, "spec.ports")).and_then(Value::as_array).into_iter().flatten())
            .filter_map(|port| number(port.as_object()?))
            .collect();
    for (position, port) in each(service, "spec.ports").enumerate() {
        let wanted = number(port);
        if !is_wanted && wanted.is_none() || wanted.is_some_and(|wanted| taken.contains(&wanted)) {
            continue;
        }
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        let given = (allocator.port(protocol, wanted))
            .map_err(|why| (format!("spec.ports[{position}].nodePort"), why))?;
        port.insert("nodePort".to_owned(), given.into());
        taken.push(given);
    }
    Ok(())
}

fn texts(object: &Json, path: &str) -> Vec<String> {
    let list = at(object, path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
