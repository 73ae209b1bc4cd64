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
