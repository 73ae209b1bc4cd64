//! Where a node says that its kubelet is. Pure.

use serde_json::{Map, Value};

use crate::options::AddressType;

/// The port of a kubelet that does not say which one it has.
const KUBELET_PORT: u16 = 10250;

/// Where a kubelet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Place {
    /// The place that a Node tells, of several the one whose type comes first.
    ///
    /// # Errors
    /// When it tells none of those types, in the stock server's words.
    pub fn of(node: &Map<String, Value>, preferred: &[AddressType]) -> Result<Self, String> {
        let status = node.get("status");
        let addresses = status.and_then(|status| status.get("addresses")).and_then(Value::as_array);
        let addresses: Vec<(&str, &str)> = addresses
            .into_iter()
            .flatten()
            .map(|address| (text(address, "type"), text(address, "address")))
            .collect();
        let of_type = |wanted: &AddressType| {
            addresses.iter().find(|(kind, host)| *kind == wanted.as_str() && !host.is_empty())
        };
        let Some((_, host)) = preferred.iter().find_map(of_type) else {
            let known: Vec<String> =
                addresses.iter().map(|(kind, host)| format!("{{{kind} {host}}}")).collect();
            return Err(format!("no preferred addresses found; known addresses: [{}]", known.join(" ")));
        };
        let port = status.and_then(|status| status.pointer("/daemonEndpoints/kubeletEndpoint/Port"));
        let port = port.and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        Ok(Self { host: (*host).to_owned(), port: port.filter(|port| *port > 0).unwrap_or(KUBELET_PORT) })
    }

    /// Both, as they stand in a URL.
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Nodes with several addresses, with a port and without.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    const PREFERRED: [AddressType; 5] = AddressType::PREFERRED;

    #[test]
    fn the_first_type_that_a_node_has_counts() {
        let address = |kind: &str, text: &str| json!({"type": kind, "address": text});
        let both = json!([
            address("InternalIP", "10.0.0.1"),
            address("Hostname", "n1"),
            address("InternalIP", "::1")
        ]);
        let port = json!({"kubeletEndpoint": {"Port": 11250}});
        let six = json!([address("InternalIP", "fd00::1")]);
        for (status, preferred, expected) in [
            (json!({"addresses": both}), &PREFERRED[..], Ok("n1:10250")),
            (json!({"addresses": both, "daemonEndpoints": port}), &PREFERRED[2..], Ok("10.0.0.1:11250")),
            (json!({"addresses": six}), &PREFERRED, Ok("[fd00::1]:10250")),
            (
                json!({"addresses": six}),
                &PREFERRED[..1],
                Err("no preferred addresses found; known addresses: [{InternalIP fd00::1}]"),
            ),
            (json!({}), &PREFERRED, Err("no preferred addresses found; known addresses: []")),
        ] {
            let node = json!({"status": status});
            let found = Place::of(node.as_object().unwrap(), preferred).map(|place| place.authority());
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
    }
}
