//! The strategies of Services, IPAddresses and ServiceCIDRs.

mod allocated;

use super::PROTOCOLS;
use crate::dotted::{each, fill, set, text};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Cause, Json, metadata};

pub(in crate::strategy) static STRATEGY: KindStrategy =
    KindStrategy { default, prepare: allocated::prepare, check, update, warn, ..NO_OP };

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
/// Default timeout of the session affinity `ClientIP` in seconds, as in the API.
const AFFINITY_TIMEOUT_SECONDS: i64 = 3 * 60 * 60;
const AFFINITY_TIMEOUT_MAX_SECONDS: i64 = 24 * 60 * 60;
const AFFINITY_TIMEOUT: &str = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";

fn default(service: &mut Json) {
    fill(service, "spec.sessionAffinity", "None");
    fill(service, "spec.type", "ClusterIP");
    match text(service, "spec.sessionAffinity") {
        "None" => set(service, "spec.sessionAffinityConfig", None),
        "ClientIP" => fill(service, AFFINITY_TIMEOUT, AFFINITY_TIMEOUT_SECONDS),
        _ => {}
    }
    for port in each(service, "spec.ports") {
        fill(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        let is_silent = port.get("targetPort").is_none_or(|port| port.is_null() || *port == 0 || *port == "");
        if is_silent && number.is_number() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = text(service, "spec.type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(service, "spec.externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        fill(service, "spec.internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(service, "spec.allocateLoadBalancerNodePorts", true);
    }
}

fn check(service: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = service.at("spec");
    let (kind, cluster_ip) = (spec.at("type").text(), spec.at("clusterIP"));
    let is_headless = cluster_ip.text() == "None";
    causes.one_of(&spec.at("type"), &TYPES);
    match kind {
        "ExternalName" => {
            if causes.required(&spec.at("externalName"), "") {
                let name = spec.at("externalName");
                let is_name =
                    |name: &str| crate::validate::names::is_dns_subdomain(name.trim_end_matches('.'));
                causes.text(&name, is_name, crate::strategy::causes::SUBDOMAIN);
            }
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                causes.absent(&spec.at(field), "may not be set for ExternalName services");
            }
        }
        _ if spec.at("ports").is_empty() && !is_headless => causes.missing(&spec.at("ports"), ""),
        "LoadBalancer" if is_headless => {
            causes.invalid(&cluster_ip, "may not be set to 'None' for LoadBalancer services");
        }
        "NodePort" if is_headless => {
            causes.invalid(&cluster_ip, "may not be set to 'None' for NodePort services")
        }
        _ => {}
    }
    ports(&spec, is_headless, causes);
    metadata::labels(&spec.at("selector"), causes);
    addresses(&spec, causes);
    causes.one_of(&spec.at("sessionAffinity"), &["ClientIP", "None"]);
    if spec.at("sessionAffinity").text() == "ClientIP" {
        let seconds = spec.at("sessionAffinityConfig.clientIP.timeoutSeconds");
        causes.within(&seconds, 1, AFFINITY_TIMEOUT_MAX_SECONDS);
    }
    policies(&spec, causes);
    if kind != "LoadBalancer" {
        for field in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
            causes.absent(&spec.at(field), "may only be used when `type` is 'LoadBalancer'");
        }
        causes.absent(&spec.at("loadBalancerSourceRanges"), "may only be used when `type` is 'LoadBalancer'");
    }
    spec.at("loadBalancerSourceRanges").items().for_each(|range| causes.padded_cidr(&range));
}

fn ports(spec: &FieldValue<'_, '_>, is_headless: bool, causes: &mut Causes) {
    let list = spec.at("ports");
    let mut seen = std::collections::BTreeSet::new();
    let mut node_ports = std::collections::BTreeSet::new();
    let has_node_ports = matches!(spec.at("type").text(), "NodePort" | "LoadBalancer");
    for port in list.items() {
        let name = port.at("name");
        if list.len() > 1 {
            causes.required(&name, "");
        }
        causes.label(&name);
        if port.at("port").is_absent() || port.at("port").number() == Some(0) {
            causes.invalid(&port.at("port"), "must be between 1 and 65535, inclusive");
        }
        causes.within(&port.at("port"), 1, 65535);
        causes.one_of(&port.at("protocol"), &PROTOCOLS);
        super::port_or_name(&port.at("targetPort"), causes);
        let node_port = port.at("nodePort");
        causes.within(&node_port, 1, 65535);
        if !node_port.is_absent() && !has_node_ports {
            causes.forbidden(&node_port, "may not be used when `type` is 'ClusterIP'");
        }
        let protocol = port.at("protocol").text();
        if node_port.number().is_some_and(|number| !node_ports.insert((protocol, number))) {
            causes.duplicate(&node_port);
        }
        let number = port.at("port").number();
        if !is_headless && !seen.insert((protocol, number)) {
            causes.push(Cause::duplicate(port.path(), format!("{}/{protocol}", number.unwrap_or(0))));
        }
    }
    causes.unique(&list, "name");
}

fn addresses(spec: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (first, list) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    if list.items().next().is_some_and(|address| address.text() != first.text()) {
        causes.invalid(&list, "first value must match `clusterIP`");
    }
    causes.at_most(&list, 2);
    for address in list.items().filter(|address| address.text() != "None") {
        causes.ip(&address);
    }
    if list.len() > 1 && first.text() == "None" {
        causes.invalid(&list.key("0"), "'None' must be the first and only value");
    }
    for family in spec.at("ipFamilies").items() {
        causes.one_of(&family, &["IPv4", "IPv6"]);
    }
    causes.unique(&spec.at("ipFamilies"), "");
    causes.at_most(&spec.at("ipFamilies"), 2);
    causes.any_of(&spec.at("ipFamilyPolicy"), &["SingleStack", "PreferDualStack", "RequireDualStack"]);
    for address in spec.at("externalIPs").items() {
        causes.ip(&address);
    }
}

fn policies(spec: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (external, internal) = (spec.at("externalTrafficPolicy"), spec.at("internalTrafficPolicy"));
    let is_external =
        matches!(spec.at("type").text(), "NodePort" | "LoadBalancer") || !spec.at("externalIPs").is_empty();
    if is_external {
        causes.any_of(&external, &["Cluster", "Local"]);
    } else {
        causes.absent(&external, "may only be set for externally-accessible services");
    }
    causes.any_of(&internal, &["Cluster", "Local"]);
    causes.any_of(&spec.at("trafficDistribution"), &["PreferClose", "PreferSameNode", "PreferSameZone"]);
    let health = spec.at("healthCheckNodePort");
    causes.within(&health, 1, 65535);
    let skips_check = spec.at("type").text() == "LoadBalancer" && external.text() == "Local";
    if !health.is_absent() && !skips_check {
        causes.invalid(
            &health,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        );
    }
}

/// Rejects a change of the cluster IP, unless the Service changes to or from `ExternalName`.
fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let is_name = |service: &FieldValue<'_, '_>| service.at("spec.type").text() == "ExternalName";
    if is_name(new) || is_name(old) {
        return;
    }
    let (list, was) = (new.at("spec.clusterIPs"), old.at("spec.clusterIPs"));
    for (position, (address, was)) in list.items().zip(was.items()).enumerate() {
        if address.value() != was.value() {
            let field = format!("spec.clusterIPs[{position}]");
            causes.push(Cause::invalid(field, list.value(), "may not change once set"));
        }
    }
    if list.is_empty() && !was.is_empty() {
        causes.push(Cause::invalid("spec.clusterIPs[0]", list.value(), "primary clusterIP can not be unset"));
    }
    if let (Some(family), Some(was)) =
        (new.at("spec.ipFamilies").items().next(), old.at("spec.ipFamilies").items().next())
        && family.value() != was.value()
    {
        causes.invalid(&family, "primary ipFamily can not be changed");
    }
    let class = "spec.loadBalancerClass";
    if [new, old].iter().all(|service| service.at("spec.type").text() == "LoadBalancer") {
        causes.unchanged(&new.at(class), &old.at(class));
    }
}

