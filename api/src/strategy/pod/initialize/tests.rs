//! Tests of the changes that a pod initializer may make.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::{SET_FIELD_IS_IMMUTABLE, is_digest_of};
use crate::strategy::tests::{Case, change, stored};
use crate::strategy::{Json, Part};

const PART: Part<'static> = Part::Sub("finalize");
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn gated() -> Json {
    stored(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "web", "edge": ""}, "annotations": {"by": ""}},
        "spec": {
            "schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/d"}],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            "nodeSelector": {"disk": "ssd", "gpu": ""},
            "priority": 0,
            "securityContext": {},
            "subdomain": "",
            "imagePullSecrets": [],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {"name": "c", "image": "reg:5000/web:1", "args": ["x"], "x-unknown": [1],
                 "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                 "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                {"name": "d", "image": "log", "resources": {"requests": {"cpu": "100m"}}},
            ],
        },
    }))
}

/// Sets the value at a JSON pointer.
fn put(pod: &mut Value, pointer: &str, value: &Value) {
    let mut here = pod;
    for step in pointer.split('/').skip(1) {
        here = match (here.is_array(), step.parse::<usize>()) {
            (true, Ok(at)) => &mut here[at],
            _ => &mut here[step],
        };
    }
    *here = value.clone();
}

#[test]
fn missing_fields_can_be_set() {
    let named = |name: &str| json!({"name": name, "value": "x"});
    let (a, b) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
    let mut containers = gated()["spec"]["containers"].clone();
    containers.as_array_mut().unwrap().insert(1, json!({"name": "between", "image": "i"}));
    let expression = |key: &str| json!({"key": key, "operator": "Exists"});
    for (pointer, value) in [
        ("/spec/containers/0/resources/limits", json!({"memory": "1Gi"})),
        ("/spec/containers/1/resources/limits", json!({"cpu": "1"})),
        ("/spec/containers/1/resources/requests/memory", json!("1Gi")),
        ("/spec/containers/0/image", json!(format!("reg:5000/web@{DIGEST}"))),
        ("/spec/containers/1/image", json!(format!("log@{DIGEST}"))),
        ("/spec/containers/0/command", json!(["/web"])),
        ("/spec/containers/0/env", json!([named("first"), a, named("between"), b, named("last")])),
        ("/spec/containers/0/livenessProbe", json!({"exec": {"command": ["true"]}})),
        ("/spec/containers/0/securityContext", json!({"runAsUser": 7})),
        ("/spec/containers", containers),
        ("/spec/initContainers", json!([{"name": "i", "image": "i"}])),
        ("/spec/volumes", json!([{"name": "more", "emptyDir": {}}, {"name": "v", "emptyDir": {}}])),
        ("/spec/volumes/0/emptyDir/sizeLimit", json!("1Gi")),
        ("/spec/securityContext", json!({"fsGroup": 7})),
        ("/spec/subdomain", json!("web")),
        ("/spec/subdomain", json!(null)),
        ("/spec/imagePullSecrets", json!(null)),
        ("/spec/nodeSelector/zone", json!("x")),
        (
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
            json!([{"matchExpressions": [expression("a"), expression("b")]}]),
        ),
        ("/spec/affinity/podAntiAffinity", json!({"preferredDuringSchedulingIgnoredDuringExecution": []})),
        ("/spec/tolerations/1", json!({"key": "b", "operator": "Exists"})),
        ("/spec/tolerations/0/tolerationSeconds", json!(5)),
        ("/spec/priorityClassName", json!("high")),
        ("/spec/hostname", json!("web")),
        ("/spec/imagePullSecrets", json!([{"name": "s"}])),
        ("/spec/schedulingGates", json!([{"name": "a.b/d"}])),
        ("/spec/schedulingGates", json!(null)),
        ("/metadata/labels/more", json!("x")),
        ("/metadata/annotations", json!({"a": "b", "by": ""})),
    ] {
        let fill = |pod: &mut Value| {
            if pointer == "/spec/tolerations/1" {
                pod["spec"]["tolerations"].as_array_mut().unwrap().push(json!(null));
            }
            put(pod, pointer, &value);
        };
        let messages = Case::update(&gated(), &PART, fill).messages(&PART);
        assert_eq!(messages, [] as [&str; 0], "{pointer}: {value}");
    }
    let both = |pod: &mut Value| {
        put(pod, "/spec/priorityClassName", &json!("high"));
        put(pod, "/spec/priority", &json!(1000));
    };
    change(&gated(), &PART, both, "", "");
}

