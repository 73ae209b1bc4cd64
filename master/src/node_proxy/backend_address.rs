//! Host and port of backends, and how those of a kubelet are found. Pure.

use crate::objects::Node;
use crate::options::AddressType;

/// The kubelet's port if the Node does not report one.
const KUBELET_PORT: u16 = 10250;

/// Host and port of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendAddress {
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl BackendAddress {
    /// The address of a Node's kubelet. It has the first preferred address type that the Node has.
    ///
    /// # Errors
    /// If the Node has none of these types, in the words of the stock API server.
    pub fn of(node: &Node, preferred: &[AddressType]) -> Result<Self, String> {
        let addresses = &node.status.addresses;
        let of_type = |wanted: &AddressType| {
            addresses.iter().find(|one| &*one.r#type == wanted.as_str() && !one.address.is_empty())
        };
        let Some(found) = preferred.iter().find_map(of_type) else {
            let known: Vec<String> =
                addresses.iter().map(|one| format!("{{{} {}}}", one.r#type, one.address)).collect();
            return Err(format!("no preferred addresses found; known addresses: [{}]", known.join(" ")));
        };
        let port = u16::try_from(node.status.daemon_endpoints.kubelet_endpoint.port).ok();
        let port = port.filter(|port| *port > 0).unwrap_or(KUBELET_PORT);
        Ok(Self { host: found.address.to_string(), port })
    }

    /// Formats `host:port`, with brackets around IPv6 addresses.
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of nodes with several addresses and ports.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    const PREFERRED: [AddressType; 5] = AddressType::PREFERRED;

    #[test]
    fn first_preferred_address_type_of_the_node_is_used() {
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
            let node = serde_json::from_value(json!({"status": status})).unwrap();
            let found = BackendAddress::of(&node, preferred).map(|address| address.authority());
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
    }
}
