//! Tests of the strategy of Pods.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use crate::strategy::tests::{Case, change, refused, stored};
use crate::strategy::{Json, Part};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "activeDeadlineSeconds": 100,
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "image": "web:1", "x-unknown": 1,
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        },
    })
}

fn gated() -> Json {
    let mut pod = pod();
    pod["spec"]["schedulingGates"] = json!([{"name": "a.b/c"}, {"name": "a.b/d"}]);
    stored(&pod)
}

const FREE: &str = "pod updates may not change fields other than `spec.containers[*].image`";

#[test]
fn new_pod_is_pending_with_all_defaults() {
    let case = Case::new(pod());
    assert_eq!(case.at("/status"), json!({"phase": "Pending", "qosClass": "Burstable"}));
    assert_eq!(case.at("/spec/restartPolicy"), "Always");
    assert_eq!(case.at("/spec/containers/0/imagePullPolicy"), "IfNotPresent");
    assert_eq!(case.at("/spec/containers/0/x-unknown"), 1, "what the types do not know stays");
    let conditions = Value::Object(gated())["status"]["conditions"].clone();
    assert_eq!(conditions[0]["reason"], "SchedulingGated");
}

#[test]
fn invalid_pod_is_rejected_with_the_stock_messages() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 9] = [
        (|pod| pod["spec"]["containers"] = json!([]), "spec.containers", "Required value"),
        (
            |pod| pod["spec"]["containers"][0]["name"] = "A b".into(),
            "spec.containers[0].name",
            "Invalid value: \"A b\": a lowercase RFC 1123 label must",
        ),
        (
            |pod| pod["spec"]["containers"][0]["image"] = json!(null),
            "spec.containers[0].image",
            "Required value",
        ),
        (
            |pod| pod["spec"]["restartPolicy"] = "x".into(),
            "spec.restartPolicy",
            "Unsupported value: \"x\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            |pod| {
                pod["spec"]["containers"] = json!([{"name": "c", "image": "a"}, {"name": "c", "image": "a"}])
            },
            "spec.containers[1].name",
            "Duplicate value: \"c\"",
        ),
        (
            |pod| pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "50m"}),
            "spec.containers[0].resources.requests[cpu]",
            "Invalid value: \"100m\"",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "a"}]),
            "spec.ephemeralContainers",
            "cannot be set on create",
        ),
        (
            |pod| {
                pod["spec"]["schedulingGates"] = json!([{"name": "a"}]);
                pod["spec"]["nodeName"] = "n".into();
            },
            "spec.nodeName",
            "scheduling gates",
        ),
        (
            |pod| pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": "x"}]),
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: \"x\"",
        ),
    ];
    for (change, field, words) in cases {
        refused(&pod(), change, field, words);
    }
}

#[test]
fn few_pod_fields_are_mutable() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 14] = [
        (|pod| pod["spec"]["containers"][0]["image"] = "web:2".into(), "", ""),
        (|pod| pod["metadata"]["labels"] = json!({"a": "b"}), "", ""),
        (|pod| pod["spec"]["activeDeadlineSeconds"] = 50.into(), "", ""),
        (|pod| pod["spec"]["tolerations"][0]["tolerationSeconds"] = 5.into(), "", ""),
        (
            |pod| pod["spec"]["tolerations"].as_array_mut().unwrap().push(json!({"operator": "Exists"})),
            "",
            "",
        ),
        (
            |pod| pod["spec"]["activeDeadlineSeconds"] = 200.into(),
            "spec.activeDeadlineSeconds",
            "must be less than or equal to previous value",
        ),
        (
            |pod| drop(pod["spec"].as_object_mut().unwrap().remove("activeDeadlineSeconds")),
            "spec.activeDeadlineSeconds",
            "must not update from",
        ),
        (
            |pod| pod["spec"]["tolerations"] = json!([]),
            "spec.tolerations",
            "existing tolerations can not be modified",
        ),
        (|pod| pod["spec"]["containers"][0]["args"] = json!(["x"]), "spec", FREE),
        (|pod| pod["spec"]["nodeName"] = "n".into(), "spec", FREE),
        (|pod| pod["spec"]["nodeSelector"]["more"] = "x".into(), "spec", FREE),
        (|pod| pod["spec"]["terminationGracePeriodSeconds"] = 5.into(), "spec", FREE),
        (
            |pod| pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "d", "image": "i"})),
            "spec.containers",
            "may not add or remove containers",
        ),
        (
            |pod| pod["spec"]["schedulingGates"] = json!([{"name": "a"}]),
            "spec.schedulingGates[0].name",
            "only deletion is allowed",
        ),
    ];
    let before = stored(&pod());
    for (update, field, words) in cases {
        change(&before, &Part::Main, update, field, words);
    }
}

