//! Printer columns of Services, Endpoints and EndpointSlices.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Columns, NAME, NONE, Object, age, at, at_most, field, labels, list, list_at, name, or_none,
    or_unset, plain, shown, text, wide,
};

/// Limit for the addresses in one cell.
const MAX_ADDRESSES: usize = 3;

/// The printer columns of Services.
pub const SERVICES: Columns = Columns {
    heads: &[
        NAME,
        shown("Type", "The type of the Service."),
        shown("Cluster-IP", "The cluster IP."),
        shown("External-IP", "The external IP addresses."),
        shown("Port(s)", "The ports, with their node ports."),
        AGE,
        wide("Selector", "The label selector of the pods."),
    ],
    cells: service,
};

/// The printer columns of Endpoints.
pub const ENDPOINTS: Columns =
    Columns { heads: &[NAME, shown("Endpoints", "The addresses and ports."), AGE], cells: endpoints };

/// The printer columns of EndpointSlices.
pub const ENDPOINT_SLICES: Columns = Columns {
    heads: &[
        NAME,
        shown("AddressType", "The type of the addresses."),
        shown("Ports", "The ports."),
        shown("Endpoints", "The addresses."),
        AGE,
    ],
    cells: endpoint_slice,
};

fn service(object: &Object, now: Timestamp) -> Vec<Value> {
    let ip = list(object, "spec", "clusterIPs").first().and_then(Value::as_str);
    vec![
        name(object),
        text(object, "spec", "type").into(),
        or_none(ip.unwrap_or_else(|| text(object, "spec", "clusterIP"))),
        external(object).into(),
        ports(object).into(),
        age::of(object, now),
        labels(at(object, &["spec", "selector"])).into(),
    ]
}

fn external(object: &Object) -> String {
    let given: Vec<String> = list(object, "spec", "externalIPs").iter().map(plain).collect();
    match text(object, "spec", "type") {
        "ExternalName" => text(object, "spec", "externalName").to_owned(),
        "LoadBalancer" => {
            let addresses: Vec<String> =
                Some(balancers(object)).filter(|found| !found.is_empty()).into_iter().chain(given).collect();
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        _ if given.is_empty() => NONE.to_owned(),
        _ => given.join(","),
    }
}

/// The distinct addresses or host names of load balancers.
pub(super) fn balancers(object: &Object) -> String {
    let all = list_at(object, &["status", "loadBalancer", "ingress"]);
    let mut found: Vec<&str> = (all.iter())
        .map(|one| if field(one, "ip").is_empty() { field(one, "hostname") } else { field(one, "ip") })
        .filter(|address| !address.is_empty())
        .collect();
    found.sort_unstable();
    found.dedup();
    found.join(",")
}

fn ports(object: &Object) -> String {
    let ports = list(object, "spec", "ports").iter().map(|port| {
        let number = |name: &str| port.get(name).and_then(Value::as_i64).filter(|number| *number > 0);
        let own = number("port").unwrap_or_default();
        let protocol = if field(port, "protocol").is_empty() { "TCP" } else { field(port, "protocol") };
        match number("nodePort") {
            Some(of_node) => format!("{own}:{of_node}/{protocol}"),
            None => format!("{own}/{protocol}"),
        }
    });
    let ports: Vec<String> = ports.collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

fn endpoints(object: &Object, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in object.get("subsets").and_then(Value::as_array).into_iter().flatten() {
        let each = |name: &str| subset.get(name).and_then(Value::as_array).map(Vec::as_slice);
        let addresses = each("addresses").unwrap_or_default();
        let ports = each("ports").unwrap_or_default();
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| field(address, "ip").to_owned()));
        }
        for port in ports {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            all.extend(addresses.iter().map(|address| match field(address, "ip") {
                ip if ip.contains(':') => format!("[{ip}]:{number}"),
                ip => format!("{ip}:{number}"),
            }));
        }
    }
    vec![name(object), or_none(&at_most(&all, MAX_ADDRESSES)), age::of(object, now)]
}

fn endpoint_slice(object: &Object, now: Timestamp) -> Vec<Value> {
    let top = |name: &str| object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ports: Vec<String> = (top("ports").iter())
        .map(|port| port.get("port").map_or_else(|| "<unset>".to_owned(), plain))
        .collect();
    let addresses: Vec<String> = (top("endpoints").iter())
        .flat_map(|endpoint| endpoint.get("addresses").and_then(Value::as_array).into_iter().flatten())
        .map(plain)
        .collect();
    vec![
        name(object),
        object.get("addressType").and_then(Value::as_str).unwrap_or_default().into(),
        or_unset(&at_most(&ports, MAX_ADDRESSES)),
        or_unset(&at_most(&addresses, MAX_ADDRESSES)),
        age::of(object, now),
    ]
}
