//! Tests of printer columns.
#![allow(clippy::unwrap_used, reason = "tests")]

mod custom;
mod kinds;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, Columns, EVENTS, NODES, PODS, SECRETS, duration};

const NOW: &str = "2026-01-01T12:00:00Z";
const CREATED: &str = "2026-01-01T11:55:00Z";

/// All cells of an object, joined by ` | `.
fn line(columns: Columns, object: Value) -> String {
    let Value::Object(object) = object else { return String::new() };
    let cells = (columns.cells)(&object, NOW.parse::<Timestamp>().unwrap());
    assert_eq!(cells.len(), columns.heads.len());
    let texts = cells.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join(" | ")
}

/// Checks the first four columns of a pod: name, ready, status, restarts.
#[track_caller]
fn pod(spec: Value, status: Value, expected: &str) {
    let object =
        json!({"metadata": {"name": "a", "creationTimestamp": CREATED}, "spec": spec, "status": status});
    let line = line(PODS, object);
    assert_eq!(line.split(" | ").take(4).collect::<Vec<_>>().join(" | "), expected);
}

fn two_containers() -> Value {
    json!({"containers": [{"name": "a"}, {"name": "b"}]})
}

#[test]
fn running_pod_has_its_table_row() {
    let object = json!({
        "metadata": {"name": "web", "creationTimestamp": CREATED},
        "spec": {"containers": [{"name": "a"}], "nodeName": "n1", "readinessGates": [{"conditionType": "x/y"}, {"conditionType": "z"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "conditions": [{"type": "z", "status": "True"}],
            "containerStatuses": [{"name": "a", "ready": true, "restartCount": 0, "state": {"running": {}}}]},
    });
    assert_eq!(line(PODS, object), "web | 1/1 | Running | 0 | 5m | 10.0.0.1 | n1 | <none> | 1/2");
    assert_eq!(line(PODS, json!({})), " | 0/0 |  | 0 | <unknown> | <none> | <none> | <none> | <none>");
}

#[test]
fn the_first_failing_container_sets_the_status() {
    let waiting = |reason: &str| json!({"ready": false, "state": {"waiting": {"reason": reason}}});
    let running = json!({"ready": true, "state": {"running": {}}});
    pod(two_containers(), json!({"phase": "Pending"}), "a | 0/2 | Pending | 0");
    pod(
        two_containers(),
        json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating"), waiting("ErrImagePull")]}),
        "a | 0/2 | ContainerCreating | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Running", "containerStatuses": [running, waiting("CrashLoopBackOff")]}),
        "a | 1/2 | CrashLoopBackOff | 0",
    );
    pod(two_containers(), json!({"phase": "Failed", "reason": "Evicted"}), "a | 0/2 | Evicted | 0");
    let ended = |terminated: Value| json!({"ready": false, "state": {"terminated": terminated}});
    pod(
        two_containers(),
        json!({"phase": "Succeeded", "containerStatuses": [ended(json!({"exitCode": 0, "reason": "Completed"}))]}),
        "a | 0/2 | Completed | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 3}))]}),
        "a | 0/2 | ExitCode:3 | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 137, "signal": 9}))]}),
        "a | 0/2 | Signal:9 | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Running", "containerStatuses": [running, ended(json!({"reason": "Completed"}))]}),
        "a | 1/2 | NotReady | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running, ended(json!({"reason": "Completed"}))]}),
        "a | 1/2 | Running | 0",
    );
    pod(
        two_containers(),
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
        "a | 0/2 | SchedulingGated | 0",
    );
}

