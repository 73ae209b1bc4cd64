//! Delays a certificate for a node name that another running machine uses. Pure.
//!
//! An administrator or a policy cannot know that a running machine uses the name. Two machines of one name would both
//! run every pod of the node. The request waits, and is signed when the node is no longer Ready.

use std::net::IpAddr;

use apiserver::auth::nodes::keys::of_node;
use client::Json;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::controllers::object::{at, text};

/// The condition of a waiting request.
pub const CONDITION: &str = "NodeNameInUse";
/// The reason of that condition.
pub const REASON: &str = "NodeIsReady";
/// A Node whose last heartbeat is older counts as gone even if it is still Ready: nothing maintains that condition then. The heartbeat is
/// the renewal of its lease or the `lastHeartbeatTime` of its condition Ready: a new Node is Ready before it has a lease. Machines whose
/// clocks are off by less are recognized.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// The requester of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    /// SHA-256 of the public key of the request, in hexadecimal digits.
    pub key: &'a str,
    /// The address that the request came from.
    pub peer: Option<IpAddr>,
}

/// Why the certificate must wait. `None` if the Node's machine does not run, or is the applicant: it has one of the
/// Node's keys or addresses.
pub fn conflict(
    node: &Json,
    lease: Option<&Json>,
    applicant: Applicant<'_>,
    now: Timestamp,
) -> Option<String> {
    let all =
        |pointer: &str| at(node, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ready = all("/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "Ready" && condition["status"] == "True")?;
    let heartbeats = [lease.and_then(|lease| at(lease, "/spec/renewTime")), ready.get("lastHeartbeatTime")];
    let is_fresh = heartbeats
        .into_iter()
        .filter_map(|time| text(time).parse::<Timestamp>().ok())
        .any(|time| now.duration_since(time).abs() < RENEWED_WITHIN);
    let addresses = || all("/status/addresses").iter().filter_map(|address| address["address"].as_str());
    let has_address = |peer: IpAddr| {
        addresses().filter_map(|address| address.parse::<IpAddr>().ok()).any(|own| own.to_canonical() == peer)
    };
    let is_same = of_node(node).any(|key| key == applicant.key)
        || applicant.peer.is_some_and(|peer| has_address(peer.to_canonical()));
    if !is_fresh || is_same {
        return None;
    }
    let name = text(at(node, "/metadata/name"));
    let address = addresses().next().unwrap_or("unknown").to_owned();
    let machine = text(at(node, "/status/nodeInfo/machineID"));
    Some(format!(
        "node {name} is Ready on another machine (address {address}, machine ID {machine:?}). The certificate is issued once that node is \
         not Ready; if both machines are to be nodes, give the new one another name (--hostname-override)"
    ))
}

#[cfg(test)]
mod tests {
    //! Running nodes, stopped nodes, and requests of the node itself.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_withheld_while_another_machine_runs_as_that_node() {
        let key = "a".repeat(64);
        let node = |ready: &str, heartbeat: &str| {
            json!({
                "metadata": {"name": "n1", "annotations": {"coracle.io/public-keys": key}},
                "status": {
                    "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
                    "nodeInfo": {"machineID": "m1"},
                },
            })
        };
        let (other_key, now) = ("b".repeat(64), "2026-01-01T00:00:00Z".parse().unwrap());
        let other = Applicant { key: &other_key, peer: "10.0.0.8".parse().ok() };
        let (fresh, old) = ("2025-12-31T23:59:50.000000Z", "2025-12-31T23:00:00.000000Z");
        for (what, ready, renewed, applicant, expected) in [
            ("another machine", "True", Some(fresh), other, true),
            ("from an unknown address", "True", Some(fresh), Applicant { peer: None, ..other }, true),
            ("a node that is not ready", "Unknown", Some(fresh), other, false),
            ("a lease that nobody renews", "True", Some(old), other, false),
            ("a node with an old heartbeat and no lease", "True", None, other, false),
            ("the node's own key", "True", Some(fresh), Applicant { key: &key, ..other }, false),
            (
                "the same machine made anew",
                "True",
                Some(fresh),
                Applicant { peer: "::ffff:10.0.0.7".parse().ok(), ..other },
                false,
            ),
        ] {
            let node = node(ready, "2025-12-31T23:00:00Z");
            let lease = renewed.map(|renewed| json!({"spec": {"renewTime": renewed}}));
            let lease = lease.as_ref().and_then(Value::as_object);
            let found = conflict(node.as_object().unwrap(), lease, applicant, now);
            assert_eq!(found.is_some(), expected, "{what}: {found:?}");
            if let Some(why) = found {
                assert!(why.contains("node n1") && why.contains("10.0.0.7") && why.contains("m1"), "{why}");
            }
        }
        let registered_now = node("True", "2025-12-31T23:59:59Z");
        assert!(conflict(registered_now.as_object().unwrap(), None, other, now).is_some(), "no lease yet");
    }
}
