//! Merging of pod and container security contexts.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{of, seccomp_file};
use crate::runtime::Image;
use crate::runtime::spec::Security;
use crate::spec::ConfigError;

fn pod(of_pod: &Value, of_container: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
        "securityContext": of_pod, "containers": [{"name": "c", "securityContext": of_container}]}}))
    .unwrap()
}

fn make(of_pod: Value, of_container: Value, user: &str) -> Result<Security, ConfigError> {
    let pod = pod(&of_pod, &of_container);
    let image = Image { user: user.to_owned(), ..Image::default() };
    of(&pod, &pod.spec.as_ref().unwrap().containers[0], &image, None)
}

#[test]
fn users_and_groups() {
    for (of_pod, of_container, image, user, groups) in [
        (json!({}), json!({}), "", None, ""),
        (json!({}), json!({}), "web", None, ""),
        (json!({"runAsUser": 1}), json!({}), "web", Some("1"), ""),
        (json!({"runAsUser": 1}), json!({"runAsUser": 0}), "web", Some("0"), ""),
        (json!({"runAsUser": 1, "runAsGroup": 2}), json!({}), "", Some("1:2"), ""),
        (json!({"runAsUser": 1, "runAsGroup": 2}), json!({"runAsGroup": 3}), "", Some("1:3"), ""),
        (json!({"runAsGroup": 2}), json!({}), "", Some("0:2"), ""),
        (json!({"runAsGroup": 2}), json!({}), "web:staff", Some("web:2"), ""),
        (json!({"fsGroup": 5, "supplementalGroups": [6, 5, 7]}), json!({}), "", None, "5 6 7"),
    ] {
        let made = make(of_pod.clone(), of_container.clone(), image).unwrap();
        assert_eq!(
            (made.user.as_deref(), made.groups.join(" ").as_str()),
            (user, groups),
            "{of_pod} {of_container}"
        );
    }
}

#[test]
fn run_as_non_root_rejects_root() {
    let must = || json!({"runAsNonRoot": true});
    for (of_pod, of_container, image, refusal) in [
        (must(), json!({}), "1000", None),
        (must(), json!({}), "1000:0", None),
        (must(), json!({"runAsUser": 1}), "web", None),
        (must(), json!({"runAsNonRoot": false}), "", None),
        (json!({}), must(), "", Some("image will run as root")),
        (must(), json!({}), "0", Some("image will run as root")),
        (must(), json!({}), "web", Some("non-numeric user (web), cannot verify user is non-root")),
        (must(), json!({"runAsUser": 0}), "1000", Some("runAsUser breaks non-root policy")),
        (json!({"runAsUser": 0}), must(), "1000", Some("runAsUser breaks non-root policy")),
    ] {
        let result = make(of_pod, of_container, image);
        match refusal {
            None => assert!(result.is_ok(), "{result:?}"),
            Some(words) => {
                let error = result.unwrap_err();
                assert_eq!(error.reason, "CreateContainerConfigError");
                assert!(error.message.contains(words), "{error}");
                assert!(error.message.ends_with("(pod: \"p_n\", container: c)"), "{error}");
            }
        }
    }
}

#[test]
fn options() {
    let unconfined =
        || json!({"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}});
    let default = || json!({"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "RuntimeDefault"}});
    for (of_pod, of_container, expected) in [
        (json!({}), json!({}), ""),
        (default(), json!({}), ""),
        (unconfined(), json!({}), "seccomp=unconfined apparmor=unconfined"),
        (unconfined(), default(), ""),
        (
            json!({}),
            json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}}),
            "apparmor=mine",
        ),
        (json!({}), json!({"allowPrivilegeEscalation": false}), "no-new-privileges"),
        (json!({}), json!({"allowPrivilegeEscalation": true}), ""),
        (json!({}), json!({"procMount": "Unmasked"}), "systempaths=unconfined"),
        (
            json!({"seLinuxOptions": {"level": "s0:c1,c2", "type": "t"}}),
            json!({}),
            "label=type:t label=level:s0:c1,c2",
        ),
        (
            json!({"seLinuxOptions": {"level": "s0"}}),
            json!({"seLinuxOptions": {"user": "u"}}),
            "label=user:u",
        ),
    ] {
        let made = make(of_pod.clone(), of_container.clone(), "").unwrap();
        assert_eq!(made.options.join(" "), expected, "{of_pod} {of_container}");
    }
}

#[test]
fn security_context_sets_capabilities_and_other_options() {
    let made = make(
        json!({}),
        json!({"capabilities": {"add": ["CAP_NET_ADMIN", "sys_time", "ALL"], "drop": ["ALL"]},
            "privileged": true, "readOnlyRootFilesystem": true}),
        "",
    )
    .unwrap();
    assert_eq!(
        (made.add.join(" ").as_str(), made.drop.join(" ").as_str()),
        ("NET_ADMIN SYS_TIME ALL", "ALL")
    );
    assert!(made.privileged && made.read_only_root);
    let error = make(json!({"supplementalGroupsPolicy": "Strict"}), json!({}), "").unwrap_err();
    assert!(error.message.contains("supplementalGroupsPolicy"));
}

#[test]
fn localhost_seccomp_profile_is_read_or_reported_as_missing() {
    let pod = pod(
        &json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/audit.json"}}),
        &json!({}),
    );
    let container = &pod.spec.as_ref().unwrap().containers[0];
    assert_eq!(seccomp_file(&pod, container), Some("profiles/audit.json"));
    let made = of(&pod, container, &Image::default(), Some("{}")).unwrap();
    assert_eq!(made.options, ["seccomp={}"]);
    let error = of(&pod, container, &Image::default(), None).unwrap_err();
    assert!(error.message.contains("profiles/audit.json"), "{error}");
}