#[test]
fn init_containers_and_sidecars() {
    let spec = || json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}, {"name": "j"}]});
    let done = || json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    let sidecar =
        || json!({"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}});
    let of = |init: Value| json!({"phase": "Pending", "initContainerStatuses": init, "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]});
    pod(spec(), of(json!([{"name": "i", "state": {"running": {}}}])), "a | 0/2 | Init:0/3 | 0");
    pod(
        spec(),
        of(json!([done(), {"name": "s", "state": {"waiting": {"reason": "PodInitializing"}}}])),
        "a | 0/2 | Init:1/3 | 0",
    );
    pod(
        spec(),
        of(json!([done(), sidecar(), {"name": "j", "state": {"running": {}}}])),
        "a | 1/2 | Init:2/3 | 2",
    );
    pod(
        spec(),
        of(
            json!([done(), sidecar(), {"name": "j", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]),
        ),
        "a | 1/2 | Init:CrashLoopBackOff | 6",
    );
    pod(
        spec(),
        of(json!([{"name": "i", "state": {"terminated": {"exitCode": 2}}}])),
        "a | 0/2 | Init:ExitCode:2 | 0",
    );
    pod(
        spec(),
        of(json!([{"name": "i", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}])),
        "a | 0/2 | Init:Error | 0",
    );
    pod(
        spec(),
        json!({"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [{"name": "i", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}}, sidecar(), done()],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 1, "state": {"running": {}}}]}),
        "a | 2/2 | Running | 3",
    );
}

#[test]
fn restarts_and_ends() {
    let last = |at: &str| json!({"terminated": {"finishedAt": at}});
    pod(
        two_containers(),
        json!({"phase": "Running", "containerStatuses": [
            {"ready": true, "restartCount": 2, "lastState": last("2026-01-01T11:00:00Z"), "state": {"running": {}}},
            {"ready": true, "restartCount": 1, "lastState": last("2026-01-01T11:50:00Z"), "state": {"running": {}}}]}),
        "a | 2/2 | Running | 3 (10m ago)",
    );
    let gone = |status: Value| {
        line(PODS, json!({"metadata": {"name": "a", "deletionTimestamp": NOW}, "spec": {}, "status": status}))
    };
    assert!(gone(json!({"phase": "Running"})).contains("| Terminating |"));
    assert!(gone(json!({"phase": "Succeeded"})).contains("| Succeeded |"));
    assert!(gone(json!({"phase": "Running", "reason": "NodeLost"})).contains("| Unknown |"));
}

#[test]
fn other_objects() {
    let node = json!({
        "metadata": {"name": "n", "creationTimestamp": "2025-12-29T12:00:00Z",
            "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "x": "y"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v0.1.0", "osImage": "Debian"}},
    });
    assert_eq!(
        line(NODES, node),
        "n | NotReady,SchedulingDisabled | control-plane,worker | 3d | v0.1.0 | 10.0.0.1 | <none> | Debian | <unknown> | <unknown>"
    );
    let event = json!({
        "metadata": {"name": "web.1"}, "type": "Warning", "reason": "BackOff", "message": " again \n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{c}"},
        "firstTimestamp": CREATED, "lastTimestamp": "2026-01-01T11:59:50Z", "source": {"component": "kubelet", "host": "n"},
    });
    assert_eq!(
        line(EVENTS, event),
        "10s | Warning | BackOff | pod/web | spec.containers{c} | kubelet, n | again | 5m | 3 | web.1"
    );
    let event = json!({"eventTime": "2026-01-01T11:58:00.123456Z", "involvedObject": {"kind": "Node"}, "reportingComponent": "r",
        "series": {"count": 9, "lastObservedTime": "2026-01-01T11:59:59Z"}});
    assert_eq!(line(EVENTS, event), "1s |  |  | node |  | r |  | 119s | 9 | ");
    let config_map = json!({"metadata": {"name": "c", "creationTimestamp": CREATED}, "data": {"a": "1"}, "binaryData": {"b": "", "c": ""}});
    assert_eq!(line(CONFIG_MAPS, config_map), "c | 3 | 5m");
    let secret =
        json!({"metadata": {"name": "s", "creationTimestamp": CREATED}, "type": "Opaque", "data": {"a": ""}});
    assert_eq!(line(SECRETS, secret), "s | Opaque | 1 | 5m");
}

#[test]
fn ages() {
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    for (seconds, text) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 120, "7h2m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (50 * HOUR, "2d2h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (3000 * DAY, "8y"),
    ] {
        assert_eq!(duration(seconds), text, "{seconds}");
    }
}
