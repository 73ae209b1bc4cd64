//! Guarantees of single kinds: keys, immutability, QoS classes, LimitRange defaults, the service of the API itself.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const HERE: &str = "/api/v1/namespaces/default";

fn pod(name: &str, resources: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "registry.example/i:1", "resources": resources}]}})
}

#[tokio::test]
async fn config_maps_and_secrets_reject_empty_keys_and_immutable_changes() {
    let cluster = Cluster::running().await;
    for resource in ["configmaps", "secrets"] {
        let all = format!("{HERE}/{resource}");
        let wrong = cluster.post(&all, &json!({"metadata": {"name": "empty"}, "data": {"": "dg=="}})).await;
        wrong.refuses(422, "data[]: Invalid value");
        let path = format!("{all}/fixed");
        cluster.post(&all, &json!({"metadata": {"name": "fixed"}, "data": {"k": "dg=="}})).await.is(201);
        cluster.patch(&path, &json!({"data": {"k": "dw=="}})).await.is(200);
        cluster.patch(&path, &json!({"immutable": true})).await.is(200);
        for change in
            [json!({"data": {"k": "eA=="}}), json!({"immutable": false}), json!({"immutable": null})]
        {
            cluster.patch(&path, &change).await.refuses(422, "field is immutable when `immutable` is set");
        }
        cluster.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.is(200);
        cluster.delete(&path).await.is(200);
        cluster.gone(&path).await;
    }
}

#[tokio::test]
async fn pod_qos_class_follows_its_resources() {
    let cluster = Cluster::running().await;
    let amounts = json!({"cpu": "100m", "memory": "100Mi"});
    for (name, resources, class) in [
        ("guaranteed", json!({"requests": amounts, "limits": amounts}), "Guaranteed"),
        ("burstable", json!({"requests": amounts}), "Burstable"),
        ("best-effort", json!({}), "BestEffort"),
    ] {
        let made = cluster.post(&format!("{HERE}/pods"), &pod(name, resources)).await.is(201);
        assert_eq!(made["status"]["qosClass"], class, "{name}");
    }
}

#[tokio::test]
async fn pod_accepts_an_inline_csi_volume() {
    let cluster = Cluster::running().await;
    let pods = format!("{HERE}/pods");
    let mut object = pod("inline", json!({}));
    object["metadata"]["labels"] = json!({"inline": "yes"});
    object["spec"]["volumes"] = json!([{"name": "v", "csi": {"driver": "e2e.example.com"}}]);
    let made = cluster.post(&pods, &object).await.is(201);
    assert_eq!(made["spec"]["volumes"][0]["csi"]["driver"], "e2e.example.com");
    let patched =
        cluster.patch(&format!("{pods}/inline"), &json!({"metadata": {"labels": {"patched": "yes"}}})).await;
    assert_eq!(patched.is(200)["metadata"]["labels"]["patched"], "yes");
    assert_eq!(cluster.names("/api/v1/pods?labelSelector=patched%3Dyes").await, ["inline"]);
    cluster.send("DELETE", &format!("{pods}?labelSelector=inline%3Dyes"), &[], "").await.is(200);
    cluster.gone(&format!("{pods}/inline")).await;
}

