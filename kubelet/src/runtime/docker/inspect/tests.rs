//! Conversion of inspections of a real engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::*;

const NODE: &str = "n1";

fn inspect_raw(container: &str, state: Value) -> ContainerInspectResponse {
    serde_json::from_value(json!({
        "Id": "abc",
        "Created": "2026-11-21T10:00:00.5Z",
        "Image": "sha256:1234",
        "State": state,
        "Config": { "Labels": {
            "io.kubernetes.node.name": NODE,
            "io.kubernetes.pod.name": "web-n1",
            "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.uid": "u1",
            "io.kubernetes.container.name": container,
            "io.kubernetes.container.attempt": "3",
            "io.kubernetes.container.hash": "h",
            "io.coracle.container.back-off-ms": "20000",
            "io.coracle.sandbox.id": "box",
            "io.coracle.container.image": "busybox:1",
            "io.coracle.container.termination-message-policy": "File",
            "maintainer": "of the image",
        } },
        "NetworkSettings": { "Networks": {
            "bridge": { "IPAddress": "172.17.0.5", "GlobalIPv6Address": "2001:db8::5" },
        } },
    }))
    .unwrap()
}

fn state_of(state: Value) -> State {
    match convert(NODE, inspect_raw("app", state)) {
        Some(Inspected::Container(_, container)) => container.state,
        other => panic!("not a container: {other:?}"),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn container_is_identified_by_its_labels() {
    let Some(Inspected::Container(identity, container)) =
        convert(NODE, inspect_raw("app", json!({ "Status": "created" })))
    else {
        panic!("not a container")
    };
    assert_eq!(identity.engine_name(), "k8s_app_web-n1_default_u1_3");
    assert_eq!((container.attempt, container.back_off), (3, Duration::from_secs(20)));
    assert_eq!((container.image.as_str(), container.image_id.as_str()), ("busybox:1", "sha256:1234"));
    assert_eq!(container.sandbox_id, "box");
    assert_eq!(container.state, State::Created);
    assert_eq!(container.notes.keys().collect::<Vec<_>>(), [labels::TERMINATION_POLICY]);
}

#[test]
fn a_sandbox_has_the_addresses_of_both_families() {
    let running = json!({ "Status": "running", "StartedAt": "2026-11-21T10:00:01Z", "Pid": 42 });
    let Some(Inspected::Sandbox(_, sandbox)) = convert(NODE, inspect_raw("POD", running)) else {
        panic!("not a sandbox")
    };
    assert_eq!(sandbox.ips, ["172.17.0.5".parse::<IpAddr>().unwrap(), "2001:db8::5".parse().unwrap()]);
    assert_eq!(sandbox.state, State::Running { started_at: at("2026-11-21T10:00:01Z"), pid: 42 });
}

#[test]
fn containers_of_another_node_or_of_no_node_are_ignored() {
    assert!(convert("n2", inspect_raw("app", json!({}))).is_none());
    let mut unlabelled = inspect_raw("app", json!({}));
    unlabelled.config.as_mut().unwrap().labels.as_mut().unwrap().remove(labels::POD_UID);
    assert!(convert(NODE, unlabelled).is_none());
}

#[test]
fn a_start_that_failed_is_an_exit_that_never_started() {
    let failed = json!({
        "Status": "created", "ExitCode": 127,
        "Error": "failed to create shim task: OCI runtime create failed: runc create failed: exec: \"nope\": not found: unknown",
        "StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z",
    });
    let State::Exited(exit) = state_of(failed) else { panic!("not exited") };
    assert_eq!((exit.code, exit.error.as_deref()), (127, Some("exec: \"nope\": not found")));
    assert_eq!((exit.started_at, exit.finished_at), (None, at("2026-11-21T10:00:00.5Z")));
}

#[test]
fn start_in_an_ended_sandbox_is_not_an_exit() {
    let failed = json!({
        "Status": "created", "ExitCode": 128, "Error": "cannot join network of a non running container: 565e",
        "StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z",
    });
    assert_eq!(state_of(failed), State::Created);
}

#[test]
fn an_exit_keeps_its_code_times_and_reason() {
    let exited = json!({
        "Status": "exited", "ExitCode": 137, "OOMKilled": true, "Error": "",
        "StartedAt": "2026-11-21T10:00:01Z", "FinishedAt": "2026-11-21T10:00:09Z",
    });
    let expected = Exit {
        code: 137,
        oom_killed: true,
        error: None,
        started_at: Some(at("2026-11-21T10:00:01Z")),
        finished_at: at("2026-11-21T10:00:09Z"),
    };
    assert_eq!(state_of(exited), State::Exited(expected));
}

#[test]
fn a_process_that_ended_before_docker_noted_its_start_ends_when_it_started() {
    let quick = json!({
        "Status": "exited", "ExitCode": 0,
        "StartedAt": "2026-11-21T10:00:01.02Z", "FinishedAt": "2026-11-21T10:00:01.01Z",
    });
    let State::Exited(exit) = state_of(quick) else { panic!("not exited") };
    assert_eq!(exit.started_at, Some(exit.finished_at));
}

#[test]
fn a_paused_container_runs() {
    let paused = json!({ "Status": "paused", "StartedAt": "2026-11-21T10:00:01Z", "Pid": 7 });
    assert!(state_of(paused).is_running());
}

#[tokio::test]
async fn only_the_end_of_a_termination_message_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x".repeat(10_000) + "end").unwrap();
    let read = read_end(file.path().to_str().unwrap()).await.unwrap();
    assert_eq!((read.len(), &read[4093..]), (4096, &b"end"[..]));
}