fn warn(service: &Json) -> Vec<String> {
    let root = FieldValue::root(service);
    let mut warnings = Vec::new();
    if !root.at("spec.externalIPs").is_empty() && root.at("spec.type").text() == "ExternalName" {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if root.at("spec.sessionAffinity").text() == "ClientIP" && root.at("spec.clusterIP").text() == "None" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    warnings
}

/// The strategy of IPAddresses.
pub(in crate::strategy) static ADDRESS: KindStrategy = KindStrategy {
    check: |address, causes| {
        let parent = address.at("spec.parentRef");
        if parent.is_absent() {
            return causes.missing(&parent, "");
        }
        causes.required(&parent.at("resource"), "");
        if causes.required(&parent.at("name"), "") {
            causes.path_segment(&parent.at("name"));
        }
    },
    immutable: &["spec.parentRef"],
    ..NO_OP
};

/// The strategy of ServiceCIDRs.
pub(in crate::strategy) static RANGE: KindStrategy = KindStrategy {
    check: |range, causes| {
        let ranges = range.at("spec.cidrs");
        causes.required(&ranges, "at least one CIDR required");
        causes.at_most(&ranges, 2);
        ranges.items().for_each(|range| causes.cidr(&range));
        let families: Vec<bool> = ranges.items().map(|range| range.text().contains(':')).collect();
        if families.len() == 2 && families[0] == families[1] {
            causes.invalid(&ranges, "two CIDRs must be one IPv4 and one IPv6 CIDR");
        }
    },
    immutable: &["spec.cidrs"],
    ..NO_OP
};
