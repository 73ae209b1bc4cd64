//! Printer columns of Ingresses, IngressClasses, NetworkPolicies, IPAddresses and ServiceCIDRs.

use jiff::Timestamp;
use serde_json::Value;

use super::service::balancers;
use super::{
    AGE, Columns, NAME, NONE, Object, age, at, at_most, field, list, name, or_none, plain, selector, shown,
    text,
};

/// Limit for the hosts in one cell.
const MAX_HOSTS: usize = 3;

/// The printer columns of Ingresses.
pub const INGRESSES: Columns = Columns {
    heads: &[
        NAME,
        shown("Class", "The IngressClass."),
        shown("Hosts", "The host names."),
        shown("Address", "The addresses of the load balancer."),
        shown("Ports", "The ports."),
        AGE,
    ],
    cells: ingress,
};

/// The printer columns of IngressClasses.
pub const INGRESS_CLASSES: Columns = Columns {
    heads: &[
        NAME,
        shown("Controller", "The controller of the class."),
        shown("Parameters", "The parameters of the class."),
        AGE,
    ],
    cells: ingress_class,
};

/// The printer columns of NetworkPolicies.
pub const NETWORK_POLICIES: Columns = Columns {
    heads: &[NAME, shown("Pod-Selector", "The pods to which the policy applies."), AGE],
    cells: |object, now| {
        vec![name(object), selector(at(object, &["spec", "podSelector"])).into(), age::of(object, now)]
    },
};

/// The printer columns of IPAddresses.
pub const IP_ADDRESSES: Columns = Columns {
    heads: &[NAME, shown("ParentRef", "The object that uses the address.")],
    cells: |object, _| vec![name(object), or_none(&parent(object))],
};

/// The printer columns of ServiceCIDRs.
pub const SERVICE_CIDRS: Columns = Columns {
    heads: &[NAME, shown("CIDRs", "The address ranges for cluster IPs."), AGE],
    cells: |object, now| {
        let ranges: Vec<String> = list(object, "spec", "cidrs").iter().map(plain).collect();
        vec![name(object), ranges.join(",").into(), age::of(object, now)]
    },
};

fn ingress(object: &Object, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<String> = (list(object, "spec", "rules").iter())
        .map(|rule| field(rule, "host"))
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { at_most(&hosts, MAX_HOSTS) };
    let ports = if list(object, "spec", "tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        or_none(text(object, "spec", "ingressClassName")),
        hosts.into(),
        balancers(object).into(),
        ports.into(),
        age::of(object, now),
    ]
}

fn ingress_class(object: &Object, now: Timestamp) -> Vec<Value> {
    let parameters = at(object, &["spec", "parameters"]).map_or(NONE.to_owned(), |parameters| {
        let group = field(parameters, "apiGroup");
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}/{}", field(parameters, "kind"), field(parameters, "name"))
    });
    vec![name(object), text(object, "spec", "controller").into(), parameters.into(), age::of(object, now)]
}

/// The parent of an IPAddress, such as `services/shop/web`.
fn parent(object: &Object) -> String {
    let Some(parent) = at(object, &["spec", "parentRef"]) else { return String::new() };
    let resource = match field(parent, "group") {
        "" => field(parent, "resource").to_owned(),
        group => format!("{}.{group}", field(parent, "resource")),
    };
    let parts = [resource.as_str(), field(parent, "namespace"), field(parent, "name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
