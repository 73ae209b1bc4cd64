//! Tests of the strategies of namespaces, nodes, data, roles, limits, certificates and webhooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::Part;
use super::{Case, change, refused, stored};

type Change = fn(&mut Value);

fn object(api_version: &str, kind: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = api_version.into();
    rest["kind"] = kind.into();
    if rest["metadata"].is_null() {
        rest["metadata"] = json!({"name": "a"});
    }
    rest
}

#[test]
fn namespace_gets_its_name_label_and_finalizer() {
    let namespace = object("v1", "Namespace", json!({"status": {"phase": "Terminating"}}));
    let before = stored(&namespace);
    assert_eq!(before["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(before["status"], json!({"phase": "Active"}));
    assert_eq!(before["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
    let emptied = Case::update(&before, &Part::Main, |it| {
        it["spec"]["finalizers"] = json!([]);
        it["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "b"});
    });
    assert_eq!(emptied.at("/spec/finalizers"), json!(["kubernetes"]));
    assert_eq!(emptied.at("/metadata/labels"), json!({"kubernetes.io/metadata.name": "a"}));
    let finalized = Case::update(&before, &Part::Sub("finalize"), |it| it["spec"]["finalizers"] = json!([]));
    assert_eq!(finalized.at("/spec/finalizers"), Value::Null);
    change(
        &before,
        &Part::Status,
        |it| it["status"]["phase"] = "Terminating".into(),
        "status.phase",
        "deletionTimestamp",
    );
}

#[test]
fn nodes() {
    let node = object("v1", "Node", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}));
    let before = stored(&node);
    let placed = Case::update(&before, &Part::Main, |it| it["spec"]["podCIDR"] = "10.0.0.0/24".into());
    assert_eq!(placed.messages(&Part::Main), [] as [&str; 0]);
    assert_eq!(placed.at("/spec/podCIDRs"), json!(["10.0.0.0/24"]));
    let moved: Change = |it| {
        it["spec"]["podCIDR"] = "10.0.1.0/24".into();
        it["spec"]["podCIDRs"] = json!(["10.0.1.0/24"]);
    };
    change(&placed.object, &Part::Main, moved, "spec.podCIDRs", "except from \"\" to valid");
    change(&before, &Part::Main, |it| it["spec"]["unschedulable"] = true.into(), "", "");
    let cases: [(Change, &str, &str); 3] = [
        (|it| it["spec"]["taints"][0]["effect"] = "x".into(), "spec.taints[0].effect", "Unsupported value"),
        (|it| it["spec"]["taints"][1] = it["spec"]["taints"][0].clone(), "spec.taints[1]", "Duplicate value"),
        (|it| it["spec"]["podCIDR"] = "x".into(), "spec.podCIDRs[0]", "CIDR"),
    ];
    for (change, field, words) in cases {
        let change = |it: &mut Value| {
            it["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "b", "effect": "NoExecute"}));
            change(it);
        };
        refused(&node, change, field, words);
    }
    change(
        &before,
        &Part::Status,
        |it| it["status"]["capacity"] = json!({"cpu": "-1"}),
        "status.capacity[cpu]",
        "greater than or equal to 0",
    );
}

#[test]
fn data_and_secrets() {
    let secret =
        object("v1", "Secret", json!({"stringData": {"a": "x"}, "data": {"a": "eQ==", "b": "eg=="}}));
    let before = stored(&secret);
    assert_eq!((&before["type"], &before["data"]), (&"Opaque".into(), &json!({"a": "eA==", "b": "eg=="})));
    assert!(!before.contains_key("stringData"));
    change(&before, &Part::Main, |it| it["type"] = "x".into(), "type", "field is immutable");
    let cases: [(Change, &str, &str); 5] = [
        (|it| it["type"] = "kubernetes.io/tls".into(), "data[tls.crt]", "Required value"),
        (
            |it| it["type"] = "kubernetes.io/dockerconfigjson".into(),
            "data[.dockerconfigjson]",
            "Required value",
        ),
        (|it| it["type"] = "kubernetes.io/basic-auth".into(), "data[username]", "Required value"),
        (|it| it["data"]["a/b"] = "eA==".into(), "data[a/b]", "<secret contents redacted>"),
        (|it| it["data"]["b"] = "plain".into(), "data[b]", "<secret contents redacted>"),
    ];
    for (change, field, words) in cases {
        refused(&secret, change, field, words);
    }
    let map = object("v1", "ConfigMap", json!({"data": {"a": "x"}, "immutable": true}));
    let before = stored(&map);
    change(
        &before,
        &Part::Main,
        |it| it["data"]["a"] = "y".into(),
        "data",
        "field is immutable when `immutable` is set",
    );
    change(&before, &Part::Main, |it| it["immutable"] = false.into(), "immutable", "field is immutable when");
    change(&before, &Part::Main, |it| it["metadata"]["labels"] = json!({"a": "b"}), "", "");
    refused(&map, |it| it["data"]["a"] = "x".repeat(1 << 21).into(), "data", "1048576");
    refused(&map, |it| it["data"]["a"] = 1.into(), "data[a]", "Invalid value: 1: expected a string");
    let revision = object("apps/v1", "ControllerRevision", json!({"data": {"a": 1}, "revision": 1}));
    change(&stored(&revision), &Part::Main, |it| it["data"]["a"] = 2.into(), "data", "field is immutable");
}

#[test]
fn roles_and_bindings() {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let role = object(
        RBAC,
        "Role",
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    );
    stored(&role);
    let cases: [(Change, &str, &str); 4] = [
        (|it| it["rules"][0]["verbs"] = json!([]), "rules[0].verbs", "verbs must contain at least one value"),
        (|it| it["rules"][0]["apiGroups"] = json!([]), "rules[0].apiGroups", "at least one api group"),
        (|it| it["rules"][0]["resources"] = json!([]), "rules[0].resources", "at least one resource"),
        (
            |it| it["rules"][0]["nonResourceURLs"] = json!(["/x"]),
            "rules[0].nonResourceURLs",
            "namespaced rules cannot apply",
        ),
    ];
    for (change, field, words) in cases {
        refused(&role, change, field, words);
    }
    let binding = object(
        RBAC,
        "ClusterRoleBinding",
        json!({
            "roleRef": {"kind": "ClusterRole", "name": "system:x"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        }),
    );
    let before = stored(&binding);
    assert_eq!(before["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(before["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    change(&before, &Part::Main, |it| it["roleRef"]["name"] = "y".into(), "roleRef", "cannot change roleRef");
    refused(
        &binding,
        |it| it["roleRef"]["kind"] = "Role".into(),
        "roleRef.kind",
        "supported values: \"ClusterRole\"",
    );
    refused(
        &binding,
        |it| it["subjects"][1]["namespace"] = "".into(),
        "subjects[1].namespace",
        "Required value",
    );
    refused(&binding, |it| it["subjects"][0]["kind"] = "x".into(), "subjects[0].kind", "Unsupported value");
}

#[test]
fn limits_and_classes() {
    let range = object(
        "v1",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}}),
    );
    let before = stored(&range);
    let item = &before["spec"]["limits"][0];
    assert_eq!((&item["default"], &item["defaultRequest"]), (&json!({"cpu": "2"}), &json!({"cpu": "2"})));
    refused(
        &range,
        |it| it["spec"]["limits"][0]["min"]["cpu"] = 3.into(),
        "spec.limits[0].min[cpu]",
        "greater than max value 2",
    );
    refused(
        &range,
        |it| it["spec"]["limits"][0] = json!({"type": "Pod", "default": {"cpu": "1"}}),
        "spec.limits[0].default",
        "'Pod'",
    );
    let quota =
        object("v1", "ResourceQuota", json!({"spec": {"hard": {"pods": 5}, "scopes": ["BestEffort"]}}));
    let before = stored(&quota);
    assert_eq!(before["spec"]["hard"]["pods"], "5");
    change(
        &before,
        &Part::Main,
        |it| it["spec"]["scopes"] = json!(["Terminating"]),
        "spec.scopes",
        "field is immutable",
    );
    refused(
        &quota,
        |it| it["spec"]["hard"]["pods"] = "-1".into(),
        "spec.hard[pods]",
        "greater than or equal to 0",
    );
    let class = object("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 10}));
    let before = stored(&class);
    assert_eq!(before["preemptionPolicy"], "PreemptLowerPriority");
    change(&before, &Part::Main, |it| it["value"] = 11.into(), "value", "may not be changed in an update.");
    refused(&class, |it| it["value"] = 1_000_000_001.into(), "value", "maximum allowed value");
    refused(
        &class,
        |it| it["metadata"]["name"] = "system-x".into(),
        "metadata.name",
        "reserved for system use only",
    );
    let budget = object("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1}}));
    stored(&budget);
    refused(&budget, |it| it["spec"]["maxUnavailable"] = "5%".into(), "spec", "cannot be both set");
}

#[test]
fn autoscalers() {
    let scaler = object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        json!({
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
        }),
    );
    let before = stored(&scaler);
    assert_eq!(before["spec"]["minReplicas"], 1);
    assert_eq!(before["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    refused(
        &scaler,
        |it| it["spec"]["minReplicas"] = 4.into(),
        "spec.maxReplicas",
        "greater than or equal to `minReplicas`",
    );
    refused(
        &scaler,
        |it| it["spec"]["scaleTargetRef"]["name"] = "".into(),
        "spec.scaleTargetRef.name",
        "Required value",
    );
    refused(
        &scaler,
        |it| it["spec"]["metrics"] = json!([{"type": "Pods"}]),
        "spec.metrics[0].pods",
        "must populate information",
    );
}

/// A CertificateSigningRequest.
fn request() -> Value {
    let body =
        STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n");
    json!({"object": {"spec": {"request": body, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}}})
}

#[test]
fn csr_is_approved_once_and_issued_once() {
    let request = object("certificates.k8s.io/v1", "CertificateSigningRequest", request()["object"].clone());
    let before = stored(&request);
    let cases: [(Change, &str, &str); 5] = [
        (|it| it["spec"]["request"] = STANDARD.encode("x").into(), "spec.request", "CERTIFICATE REQUEST"),
        (|it| it["spec"]["signerName"] = "x".into(), "spec.signerName", "fully qualified"),
        (|it| it["spec"]["usages"] = json!([]), "spec.usages", "Required value"),
        (|it| it["spec"]["usages"][0] = "x".into(), "spec.usages[0]", "Unsupported value"),
        (|it| it["spec"]["expirationSeconds"] = 5.into(), "spec.expirationSeconds", "600"),
    ];
    for (change, field, words) in cases {
        refused(&request, change, field, words);
    }
    let approval = Part::Sub("approval");
    let approve: Change = |it| it["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
    change(
        &before,
        &Part::Status,
        approve,
        "status.conditions",
        "may not add a condition of type \"Approved\"",
    );
    let approved = Case::update(&before, &approval, |it| {
        approve(it);
        it["status"]["certificate"] = "ignored".into();
    });
    assert_eq!(approved.messages(&approval), [] as [&str; 0]);
    assert_eq!(approved.at("/status/certificate"), Value::Null);
    let deny: Change = |it| it["status"]["conditions"] = json!([{"type": "Denied", "status": "True"}]);
    change(&approved.object, &approval, deny, "status.conditions", "may not remove");
    let issue = |it: &mut Value, text: &str| it["status"]["certificate"] = STANDARD.encode(text).into();
    let issued = Case::update(&approved.object, &Part::Status, |it| issue(it, "-----BEGIN CERTIFICATE-----"));
    assert_eq!(issued.messages(&Part::Status), [] as [&str; 0]);
    let again = |it: &mut Value| issue(it, "-----BEGIN CERTIFICATE-----\n");
    change(&issued.object, &Part::Status, again, "status.certificate", "may not modify existing");
    let other = Case::update(&before, &Part::Main, |it| it["spec"]["signerName"] = "a.b/c".into());
    assert_eq!(other.at("/spec/signerName"), "kubernetes.io/kube-apiserver-client");
}

#[test]
fn webhooks() {
    let config = object(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{
            "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"name": "a", "namespace": "b"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        }]}),
    );
    let webhook = stored(&config)["webhooks"][0].clone();
    for (field, value) in [
        ("failurePolicy", Value::from("Fail")),
        ("matchPolicy", "Equivalent".into()),
        ("timeoutSeconds", 10.into()),
        ("reinvocationPolicy", "Never".into()),
        ("namespaceSelector", json!({})),
    ] {
        assert_eq!(webhook[field], value, "{field}");
    }
    assert_eq!(
        (&webhook["rules"][0]["scope"], &webhook["clientConfig"]["service"]["port"]),
        (&"*".into(), &443.into())
    );
    let cases: [(Change, &str, &str); 5] = [
        (|it| it["webhooks"][0]["name"] = "a".into(), "webhooks[0].name", "at least three segments"),
        (|it| it["webhooks"][0]["sideEffects"] = json!(null), "webhooks[0].sideEffects", "Required value"),
        (
            |it| it["webhooks"][0]["admissionReviewVersions"] = json!([]),
            "webhooks[0].admissionReviewVersions",
            "Required value",
        ),
        (
            |it| it["webhooks"][0]["timeoutSeconds"] = 31.into(),
            "webhooks[0].timeoutSeconds",
            "between 1 and 30",
        ),
        (
            |it| it["webhooks"][0]["clientConfig"] = json!({"url": "http://a"}),
            "webhooks[0].clientConfig.url",
            "https",
        ),
    ];
    for (change, field, words) in cases {
        refused(&config, change, field, words);
    }
}
