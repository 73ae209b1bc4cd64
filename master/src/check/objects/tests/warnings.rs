//! Events of the last hour, and which of them nobody need look at any more.

use super::*;

#[test]
fn warnings_are_counted_by_reason() {
    let event = |reason: &str, name: &str, count: i64, at: &str, kind: &str| {
        json!({"metadata": meta("e", at), "type": kind, "reason": reason, "message": format!("{name} {at}"), "count": count, "lastTimestamp": at,
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": name}})
    };
    let running = |name: &str, status: &str, since: &str| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]});
        pod(name, LONG_AGO, json!({"nodeName": "n"}), status)
    };
    check(
        json!({"nodes": [node("n", &ready(), json!({}))], "pods": [
            running("a", "True", LONG_AGO), running("b", "True", LONG_AGO), running("c", "True", LONG_AGO),
            running("d", "True", LONG_AGO), running("e", "True", JUST_NOW),
        ], "events": [
            event("BackOff", "a", 1, LONG_AGO, "Warning"),
            event("FailedMount", "a", 3, LONG_AGO, "Warning"),
            event("FailedMount", "b", 2, JUST_NOW, "Warning"),
            event("FailedMount", "c", 100, "2026-06-01T10:59:59Z", "Warning"),
            event("Pulling", "a", 9, JUST_NOW, "Normal"),
            // What has passed: something went well later, it is ready since, it is gone.
            event("FailedMount", "d", 1, LONG_AGO, "Warning"),
            event("Started", "d", 1, JUST_NOW, "Normal"),
            event("Unhealthy", "e", 7, "2026-06-01T11:30:00Z", "Warning"),
            event("FailedMount", "gone", 5, JUST_NOW, "Warning"),
        ]}),
        &[
            "Warning FailedMount: 5 events in the last hour, about 2 objects: Pod shop/b: b 2026-06-01T11:59:30Z",
            "Warning BackOff: 1 event in the last hour, about 1 object: Pod shop/a: a 2026-06-01T11:00:00Z",
        ],
    );
}

#[test]
fn what_is_told_of_a_node_is_past_when_that_very_thing_is_well_again() {
    let (early, late) = ("2026-06-01T11:30:00Z", JUST_NOW);
    let event = |(kind, reason, message): (&str, &str, &str), at: &str| {
        json!({"metadata": meta("e", at), "type": kind, "reason": reason, "message": message, "count": 1, "lastTimestamp": at,
            "involvedObject": {"kind": "Node", "name": "n"}})
    };
    let since = |at: &str| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": late, "lastTransitionTime": at}]);
    let is_told = |ready_since: &str, warning: (&str, &str), well: Option<(&str, &str)>| {
        let mut events = vec![event(("Warning", warning.0, warning.1), early)];
        events.extend(well.map(|(reason, message)| event(("Normal", reason, message), late)));
        let lists = json!({
            "nodes": [node("n", &since(ready_since), json!({}))], "leases": [lease("n", late)], "events": events,
        });
        let lines = told(&lists);
        lines.iter().any(|line| line.starts_with(&format!("Warning {}: 1 event", warning.0)))
    };
    // The network of pods: told once for as long as it lasts, while masters come and go.
    for well in ["MasterBack", "NodeReady", "CertificateInUse", "NodeRegistered", "PodNetworkRange"] {
        assert!(is_told(late, ("PodNetworkTrouble", "no way there"), Some((well, ""))), "{well}");
    }
    for (warning, well) in [
        ("NodeNotReady", "NodeReady"),
        ("LeaseNotRenewed", "MasterBack"),
        ("ClusterUnheard", "MasterBack"),
        ("PodsNotTold", "MasterBack"),
        ("MasterDoubted", "NodeRegistered"),
        ("NodeNotRegistered", "NodeRegistered"),
        ("ClusterInfoDoubted", "ClusterChanged"),
        ("ClusterTrouble", "ClusterTroubleOver"),
        ("NodesNotShown", "NodesShown"),
        ("PodNetworkTrouble", "PodNetworkTroubleOver"),
        ("PodsUnclaimed", "PodsClaimed"),
    ] {
        assert!(is_told(LONG_AGO, (warning, ""), None), "{warning}");
        assert!(!is_told(LONG_AGO, (warning, ""), Some((well, ""))), "{warning} {well}");
        assert!(is_told(LONG_AGO, (warning, ""), Some(("PodNetworkRange", ""))), "{warning}");
    }
    // Readiness is of the engine, and of a Node that is shown.
    assert!(!is_told(late, ("NodeNotReady", ""), None) && !is_told(late, ("NodeNotRegistered", ""), None));
    assert!(is_told(late, ("LeaseNotRenewed", ""), None));
    // A certificate says nothing of the other one.
    let refused = ("CertificateRefused", "the serving certificate of this node is refused");
    let of = |words: &str| format!("the {words} certificate of this node is good");
    assert!(is_told(LONG_AGO, refused, Some(("CertificateInUse", &of("client")))));
    assert!(!is_told(LONG_AGO, refused, Some(("CertificateInUse", &of("serving")))));
}
