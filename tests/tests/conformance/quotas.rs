//! Resource quotas: counted resources, their release, and rejected requests.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const QUOTAS: &str = "/api/v1/namespaces/quota/resourcequotas";
const PODS: &str = "/api/v1/namespaces/quota/pods";

async fn cluster() -> Cluster {
    let cluster = Cluster::running().await;
    cluster.namespace("quota").await;
    // The root CA ConfigMap counts, so it must exist before the first count.
    cluster.until("/api/v1/namespaces/quota/configmaps/kube-root-ca.crt", |_| true).await;
    cluster
}

async fn quota(cluster: &Cluster, name: &str, spec: Value) {
    cluster.post(QUOTAS, &json!({"metadata": {"name": name}, "spec": spec})).await.is(201);
    cluster
        .until(&format!("{QUOTAS}/{name}"), |quota| quota["status"]["hard"] == quota["spec"]["hard"])
        .await;
}

/// Waits until the quota reports this usage.
async fn used(cluster: &Cluster, name: &str, expected: Value) {
    cluster
        .until(&format!("{QUOTAS}/{name}"), |quota| {
            expected.as_object().unwrap().iter().all(|(of, amount)| quota["status"]["used"][of] == *amount)
        })
        .await;
}

fn pod(name: &str, requests: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]}})
}

#[tokio::test]
async fn quota_counts_objects_until_they_are_deleted() {
    let cluster = cluster().await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (core, apps) = ("/api/v1/namespaces/quota", "/apis/apps/v1/namespaces/quota");
    for (path, counted, object) in [
        (format!("{core}/secrets"), "secrets", json!({"stringData": {"a": "b"}})),
        (format!("{core}/services"), "services", json!({"spec": {"ports": [{"port": 80}]}})),
        (
            format!("{core}/replicationcontrollers"),
            "replicationcontrollers",
            json!({"spec": {"replicas": 0, "selector": {"a": "b"}, "template": template}}),
        ),
        (
            format!("{apps}/replicasets"),
            "count/replicasets.apps",
            json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        ),
        // The root CA ConfigMap of the namespace counts, too.
        (format!("{core}/configmaps"), "configmaps", json!({"data": {"a": "b"}})),
    ] {
        let there = cluster.names(&path).await.len();
        let count = |more: usize| json!({counted: (there + more).to_string()});
        let name = counted.replace(['/', '.'], "-");
        quota(&cluster, &name, json!({"hard": count(1)})).await;
        used(&cluster, &name, count(0)).await;
        let mut first = object.clone();
        first["metadata"] = json!({"name": "first"});
        cluster.post(&path, &first).await.is(201);
        used(&cluster, &name, count(1)).await;
        let mut second = object;
        second["metadata"] = json!({"name": "second"});
        cluster.post(&path, &second).await.refuses(403, &format!("exceeded quota: {name}"));
        cluster.delete(&format!("{path}/first")).await;
        used(&cluster, &name, count(0)).await;
        cluster.delete(&format!("{QUOTAS}/{name}")).await.is(200);
    }
}

#[tokio::test]
async fn quota_counts_the_requests_of_pods() {
    let cluster = cluster().await;
    let hard = json!({"pods": "5", "requests.cpu": "1", "requests.memory": "500Mi", "requests.ephemeral-storage": "50Gi", "requests.example.com/dongle": "3"});
    quota(&cluster, "q", json!({"hard": hard})).await;
    let resources = |cpu: &str, dongle: &str| json!({"cpu": cpu, "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": dongle});
    cluster.post(PODS, &pod("fits", resources("500m", "2"))).await.is(201);
    let one = json!({"pods": "1", "requests.cpu": "500m", "requests.memory": "252Mi", "requests.ephemeral-storage": "30Gi", "requests.example.com/dongle": "2"});
    used(&cluster, "q", one.clone()).await;
    cluster.post(PODS, &pod("large", resources("600m", "1"))).await.refuses(403, "exceeded quota: q");
    let more =
        json!({"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi", "example.com/dongle": "2"});
    cluster.post(PODS, &pod("dongles", more)).await.refuses(403, "requests.example.com/dongle");
    cluster.patch(&format!("{PODS}/fits"), &json!({"metadata": {"labels": {"a": "b"}}})).await.is(200);
    used(&cluster, "q", one).await;
    cluster.delete(&format!("{PODS}/fits")).await;
    used(
        &cluster,
        "q",
        json!({"pods": "0", "requests.cpu": "0", "requests.memory": "0", "requests.example.com/dongle": "0"}),
    )
    .await;
}

