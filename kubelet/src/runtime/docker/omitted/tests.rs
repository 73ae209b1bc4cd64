//! Error messages of a real engine, and containers recreated without a feature.
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
fn engine_rejection_is_mapped_to_the_requested_setting() {
    for (cause, host, expected) in [
        (Refusal::ChildDied, host(-998, false, &[]), Some(Part::OomScore)),
        (Refusal::OomScore, host(-1, true, &[]), Some(Part::OomScore)),
        (Refusal::ChildDied, host(1000, false, &[]), None),
        (Refusal::Capabilities, host(0, true, &["SYS_ADMIN"]), Some(Part::Privileged)),
        (Refusal::Capabilities, host(0, false, &["SYS_ADMIN"]), Some(Part::Capabilities)),
        (Refusal::Capabilities, host(0, false, &[]), None),
        (Refusal::Other, host(-998, true, &["SYS_ADMIN"]), None),
    ] {
        assert_eq!(refused_part(cause, Some(&host)), expected, "{cause:?}");
    }
}

#[test]
fn container_is_created_again_without_the_rejected_setting() {
    let found: ContainerInspectResponse = serde_json::from_value(json!({
        "Id": "abc", "Image": "sha256:1234",
        "Config": {
            "Hostname": "web", "ExposedPorts": { "80/tcp": {} }, "Env": ["A=b"], "Cmd": ["run"], "Image": "busybox",
            "Labels": { "a": "b" },
        },
        "HostConfig": { "NetworkMode": "container:box", "OomScoreAdj": -997, "CapAdd": ["SYS_ADMIN", "NET_ADMIN"] },
    }))
    .unwrap();
    let mut body = body_without(found, Part::OomScore, &[]).unwrap();
    assert_eq!((&body.hostname, &body.exposed_ports), (&None, &None), "the sandbox's own");
    assert_eq!((body.image.as_deref(), &body.cmd), (Some("sha256:1234"), &Some(vec!["run".to_owned()])));
    leave_out(&mut body, Part::Capabilities, &[]);
    assert_eq!(body.host_config.as_ref().unwrap().oom_score_adj, Some(0));
    let all = body.labels.unwrap();
    assert_eq!(all["a"], "b");
    let omitted = omitted_parts(all.get(labels::OMITTED_PARTS));
    assert_eq!(omitted, ["oom_score_adj -997", "capabilities SYS_ADMIN, NET_ADMIN"]);
}

fn left_out(host: HostConfig, part: Part, lacking: &[&str]) -> (HostConfig, String) {
    let mut body = ContainerCreateBody { host_config: Some(host), ..ContainerCreateBody::default() };
    leave_out(&mut body, part, lacking);
    (body.host_config.unwrap(), body.labels.unwrap()[labels::OMITTED_PARTS].clone())
}

#[test]
fn available_capabilities_are_kept() {
    let lacking = ["SYS_RESOURCE", "BPF"];
    for (requested, add, drop, omitted) in [
        (vec!["NET_ADMIN", "CAP_SYS_RESOURCE"], vec!["NET_ADMIN"], vec![], "capabilities CAP_SYS_RESOURCE"),
        (vec!["ALL"], vec!["ALL"], vec!["SYS_RESOURCE", "BPF"], "capabilities SYS_RESOURCE, BPF"),
        (vec!["NET_ADMIN"], vec![], vec![], "capabilities NET_ADMIN"),
    ] {
        let (left, label) = left_out(host(0, false, &requested), Part::Capabilities, &lacking);
        assert_eq!(left.cap_add.unwrap_or_default(), add, "{requested:?}");
        assert_eq!(left.cap_drop.unwrap_or_default(), drop, "{requested:?}");
        assert_eq!(label, omitted);
    }
}

#[test]
fn privileged_container_keeps_available_settings() {
    let requested =
        HostConfig { security_opt: Some(vec!["seccomp=profile".to_owned()]), ..host(0, true, &[]) };
    let (left, label) = left_out(requested, Part::Privileged, &["SYS_RESOURCE"]);
    assert_eq!((left.privileged, left.cap_add), (Some(false), Some(vec!["ALL".to_owned()])));
    assert_eq!(left.cap_drop, Some(vec!["SYS_RESOURCE".to_owned()]));
    assert_eq!(left.security_opt.unwrap(), ["seccomp=profile", "apparmor=unconfined"]);
    assert_eq!(label, "privileged (it has all but SYS_RESOURCE and the host's devices)");
    let (left, label) = left_out(host(0, true, &[]), Part::Privileged, &[]);
    assert_eq!(
        (left.privileged, label.as_str()),
        (Some(false), "privileged"),
        "nothing is known of the engine"
    );
    assert_eq!(left.cap_add, Some(Vec::new()));
}