#[test]
fn set_fields_are_immutable() {
    const ORDER: &str = "existing elements must stay once and in their order";
    let field_ref = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let (a, b) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    for (pointer, value, field, words) in [
        ("/spec/containers/0/args", json!(["y"]), "spec.containers[0].args", SET_FIELD_IS_IMMUTABLE),
        ("/spec/containers/0/args", json!(["x", "y"]), "spec.containers[0].args", SET_FIELD_IS_IMMUTABLE),
        ("/spec/containers/0/args", json!(null), "spec.containers[0].args", SET_FIELD_IS_IMMUTABLE),
        (
            "/spec/containers/0/image",
            json!("reg:5000/web:2"),
            "spec.containers[0].image",
            SET_FIELD_IS_IMMUTABLE,
        ),
        ("/spec/containers/0/x-unknown", json!([2]), "spec.containers[0].x-unknown", SET_FIELD_IS_IMMUTABLE),
        ("/spec/containers/0/env", json!([b, a]), "spec.containers[0].env", ORDER),
        ("/spec/containers/0/env", json!([a]), "spec.containers[0].env", ORDER),
        // Of duplicate names, the last one wins.
        (
            "/spec/containers/0/env",
            json!([a, b, {"name": "A", "value": "x"}]),
            "spec.containers[0].env",
            ORDER,
        ),
        (
            "/spec/containers/0/env/1/value",
            json!("x"),
            "spec.containers[0].env[1].value",
            SET_FIELD_IS_IMMUTABLE,
        ),
        (
            "/spec/containers/0/volumeMounts/0/mountPath",
            json!("/w"),
            "spec.containers[0].volumeMounts",
            ORDER,
        ),
        ("/spec/containers/1/name", json!("e"), "spec.containers", ORDER),
        (
            "/spec/containers/1/resources/requests/cpu",
            json!("200m"),
            "spec.containers[1].resources.requests[cpu]",
            SET_FIELD_IS_IMMUTABLE,
        ),
        ("/spec/volumes", json!([]), "spec.volumes", ORDER),
        // An empty object has a meaning: the volume type cannot change.
        (
            "/spec/volumes/0",
            json!({"name": "v", "hostPath": {"path": "/"}}),
            "spec.volumes[0].emptyDir",
            SET_FIELD_IS_IMMUTABLE,
        ),
        (
            "/spec/volumes/0/hostPath",
            json!({"path": "/"}),
            "spec.volumes[0].hostPath",
            "set to both emptyDir and hostPath",
        ),
        ("/spec/containers/0/env/0/valueFrom", field_ref, "spec.containers[0].env[0].valueFrom", ""),
        // Map values are immutable.
        ("/spec/nodeSelector/disk", json!("hdd"), "spec.nodeSelector[disk]", SET_FIELD_IS_IMMUTABLE),
        ("/spec/nodeSelector/gpu", json!("a100"), "spec.nodeSelector[gpu]", SET_FIELD_IS_IMMUTABLE),
        ("/spec/nodeSelector", json!({"disk": "ssd"}), "spec.nodeSelector[gpu]", SET_FIELD_IS_IMMUTABLE),
        ("/spec/nodeSelector", json!(null), "spec.nodeSelector[gpu]", SET_FIELD_IS_IMMUTABLE),
        ("/metadata/labels/edge", json!("west"), "metadata.labels[edge]", SET_FIELD_IS_IMMUTABLE),
        ("/metadata/labels", json!({"app": "web"}), "metadata.labels[edge]", SET_FIELD_IS_IMMUTABLE),
        ("/metadata/annotations/by", json!("me"), "metadata.annotations[by]", SET_FIELD_IS_IMMUTABLE),
        ("/metadata/annotations", json!(null), "metadata.annotations[by]", SET_FIELD_IS_IMMUTABLE),
        ("/spec/tolerations", json!([]), "spec.tolerations", "existing tolerations can not be modified"),
        (
            terms,
            json!([{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
            "only additions",
        ),
        ("/spec/restartPolicy", json!("Never"), "spec.restartPolicy", SET_FIELD_IS_IMMUTABLE),
        ("/spec/schedulerName", json!("mine"), "spec.schedulerName", SET_FIELD_IS_IMMUTABLE),
        ("/spec/priority", json!(1000), "spec.priority", "field is immutable"),
        ("/spec/nodeName", json!("n"), "spec.nodeName", "a Binding sets it"),
        ("/spec/runtimeClassName", json!("kata"), "spec.runtimeClassName", "it is immutable"),
        ("/spec/overhead", json!({"cpu": "1"}), "spec.overhead", "the runtime class determines it"),
        (
            "/spec/ephemeralContainers",
            json!([{"name": "e", "image": "i"}]),
            "spec.ephemeralContainers",
            "a running pod",
        ),
        (
            "/spec/schedulingGates/0/name",
            json!("x"),
            "spec.schedulingGates[0].name",
            "only deletion is allowed",
        ),
        ("/metadata/labels/app", json!("x"), "metadata.labels[app]", SET_FIELD_IS_IMMUTABLE),
        ("/metadata/labels", json!(null), "metadata.labels[app]", SET_FIELD_IS_IMMUTABLE),
        // New values are validated.
        ("/spec/hostname", json!("A b"), "spec.hostname", "Invalid value"),
    ] {
        let messages = Case::update(&gated(), &PART, |pod| put(pod, pointer, &value)).messages(&PART);
        let is_reported = |line: &String| line.starts_with(&format!("{field}: ")) && line.contains(words);
        assert!(messages.iter().any(is_reported), "{pointer}: {value}: {messages:#?}");
    }
}

#[test]
fn fields_that_are_set_elsewhere_are_immutable() {
    let mut pod = gated();
    let debug = json!([{"name": "e", "image": "i"}]);
    for (field, value) in [("runtimeClassName", json!("kata")), ("overhead", json!({"cpu": "1"}))] {
        pod["spec"][field] = value;
    }
    pod["spec"]["ephemeralContainers"] = debug;
    let pod = Case::update(&pod, &Part::Main, |_| {}).object;
    for (pointer, value, field, words) in [
        ("/spec/runtimeClassName", json!("runc"), "spec.runtimeClassName", "it is immutable"),
        ("/spec/runtimeClassName", json!(null), "spec.runtimeClassName", "it is immutable"),
        ("/spec/overhead/memory", json!("1Gi"), "spec.overhead", "the runtime class determines it"),
        ("/spec/overhead", json!(null), "spec.overhead", "the runtime class determines it"),
        ("/spec/ephemeralContainers/0/command", json!(["sh"]), "spec.ephemeralContainers", "a running pod"),
        ("/spec/ephemeralContainers", json!([]), "spec.ephemeralContainers", "a running pod"),
    ] {
        let messages = Case::update(&pod, &PART, |pod| put(pod, pointer, &value)).messages(&PART);
        let error: Vec<&String> =
            messages.iter().filter(|line| line.starts_with(&format!("{field}: "))).collect();
        assert!(matches!(error[..], [line] if line.contains(words)), "{pointer}: {value}: {messages:#?}");
    }
    assert_eq!(Case::update(&pod, &PART, |_| {}).messages(&PART), [] as [&str; 0]);
}

#[test]
fn only_gated_pods_can_be_initialized() {
    let open = Case::update(&gated(), &PART, |pod| put(pod, "/spec/schedulingGates", &json!(null)));
    let fill = |pod: &mut Value| put(pod, "/spec/hostname", &json!("web"));
    change(&open.object, &PART, fill, "spec.schedulingGates", "no scheduling gates left");
}

#[test]
fn scheduled_condition_follows_the_gates() {
    let first = Case::new(Value::Object(gated()));
    let message = "/status/conditions/0/message";
    let condition_message = |case: &Case| case.at(message).as_str().unwrap_or_default().to_owned();
    assert!(
        condition_message(&first).ends_with(", of which a.b/c is the first"),
        "{}",
        condition_message(&first)
    );
    for part in [PART, Part::Main] {
        let second = Case::update(&first.object, &part, |pod| {
            put(pod, "/spec/schedulingGates", &json!([{"name": "a.b/d"}]));
            put(pod, "/status/phase", &json!("Running"));
        });
        assert!(
            condition_message(&second).ends_with(", of which a.b/d is the first"),
            "{}",
            condition_message(&second)
        );
        let open = |pod: &mut Value| put(pod, "/spec/schedulingGates", &json!([]));
        let last = Case::update(&second.object, &part, open);
        assert_eq!(last.at("/status/conditions"), json!([]));
        assert_eq!(last.at("/status/phase"), "Pending");
    }
    let exact = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let fill = |pod: &mut Value| {
        put(pod, "/spec/containers/0/resources", &exact);
        put(pod, "/spec/containers/1/resources/limits", &json!({"cpu": "100m", "memory": "1Gi"}));
    };
    assert_eq!(first.at("/status/qosClass"), "Burstable");
    assert_eq!(Case::update(&first.object, &PART, fill).at("/status/qosClass"), "Guaranteed");
}

#[test]
fn digests() {
    for (old, new, expected) in [
        ("web", format!("web@{DIGEST}"), true),
        ("web:1", format!("web@{DIGEST}"), true),
        ("web:1", format!("web:1@{DIGEST}"), true),
        ("reg:5000/web", format!("reg:5000/web@{DIGEST}"), true),
        ("reg:5000/web", format!("reg@{DIGEST}"), false),
        ("web:1", format!("web:2@{DIGEST}"), false),
        ("web:1", format!("other/web@{DIGEST}"), false),
        ("web:1", "web@sha256:12".to_owned(), false),
        ("web:1", "web:1".to_owned(), false),
        (&format!("web@{DIGEST}"), format!("web@{DIGEST}@{DIGEST}"), false),
    ] {
        assert_eq!(is_digest_of(&new, old), expected, "{old} -> {new}");
    }
}
