//! Resolution of containers, with the stock kubelet's error messages.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::ServedPod;

fn pod(object: Value) -> ServedPod {
    let Value::Object(object) = object else { unreachable!() };
    ServedPod { name: "web".to_owned(), object }
}

fn with_status(status: Value) -> ServedPod {
    pod(json!({
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }))
}

#[test]
fn log_request_selects_the_current_or_previous_container() {
    let ended = |id: &str| json!({"terminated": {"exitCode": 0, "containerID": id}});
    let waiting = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
    for (status, previous, expected) in [
        (json!({"name": "c", "containerID": "docker://x", "state": {"running": {}}}), false, Ok("x")),
        (json!({"name": "c", "state": ended("docker://y")}), false, Ok("y")),
        (
            json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended("docker://z")}),
            false,
            Ok("z"),
        ),
        (
            json!({"name": "c", "containerID": "docker://x", "state": {"running": {}}, "lastState": ended("docker://z")}),
            true,
            Ok("z"),
        ),
        (
            json!({"name": "c", "state": {"running": {}}}),
            true,
            Err("previous terminated container \"c\" in pod \"web\" not found"),
        ),
        (
            json!({"name": "c", "state": ended("")}),
            false,
            Err("container \"c\" in pod \"web\" is terminated"),
        ),
        (
            waiting("ContainerCreating"),
            false,
            Err("container \"c\" in pod \"web\" is waiting to start: ContainerCreating"),
        ),
        (
            waiting("ErrImagePull"),
            false,
            Err("container \"c\" in pod \"web\" is waiting to start: image can't be pulled"),
        ),
        (
            waiting("ImagePullBackOff"),
            false,
            Err("container \"c\" in pod \"web\" is waiting to start: trying and failing to pull image"),
        ),
        (
            json!({"name": "c"}),
            false,
            Err("container \"c\" in pod \"web\" is waiting to start - no logs yet"),
        ),
        (json!({"name": "d"}), false, Err("container \"c\" in pod \"web\" is not available")),
    ] {
        let found = with_status(status).with_log("c", previous).map_err(|error| error.message);
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }
}

#[test]
fn exec_requires_a_running_container() {
    let running = with_status(json!({"name": "c", "containerID": "docker://x", "state": {"running": {}}}));
    assert_eq!(running.running("c").unwrap(), "x");
    let ended = with_status(json!({"name": "c", "state": {"terminated": {}}}));
    assert_eq!(ended.running("c").unwrap_err().code, 404);
    let done = pod(json!({"status": {"phase": "Succeeded"}}));
    assert_eq!(
        done.running("c").unwrap_err().message,
        "cannot exec into a container in a completed pod; current phase is Succeeded"
    );
}
