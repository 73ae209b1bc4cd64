//! Ranges and pods.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;

fn map(value: Value) -> Json {
    value.as_object().unwrap().clone()
}

fn limits(limits: Value) -> LimitRange {
    serde_json::from_value(json!({"spec": {"limits": limits}})).unwrap()
}

#[test]
fn defaults_of_limit_ranges_are_set_and_annotated() {
    let range = limits(json!([
        {"type": "Container", "default": {"memory": "512Mi", "cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "max": {"cpu": "2"}},
    ]));
    let mut pod = map(json!({"spec": {
        "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"memory": "1Gi"}}}],
    }}));
    apply_defaults(&mut pod, &range, &BTreeSet::new());
    let full = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "512Mi", "cpu": "1"}});
    assert_eq!(pod["spec"]["containers"][0]["resources"], full);
    assert_eq!(pod["spec"]["containers"][1]["resources"]["limits"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(
        pod["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
         cpu request for init container i; cpu limit for init container i"
    );
    let once = pod.clone();
    apply_defaults(&mut pod, &range, &BTreeSet::new());
    assert_eq!(pod["spec"], once["spec"]);
    let mut untouched = map(json!({"spec": {"containers": [{"name": "a"}]}}));
    apply_defaults(&mut untouched, &limits(json!([])), &BTreeSet::new());
    assert_eq!(Value::from(untouched), json!({"spec": {"containers": [{"name": "a"}]}}));
}

#[test]
fn added_containers_get_the_default_limits() {
    let range = limits(json!([{"type": "Container", "default": {"memory": "512Mi"}}]));
    let mut pod = map(json!({
        "metadata": {"annotations": {ANNOTATION: "as it was made"}},
        "spec": {"containers": [{"name": "old"}, {"name": "new"}], "initContainers": [{"name": "first"}]},
    }));
    apply_defaults(&mut pod, &range, &BTreeSet::from(["old".to_owned()]));
    let filled = json!({"limits": {"memory": "512Mi"}});
    let expected = json!({
        "metadata": {"annotations": {ANNOTATION: "as it was made"}},
        "spec": {
            "containers": [{"name": "old"}, {"name": "new", "resources": filled}],
            "initContainers": [{"name": "first", "resources": filled}],
        },
    });
    assert_eq!(Value::from(pod), expected);
}

#[test]
fn violations_have_the_stock_messages() {
    let container = |requests: Value, limits: Value| {
        map(
            json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}}),
        )
    };
    let of = |kind: &str, field: &str, amounts: Value| limits(json!([{"type": kind, field: amounts}]));
    for (range, pod, expected) in [
        (
            of("Container", "min", json!({"cpu": "100m"})),
            container(json!({"cpu": "50m"}), json!({})),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            of("Container", "min", json!({"cpu": "100m"})),
            container(json!({}), json!({})),
            "minimum cpu usage per Container is 100m.  No request is specified",
        ),
        (
            of("Container", "max", json!({"memory": "1Gi"})),
            container(json!({"memory": "1Gi"}), json!({"memory": "2Gi"})),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            of("Pod", "max", json!({"memory": "1Gi"})),
            container(json!({"memory": "1Gi"}), json!({})),
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            of("Container", "maxLimitRequestRatio", json!({"memory": "3"})),
            container(json!({"memory": "100M"}), json!({"memory": "500M"})),
            "memory max limit to request ratio per Container is 3, but provided ratio is 5.000000",
        ),
        (
            of("Container", "maxLimitRequestRatio", json!({"cpu": "1500m"})),
            container(json!({"cpu": "1"}), json!({"cpu": "1500m"})),
            "",
        ),
        (
            of("Container", "max", json!({"cpu": "1", "memory": "1Gi"})),
            container(json!({}), json!({})),
            "maximum cpu usage per Container is 1.  No limit is specified|maximum memory usage per Container is 1Gi.  No limit is specified",
        ),
    ] {
        assert_eq!(check::pod(&pod, &range).join("|"), expected);
    }
    let claim = |storage: &str| map(json!({"spec": {"resources": {"requests": {"storage": storage}}}}));
    let range = of("PersistentVolumeClaim", "max", json!({"storage": "2Gi"}));
    assert_eq!(
        check::claim(&claim("3Gi"), &range),
        ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
    );
    assert!(check::claim(&claim("2Gi"), &range).is_empty());
}
