//! Delays a certificate for a node name that another running machine uses. Pure.
//!
//! An administrator or a policy cannot know that a running machine uses the name. Two machines with one name would
//! both run every pod of the node. The request waits, and is signed when the node is no longer Ready.

use std::net::IpAddr;

use apiserver::auth::nodes::keys::{KEYS, of_annotation};
use jiff::{SignedDuration, Timestamp};

use crate::objects::{Lease, Node};

/// The condition of a waiting request.
pub const CONDITION: &str = "NodeNameInUse";
/// The reason of the condition of a waiting request.
pub const REASON: &str = "NodeIsReady";
/// Age of the last heartbeat after which a node counts as gone, even if its Node is still Ready. Nothing maintains
/// the condition then.
///
/// The heartbeat is the renewal of the node's lease, or the `lastHeartbeatTime` of its condition Ready, because a
/// new Node is Ready before it has a lease. Clocks of machines may differ by this time.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// The requester of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    /// SHA-256 of the public key of the request, in hexadecimal digits.
    pub key: &'a str,
    /// The address from which the request came.
    pub peer: Option<IpAddr>,
}

/// Returns the reason why the certificate must wait.
///
/// Returns `None` if the Node's machine does not run, or is the applicant: it has one of the Node's keys or
/// addresses.
pub fn conflict(
    node: &Node,
    lease: Option<&Lease>,
    applicant: Applicant<'_>,
    now: Timestamp,
) -> Option<String> {
    let status = &node.status;
    let ready = status.conditions.of_type("Ready").filter(|ready| ready.is_true())?;
    let heartbeats = [lease.and_then(|lease| lease.spec.renew_time), ready.last_heartbeat_time];
    let is_fresh =
        heartbeats.into_iter().flatten().any(|time| now.duration_since(time).abs() < RENEWED_WITHIN);
    let addresses = || status.addresses.iter().map(|address| &*address.address);
    let has_address = |peer: IpAddr| {
        addresses().filter_map(|address| address.parse::<IpAddr>().ok()).any(|own| own.to_canonical() == peer)
    };
    let keys = node.metadata.annotations.get(KEYS).unwrap_or_default();
    let is_same = of_annotation(keys).any(|key| key == applicant.key)
        || applicant.peer.is_some_and(|peer| has_address(peer.to_canonical()));
    if !is_fresh || is_same {
        return None;
    }
    let (name, machine) = (&node.metadata.name, &status.node_info.machine_id);
    let address = addresses().next().unwrap_or("unknown");
    Some(format!(
        "node {name} is Ready on another machine (address {address}, machine ID {machine:?}). The certificate is issued once that node is \
         not Ready; if both machines are to be nodes, give the new one another name (--hostname-override)"
    ))
}

#[cfg(test)]
mod tests {
    //! Tests of running nodes, stopped nodes, and requests of the node itself.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_certificate_waits_while_another_machine_uses_the_name() {
        let key = "a".repeat(64);
        let node = |ready: &str, heartbeat: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": {"name": "n1", "annotations": {"coracle.io/public-keys": key}},
                "status": {
                    "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
                    "nodeInfo": {"machineID": "m1"},
                },
            }))
            .unwrap()
        };
        let (other_key, now) = ("b".repeat(64), "2026-01-01T00:00:00Z".parse().unwrap());
        let other = Applicant { key: &other_key, peer: "10.0.0.8".parse().ok() };
        let (fresh, old) = ("2025-12-31T23:59:50.000000Z", "2025-12-31T23:00:00.000000Z");
        for (what, ready, renewed, applicant, expected) in [
            ("another machine", "True", Some(fresh), other, true),
            ("from an unknown address", "True", Some(fresh), Applicant { peer: None, ..other }, true),
            ("a node that is not ready", "Unknown", Some(fresh), other, false),
            ("a lease that is not renewed", "True", Some(old), other, false),
            ("a node with an old heartbeat and no lease", "True", None, other, false),
            ("the node's own key", "True", Some(fresh), Applicant { key: &key, ..other }, false),
            (
                "the same machine, reinstalled",
                "True",
                Some(fresh),
                Applicant { peer: "::ffff:10.0.0.7".parse().ok(), ..other },
                false,
            ),
        ] {
            let node = node(ready, "2025-12-31T23:00:00Z");
            let lease = renewed.map(|renewed| {
                serde_json::from_value::<Lease>(json!({"spec": {"renewTime": renewed}})).unwrap()
            });
            let found = conflict(&node, lease.as_ref(), applicant, now);
            assert_eq!(found.is_some(), expected, "{what}: {found:?}");
            if let Some(why) = found {
                assert!(why.contains("node n1") && why.contains("10.0.0.7") && why.contains("m1"), "{why}");
            }
        }
        let registered_now = node("True", "2025-12-31T23:59:59Z");
        assert!(conflict(&registered_now, None, other, now).is_some(), "no lease yet");
    }
}