#[test]
fn gated_pod_may_restrict_its_node_selector() {
    type Change = fn(&mut Value);
    let terms = |value: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": value}}});
    let cases: [(Change, &str, &str); 5] = [
        (|pod| drop(pod["spec"]["schedulingGates"].as_array_mut().unwrap().remove(0)), "", ""),
        (|pod| drop(pod["spec"].as_object_mut().unwrap().remove("schedulingGates")), "", ""),
        (|pod| pod["spec"]["nodeSelector"]["more"] = "x".into(), "", ""),
        (|pod| pod["spec"]["nodeSelector"]["disk"] = "hdd".into(), "spec.nodeSelector", "only additions"),
        (
            |pod| pod["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}),
            "spec",
            FREE,
        ),
    ];
    for (update, field, words) in cases {
        change(&gated(), &Part::Main, update, field, words);
    }
    let expression = |key: &str| json!({"key": key, "operator": "Exists"});
    let first = Case::update(&gated(), &Part::Main, |pod| {
        pod["spec"]["affinity"] = terms(json!([{"matchExpressions": [expression("a")]}]));
    });
    assert_eq!(first.messages(&Part::Main), [] as [&str; 0]);
    let narrower = terms(json!([{"matchExpressions": [expression("a"), expression("b")]}]));
    change(&first.object, &Part::Main, |pod| pod["spec"]["affinity"] = narrower, "", "");
    let other = terms(json!([{"matchExpressions": [expression("b")]}]));
    let field =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    change(&first.object, &Part::Main, |pod| pod["spec"]["affinity"] = other, field, "only additions");
}

#[test]
fn ephemeral_containers_are_permanent() {
    let part = Part::Sub("ephemeralcontainers");
    let before = stored(&pod());
    let debug = json!({"name": "debug", "image": "busybox", "targetContainerName": "c"});
    let with = Case::update(&before, &part, |pod| {
        pod["spec"]["ephemeralContainers"] = json!([debug]);
        pod["spec"]["nodeName"] = "ignored".into();
    });
    assert_eq!(with.messages(&part), [] as [&str; 0]);
    assert_eq!(with.at("/spec/nodeName"), Value::Null, "the rest is not looked at");
    assert_eq!(with.at("/spec/ephemeralContainers/0/imagePullPolicy"), "Always");
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 8] = [
        (
            |pod| pod["spec"]["ephemeralContainers"] = json!([]),
            "spec.ephemeralContainers",
            "may not be removed",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"][0]["image"] = "x".into(),
            "spec.ephemeralContainers",
            "may not be changed",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"][1] = json!({"name": "c", "image": "x"}),
            "spec.ephemeralContainers[1].name",
            "Duplicate value",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"][1] = json!({"name": "d"}),
            "spec.ephemeralContainers[1].image",
            "Required value",
        ),
        (
            |pod| {
                pod["spec"]["ephemeralContainers"][1] =
                    json!({"name": "d", "image": "x", "targetContainerName": "z"})
            },
            "spec.ephemeralContainers[1].targetContainerName",
            "Not found: \"z\"",
        ),
        (
            |pod| {
                pod["spec"]["ephemeralContainers"][1] =
                    json!({"name": "d", "image": "x", "ports": [{"containerPort": 1}]})
            },
            "spec.ephemeralContainers[1].ports",
            "cannot be set for an Ephemeral Container",
        ),
        (
            |pod| {
                pod["spec"]["ephemeralContainers"][1] =
                    json!({"name": "d", "image": "x", "resources": {"limits": {"cpu": 1}}})
            },
            "spec.ephemeralContainers[1].resources",
            "cannot be set for an Ephemeral Container",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"][1] = json!({"name": "d", "image": "x", "resources": {}}),
            "",
            "",
        ),
    ];
    for (update, field, words) in cases {
        let update = |pod: &mut Value| {
            pod["spec"]["ephemeralContainers"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "e", "image": "x"}));
            update(pod);
        };
        change(&with.object, &part, update, field, words);
    }
    change(&with.object, &Part::Main, |pod| pod["metadata"]["labels"] = json!({"a": "b"}), "", "");
    change(&with.object, &Part::Main, |pod| pod["spec"]["ephemeralContainers"] = json!([]), "spec", FREE);
}

#[test]
fn resize_changes_only_resources() {
    let part = Part::Sub("resize");
    let before = stored(&pod());
    let more = Case::update(&before, &part, |pod| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m".into();
        pod["spec"]["containers"][0]["image"] = "ignored".into();
    });
    assert_eq!(more.messages(&part), [] as [&str; 0]);
    assert_eq!(more.at("/spec/containers/0/resources/requests/cpu"), "200m");
    assert_eq!(more.at("/spec/containers/0/image"), "web:1");
    let exact = |pod: &mut Value| {
        let amounts = pod["spec"]["containers"][0]["resources"]["requests"].clone();
        pod["spec"]["containers"][0]["resources"]["limits"] = amounts;
    };
    change(&before, &part, exact, "status.qosClass", "may not change as a result of resizing");
    let device = |pod: &mut Value| {
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"a.b/c": "1"});
    };
    change(&before, &part, device, "spec.containers[0].resources.limits[a.b/c]", "only cpu and memory");
}

#[test]
fn terminated_containers_cannot_restart() {
    let mut pod = pod();
    pod["spec"]["restartPolicy"] = "Never".into();
    let before = stored(&pod);
    let ended = Case::update(&before, &Part::Status, |pod| {
        pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": {"exitCode": 1}}}]);
        pod["status"].as_object_mut().unwrap().remove("qosClass");
    });
    assert_eq!(ended.messages(&Part::Status), [] as [&str; 0]);
    assert_eq!(ended.at("/status/qosClass"), "Burstable");
    let again = |pod: &mut Value| {
        pod["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
    };
    change(&ended.object, &Part::Status, again, "status.containerStatuses[0].state", "non-terminated");
}

#[test]
fn unchanged_pods_are_checked() {
    const PROFILE: &str = "container.apparmor.security.beta.kubernetes.io/none";
    let before = stored(&pod());
    let metadata = |pod: &mut Value| pod["metadata"]["annotations"] = json!({"a": "b"});
    change(&before, &Part::Main, metadata, "", "");
    let profile = |pod: &mut Value| pod["metadata"]["annotations"] = json!({PROFILE: "unconfined"});
    change(
        &before,
        &Part::Main,
        profile,
        &format!("metadata.annotations[{PROFILE}]"),
        "there is no container",
    );
}
