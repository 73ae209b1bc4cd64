//! Garbage collection: dependents that are deleted with their owner and dependents that stay; the test plays the controllers.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/own/pods";
const CONTROLLERS: &str = "/api/v1/namespaces/own/replicationcontrollers";
const SETS: &str = "/apis/apps/v1/namespaces/own/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/own/deployments";

fn spec() -> Value {
    json!({"containers": [{"name": "c", "image": "registry.example/i:1"}]})
}

fn owner(of: &Value, api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": of["metadata"]["name"], "uid": of["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true})
}

async fn cluster() -> Cluster {
    let cluster = Cluster::without_workloads().await;
    cluster.namespace("own").await;
    cluster
}

/// A replication controller with zero replicas, and two pods that it owns.
async fn controller(cluster: &Cluster, name: &str) -> Value {
    let labels = json!({"of": name});
    let made = json!({"metadata": {"name": name}, "spec": {"replicas": 2, "selector": labels,
        "template": {"metadata": {"labels": labels}, "spec": spec()}}});
    let made = cluster.post(CONTROLLERS, &made).await.is(201);
    for number in 0..2 {
        pod(cluster, &format!("{name}-{number}"), json!([owner(&made, "v1", "ReplicationController")])).await;
    }
    made
}

async fn pod(cluster: &Cluster, name: &str, owners: Value) -> Value {
    let pod = json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec()});
    cluster.post(PODS, &pod).await.is(201)
}

#[tokio::test]
async fn pods_are_deleted_with_their_controller() {
    let cluster = cluster().await;
    controller(&cluster, "gone").await;
    pod(&cluster, "free", json!([])).await;
    cluster.delete_with(&format!("{CONTROLLERS}/gone"), "Background").await.is(200);
    cluster.gone(&format!("{CONTROLLERS}/gone")).await;
    cluster.gone(&format!("{PODS}/gone-0")).await;
    cluster.gone(&format!("{PODS}/gone-1")).await;
    assert_eq!(cluster.names(PODS).await, ["free"]);
}

#[tokio::test]
async fn orphaned_pods_are_kept() {
    let cluster = cluster().await;
    controller(&cluster, "left").await;
    controller(&cluster, "after").await;
    cluster.delete_with(&format!("{CONTROLLERS}/left"), "Orphan").await;
    cluster.gone(&format!("{CONTROLLERS}/left")).await;
    // Once the pods of the later deletion are gone, the garbage collector has processed the earlier deletion, too.
    cluster.delete_with(&format!("{CONTROLLERS}/after"), "Background").await.is(200);
    cluster.gone(&format!("{PODS}/after-0")).await;
    cluster.gone(&format!("{PODS}/after-1")).await;
    for name in ["left-0", "left-1"] {
        let pod = cluster.get(&format!("{PODS}/{name}")).await.is(200);
        assert_eq!(pod["metadata"]["ownerReferences"], Value::Null, "{pod}");
    }
}

#[tokio::test]
async fn foreground_deletion_waits_for_the_pods() {
    let cluster = cluster().await;
    controller(&cluster, "waits").await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    cluster.patch(&format!("{PODS}/waits-0"), &held).await.is(200);
    cluster.delete_with(&format!("{CONTROLLERS}/waits"), "Foreground").await;
    cluster.until(&format!("{PODS}/waits-0"), |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    cluster.gone(&format!("{PODS}/waits-1")).await;
    let waits = cluster.get(&format!("{CONTROLLERS}/waits")).await.is(200);
    assert_eq!(waits["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.patch(&format!("{PODS}/waits-0"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.gone(&format!("{CONTROLLERS}/waits")).await;
    assert_eq!(cluster.names(PODS).await, [""; 0]);
}

#[tokio::test]
async fn pod_with_a_second_owner_is_kept() {
    let cluster = cluster().await;
    controller(&cluster, "going").await;
    let stays = controller(&cluster, "stays").await;
    let mut second = owner(&stays, "v1", "ReplicationController");
    second["controller"] = json!(false);
    cluster
        .update(&format!("{PODS}/going-0"), |pod| {
            pod["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second.clone());
        })
        .await;
    cluster.delete_with(&format!("{CONTROLLERS}/going"), "Foreground").await;
    cluster.gone(&format!("{CONTROLLERS}/going")).await;
    cluster.gone(&format!("{PODS}/going-1")).await;
    let kept = cluster
        .until(&format!("{PODS}/going-0"), |pod| {
            pod["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
        })
        .await;
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], stays["metadata"]["uid"]);
}

#[tokio::test]
async fn owner_reference_cycle_is_deleted() {
    let cluster = cluster().await;
    let names = ["one", "two", "three"];
    let mut pods = Vec::new();
    for name in names {
        pods.push(pod(&cluster, name, json!([])).await);
    }
    for (at, name) in names.iter().enumerate() {
        let mut of = owner(&pods[(at + 2) % 3], "v1", "Pod");
        of["controller"] = json!(false);
        cluster
            .patch(&format!("{PODS}/{name}"), &json!({"metadata": {"ownerReferences": [of]}}))
            .await
            .is(200);
    }
    cluster.delete_with(&format!("{PODS}/one"), "Foreground").await;
    for name in names {
        cluster.gone(&format!("{PODS}/{name}")).await;
    }
}

/// A deployment and its replica set.
async fn deployment(cluster: &Cluster, name: &str) {
    let labels = json!({"of": name});
    let template = json!({"metadata": {"labels": labels}, "spec": spec()});
    let wanted = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
    let made = cluster.post(DEPLOYMENTS, &json!({"metadata": {"name": name}, "spec": wanted})).await.is(201);
    let owners = json!([owner(&made, "apps/v1", "Deployment")]);
    let set = json!({"metadata": {"name": format!("{name}-set"), "labels": labels, "ownerReferences": owners}, "spec": wanted});
    cluster.post(SETS, &set).await.is(201);
}

#[tokio::test]
async fn replica_sets_are_deleted_with_their_deployment_unless_orphaned() {
    let cluster = cluster().await;
    deployment(&cluster, "left").await;
    deployment(&cluster, "gone").await;
    cluster.delete_with(&format!("{DEPLOYMENTS}/left"), "Orphan").await;
    cluster.gone(&format!("{DEPLOYMENTS}/left")).await;
    cluster.delete_with(&format!("{DEPLOYMENTS}/gone"), "Background").await.is(200);
    cluster.gone(&format!("{SETS}/gone-set")).await;
    let left = cluster.get(&format!("{SETS}/left-set")).await.is(200);
    assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
}