#[tokio::test]
async fn quotas_can_be_listed_updated_and_deleted() {
    let cluster = cluster().await;
    quota(&cluster, "q", json!({"hard": {"cpu": "1", "memory": "500Mi"}})).await;
    used(&cluster, "q", json!({"cpu": "0", "memory": "0"})).await;
    cluster.update(&format!("{QUOTAS}/q"), |quota| quota["spec"]["hard"]["memory"] = json!("300Mi")).await;
    let quota =
        cluster.until(&format!("{QUOTAS}/q"), |quota| quota["status"]["hard"]["memory"] == "300Mi").await;
    assert_eq!(quota["spec"]["hard"]["cpu"], "1");
    cluster
        .patch(
            &format!("{QUOTAS}/q"),
            &json!({"metadata": {"labels": {"kept": "no"}}, "spec": {"hard": {"memory": "750Mi"}}}),
        )
        .await
        .is(200);
    assert!(cluster.names("/api/v1/resourcequotas?labelSelector=kept%3Dno").await.contains(&"q".to_owned()));
    cluster.send("DELETE", &format!("{QUOTAS}?labelSelector=kept%3Dno"), &[], "").await.is(200);
    cluster.gone(&format!("{QUOTAS}/q")).await;
}

#[tokio::test]
async fn quota_status_is_recalculated_after_foreign_writes() {
    let cluster = cluster().await;
    quota(&cluster, "q", json!({"hard": {"cpu": "500m", "memory": "500Mi"}})).await;
    let status = format!("{QUOTAS}/q/status");
    let put = cluster.update(&status, |quota| quota["status"]["hard"]["memory"] = json!("1Gi")).await;
    assert_eq!(put["status"]["hard"]["memory"], "1Gi");
    cluster.until(&status, |quota| quota["status"]["hard"]["memory"] == "500Mi").await;
    let patched = cluster.patch(&status, &json!({"status": {"hard": {"cpu": "1"}}})).await.is(200);
    assert_eq!(
        (&patched["status"]["hard"]["cpu"], &patched["spec"]["hard"]["cpu"]),
        (&json!("1"), &json!("500m"))
    );
    cluster.until(&status, |quota| quota["status"]["hard"]["cpu"] == "500m").await;
}

#[tokio::test]
async fn quota_scopes_select_the_counted_pods() {
    let cluster = cluster().await;
    let pods = |scope: &str| json!({"hard": {"pods": "5"}, "scopes": [scope]});
    for (name, scope) in [
        ("best", "BestEffort"),
        ("rest", "NotBestEffort"),
        ("ends", "Terminating"),
        ("stays", "NotTerminating"),
    ] {
        quota(&cluster, name, pods(scope)).await;
    }
    let mut ends = pod("asks", json!({"cpu": "100m", "memory": "1Mi"}));
    for (object, expected) in [
        (pod("free", json!({})), ["1", "0", "0", "1"]),
        (
            {
                ends["spec"]["activeDeadlineSeconds"] = json!(3600);
                ends
            },
            ["0", "1", "1", "0"],
        ),
    ] {
        let path = format!("{PODS}/{}", object["metadata"]["name"].as_str().unwrap());
        cluster.post(PODS, &object).await.is(201);
        for (name, pods) in ["best", "rest", "ends", "stays"].into_iter().zip(expected) {
            used(&cluster, name, json!({"pods": pods})).await;
        }
        cluster.delete(&path).await;
        for name in ["best", "rest", "ends", "stays"] {
            used(&cluster, name, json!({"pods": "0"})).await;
        }
    }
}