#[tokio::test]
async fn limit_range_sets_defaults_and_rejects_pods_over_its_limits() {
    let cluster = Cluster::running().await;
    cluster.namespace("ranged").await;
    let (ranges, pods) = ("/api/v1/namespaces/ranged/limitranges", "/api/v1/namespaces/ranged/pods");
    let limits = json!([{"type": "Container", "min": {"cpu": "50m", "memory": "100Mi"}, "max": {"cpu": "500m", "memory": "500Mi"},
        "default": {"cpu": "500m", "memory": "500Mi"}, "defaultRequest": {"cpu": "100m", "memory": "200Mi"}}]);
    cluster.post(ranges, &json!({"metadata": {"name": "r"}, "spec": {"limits": limits}})).await.is(201);
    for (name, given, requests, bounds) in [
        (
            "none",
            json!({}),
            json!({"cpu": "100m", "memory": "200Mi"}),
            json!({"cpu": "500m", "memory": "500Mi"}),
        ),
        (
            "some",
            json!({"requests": {"cpu": "300m"}, "limits": {"cpu": "300m"}}),
            json!({"cpu": "300m", "memory": "200Mi"}),
            json!({"cpu": "300m", "memory": "500Mi"}),
        ),
    ] {
        let made = cluster.post(pods, &pod(name, given)).await.is(201);
        assert_eq!(
            made["spec"]["containers"][0]["resources"],
            json!({"requests": requests, "limits": bounds})
        );
    }
    cluster
        .update(&format!("{ranges}/r"), |range| range["spec"]["limits"][0]["min"]["cpu"] = json!("10m"))
        .await;
    let small = json!({"requests": {"cpu": "20m", "memory": "100Mi"}});
    cluster.post(pods, &pod("small", small)).await.is(201);
    let less = json!({"requests": {"cpu": "5m", "memory": "100Mi"}});
    cluster.post(pods, &pod("less", less)).await.refuses(403, "minimum cpu usage per Container is 10m");
    let large = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "600m"}});
    cluster.post(pods, &pod("large", large)).await.refuses(403, "maximum cpu usage per Container is 500m");
    cluster.delete(&format!("{ranges}/r")).await.is(200);
    cluster.gone(&format!("{ranges}/r")).await;
    cluster.post(pods, &pod("free", json!({}))).await.is(201);
}

#[tokio::test]
async fn every_namespace_has_the_root_ca_config_map() {
    let cluster = Cluster::running().await;
    cluster.namespace("trusts").await;
    let path = "/api/v1/namespaces/trusts/configmaps/kube-root-ca.crt";
    let is_whole =
        |map: &Value| map["data"]["ca.crt"].as_str().is_some_and(|text| text.contains("BEGIN CERTIFICATE"));
    let first = cluster.until(path, is_whole).await;
    cluster.delete(path).await.is(200);
    cluster.until(path, |map| map["metadata"]["uid"] != first["metadata"]["uid"] && is_whole(map)).await;
    cluster.patch(path, &json!({"data": {"ca.crt": ""}})).await.is(200);
    cluster.until(path, is_whole).await;
}

#[tokio::test]
async fn unknown_fields_of_built_in_kinds_are_rejected() {
    let cluster = Cluster::running().await;
    let path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    let labels = json!({"a": "b"});
    let mut deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployment["metadata"]["unknownMeta"] = json!("m");
    deployment["spec"]["template"]["metadata"]["unknownSubMeta"] = json!("m");
    let refused = cluster.post(path, &deployment).await;
    refused.refuses(400, "strict decoding error");
    for field in ["metadata.unknownMeta", "spec.template.metadata.unknownSubMeta"] {
        assert!(refused.has_text(&format!("unknown field \"{field}\"")), "{}", refused.text);
    }
}

#[tokio::test]
async fn duplicate_fields_of_built_in_kinds_are_rejected() {
    let cluster = Cluster::running().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let json = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "unknown": 1, "paused": true, "paused": false, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "unknownNested": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}}}}"#;
    let kind = [("content-type", "application/json")];
    let refused = cluster.send("POST", &format!("{all}?fieldValidation=Strict"), &kind, json).await;
    refused.refuses(400, "strict decoding error");
    for expected_error in [
        "unknown field \"spec.unknown\"",
        "duplicate field \"spec.paused\"",
        "unknown field \"spec.template.spec.containers[0].unknownNested\"",
        "duplicate field \"spec.template.spec.containers[0].imagePullPolicy\"",
    ] {
        assert!(refused.has_text(expected_error), "{expected_error}: {}", refused.text);
    }
    let warned = cluster.send("POST", &format!("{all}?fieldValidation=Warn"), &kind, json).await;
    let warnings = warned.headers.get_all("warning").iter().filter_map(|text| text.to_str().ok());
    assert_eq!(warnings.filter(|text| text.contains(" field ")).count(), 4, "{:?}", warned.headers);
    assert_eq!(warned.is(201)["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Never");
    let yaml = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\nspec:\n  paused: true\n  paused: false\n";
    let kind = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{all}/d?fieldManager=e2e&fieldValidation=Strict");
    cluster.send("PATCH", &path, &kind, yaml).await.refuses(400, "line 7: key \"paused\" already set in map");
}
