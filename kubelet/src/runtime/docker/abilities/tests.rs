//! Refusals of a real engine, and the container made again without what was refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn host(score: i64, privileged: bool, add: &[&str]) -> HostConfig {
    HostConfig {
        oom_score_adj: Some(score),
        privileged: Some(privileged),
        cap_add: Some(add.iter().map(|&cap| cap.to_owned()).collect()),
        ..HostConfig::default()
    }
}

#[test]
fn a_refusal_names_the_part_that_was_asked_for() {
    let pipe =
        "runc create failed: unable to start container process: can't get final child's PID from pipe: EOF";
    let newer = "write /proc/self/oom_score_adj: permission denied";
    let caps = "unable to start container process: unable to apply caps: operation not permitted";
    let other = "exec: \"nope\": executable file not found in $PATH";
    for (message, host, expected) in [
        (pipe, host(-998, false, &[]), Some(Part::OomScore)),
        (newer, host(-1, true, &[]), Some(Part::OomScore)),
        (pipe, host(1000, false, &[]), None),
        (caps, host(0, true, &["SYS_ADMIN"]), Some(Part::Privileged)),
        (caps, host(0, false, &["SYS_ADMIN"]), Some(Part::Capabilities)),
        (caps, host(0, false, &[]), None),
        (other, host(-998, true, &["SYS_ADMIN"]), None),
    ] {
        assert_eq!(refused_part(message, Some(&host)), expected, "{message}");
    }
}

#[test]
fn a_container_is_made_again_without_the_part() {
    let found: ContainerInspectResponse = serde_json::from_value(json!({
        "Id": "abc", "Image": "sha256:1234",
        "Config": {
            "Hostname": "web", "ExposedPorts": { "80/tcp": {} }, "Env": ["A=b"], "Cmd": ["run"], "Image": "busybox",
            "Labels": { "a": "b" },
        },
        "HostConfig": { "NetworkMode": "container:box", "OomScoreAdj": -997, "CapAdd": ["SYS_ADMIN", "NET_ADMIN"] },
    }))
    .unwrap();
    let mut body = again_without(found, Part::OomScore).unwrap();
    assert_eq!((&body.hostname, &body.exposed_ports), (&None, &None), "the sandbox's own");
    assert_eq!((body.image.as_deref(), &body.cmd), (Some("sha256:1234"), &Some(vec!["run".to_owned()])));
    leave_out(&mut body, Part::Capabilities);
    assert_eq!(body.host_config.as_ref().unwrap().oom_score_adj, Some(0));
    let all = body.labels.unwrap();
    assert_eq!(all["a"], "b");
    let without = done_without(all.get(labels::DONE_WITHOUT));
    assert_eq!(without, ["oom_score_adj -997", "capabilities SYS_ADMIN, NET_ADMIN"]);
}
