//! Tests of recent events and of their resolution.

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
            event("BackOff", "a", 1, "2026-06-01T11:50:00Z", "Warning"),
            event("FailedMount", "a", 3, "2026-06-01T11:40:00Z", "Warning"),
            // Not repeated within the longest backoff.
            event("Evicted", "a", 3, "2026-06-01T11:39:59Z", "Warning"),
            event("FailedMount", "b", 2, JUST_NOW, "Warning"),
            event("FailedMount", "c", 100, "2026-06-01T10:59:59Z", "Warning"),
            event("Pulling", "a", 9, JUST_NOW, "Normal"),
            // Resolved: a later success, readiness since, or a deleted object.
            event("FailedMount", "d", 1, LONG_AGO, "Warning"),
            event("Started", "d", 1, JUST_NOW, "Normal"),
            event("Unhealthy", "e", 7, "2026-06-01T11:30:00Z", "Warning"),
            event("FailedMount", "gone", 5, JUST_NOW, "Warning"),
            // A static pod without a mirror pod does not exist in the API, and its kubelet warns once.
            event("FailedMirrorPod", "static", 1, LONG_AGO, "Warning"),
        ]}),
        &[
            "Warning FailedMount: 5 recent events about 2 objects: Pod shop/b: b 2026-06-01T11:59:30Z",
            "Warning BackOff: 1 recent event about 1 object: Pod shop/a: a 2026-06-01T11:50:00Z",
            "Warning FailedMirrorPod: 1 recent event about 1 object: Pod shop/static: static 2026-06-01T11:00:00Z",
        ],
    );
}

#[test]
fn an_event_of_a_node_is_no_finding_after_recovery() {
    let (early, late) = ("2026-06-01T11:45:00Z", JUST_NOW);
    let event = |(kind, reason, message): (&str, &str, &str), at: &str| {
        json!({"metadata": meta("e", at), "type": kind, "reason": reason, "message": message, "count": 1, "lastTimestamp": at,
            "involvedObject": {"kind": "Node", "name": "n"}})
    };
    let since = |at: &str| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": late, "lastTransitionTime": at}]);
    let is_reported = |ready_since: &str, warning: (&str, &str), well: Option<(&str, &str)>| {
        let mut events = vec![event(("Warning", warning.0, warning.1), early)];
        events.extend(well.map(|(reason, message)| event(("Normal", reason, message), late)));
        let lists = json!({
            "nodes": [node("n", &since(ready_since), json!({}))], "leases": [lease("n", late)], "events": events,
        });
        let lines = finding_lines(&lists);
        lines.iter().any(|line| line.starts_with(&format!("Warning {}: 1 recent event", warning.0)))
    };
    // Pod network trouble is reported once, and masters may change meanwhile.
    for well in ["APIServerReachable", "NodeReady", "CertificateInUse", "NodeRegistered", "PodCIDRChanged"] {
        assert!(is_reported(late, ("PodNetworkFailed", "no way there"), Some((well, ""))), "{well}");
    }
    for (warning, well) in [
        ("NodeNotReady", "NodeReady"),
        ("LeaseNotRenewed", "APIServerReachable"),
        ("NodeWatchFailed", "APIServerReachable"),
        ("PodStatusesNotSent", "APIServerReachable"),
        ("NodeUnknownToAPIServer", "NodeRegistered"),
        ("NodeNotRegistered", "NodeRegistered"),
        ("ClusterInfoUnconfirmed", "ClusterChanged"),
        ("ClusterAccessInvalid", "ClusterAccessRestored"),
        ("NodesNotListed", "NodesListed"),
        ("PodNetworkFailed", "PodNetworkRecovered"),
        ("PodsMissing", "PodsFound"),
        ("NodeNameInUse", "NodeNameFree"),
    ] {
        assert!(is_reported(LONG_AGO, (warning, ""), None), "{warning}");
        assert!(!is_reported(LONG_AGO, (warning, ""), Some((well, ""))), "{warning} {well}");
        assert!(is_reported(LONG_AGO, (warning, ""), Some(("PodCIDRChanged", ""))), "{warning}");
    }
    // Readiness only resolves warnings about the engine and the registration.
    assert!(
        !is_reported(late, ("NodeNotReady", ""), None) && !is_reported(late, ("NodeNotRegistered", ""), None)
    );
    assert!(is_reported(late, ("LeaseNotRenewed", ""), None));
    // An event about one certificate does not resolve those of the other one.
    let refused = ("CertificateDenied", "the serving certificate of this node is refused");
    let of = |words: &str| format!("the {words} certificate of this node is good");
    assert!(is_reported(LONG_AGO, refused, Some(("CertificateInUse", &of("client")))));
    assert!(!is_reported(LONG_AGO, refused, Some(("CertificateInUse", &of("serving")))));
}

#[test]
fn workloads_without_a_controller_are_named() {
    let object = |name: &str| json!({"metadata": meta(name, LONG_AGO)});
    let finished = || json!({"metadata": meta("done", LONG_AGO), "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let led_by = |holder: &str, renewed: &str| {
        json!([{"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}])
    };
    let objects = |leases: Value| {
        json!({
            "deployments": [object("a"), object("b")], "jobs": [object("c"), finished()], "leases": leases,
        })
    };
    let warned = |what: &str| {
        format!(
            "workloads: no controller acts on {what}: this master does not run one, and no stock kube-controller-manager holds its lease"
        )
    };
    check(objects(json!([])), &[&warned("2 Deployments, 1 Job")]);
    check(objects(led_by("master-10.0.0.1:6443_4f2a", JUST_NOW)), &[]);
    check(objects(led_by("host_4f2a", JUST_NOW)), &[]);
    check(json!({"jobs": [finished()]}), &[]);
}

#[test]
fn warnings_of_earlier_kubelets_have_the_present_reasons() {
    let event = |kind: &str, reason: &str, at: &str| {
        json!({"metadata": meta("e", at), "type": kind, "reason": reason, "message": "", "count": 1, "lastTimestamp": at,
            "involvedObject": {"kind": "Node", "name": "n"}})
    };
    let lines = |events: serde_json::Value| {
        finding_lines(
            &json!({"nodes": [node("n", &ready(), json!({}))], "leases": [lease("n", JUST_NOW)], "events": events}),
        )
    };
    let early = "2026-06-01T11:45:00Z";
    let warned = lines(json!([event("Warning", "PodsUnclaimed", early)]));
    assert!(warned.iter().any(|line| line.starts_with("Warning PodsMissing: 1 recent event")), "{warned:?}");
    for (warning, well) in [("PodsUnclaimed", "PodsFound"), ("ClusterTrouble", "ClusterTroubleOver")] {
        let resolved = lines(json!([event("Warning", warning, early), event("Normal", well, JUST_NOW)]));
        assert!(resolved.iter().all(|line| !line.starts_with("Warning ")), "{resolved:?}");
    }
}
