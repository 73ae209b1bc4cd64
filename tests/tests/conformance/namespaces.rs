//! Namespaces: updated, finalized, and deleted with their content.

use serde_json::json;

use crate::cluster::Cluster;

const ALL: &str = "/api/v1/namespaces";

#[tokio::test]
async fn a_namespace_is_patched_and_updated() {
    let cluster = Cluster::running().await;
    cluster.namespace("changed").await;
    let path = format!("{ALL}/changed");
    let patched = cluster.patch(&path, &json!({"metadata": {"labels": {"test": "patched"}}})).await.is(200);
    assert_eq!(patched["metadata"]["labels"]["test"], "patched");
    cluster.update(&path, |namespace| namespace["metadata"]["labels"]["test"] = json!("updated")).await;
    let labels = &cluster.get(&path).await.is(200)["metadata"]["labels"];
    assert_eq!(labels, &json!({"test": "updated", "kubernetes.io/metadata.name": "changed"}));
}

#[tokio::test]
async fn namespace_status_can_be_read_and_updated() {
    let cluster = Cluster::running().await;
    cluster.namespace("shown").await;
    let status = format!("{ALL}/shown/status");
    assert_eq!(cluster.get(&status).await.is(200)["status"]["phase"], "Active");
    let condition = json!({"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "by a test", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patched = cluster
        .patch(
            &status,
            &json!({"metadata": {"annotations": {"patched": "yes"}}, "status": {"conditions": [condition]}}),
        )
        .await
        .is(200);
    assert_eq!(patched["status"]["conditions"][0]["type"], "StatusPatch");
    assert_eq!(patched["metadata"]["annotations"]["patched"], "yes");
    let put = cluster
        .update(&status, |namespace| namespace["status"]["conditions"][0]["type"] = json!("StatusUpdate"))
        .await;
    assert_eq!(put["status"]["conditions"][0]["type"], "StatusUpdate");
}

#[tokio::test]
async fn namespace_finalizers_can_be_set_and_removed() {
    let cluster = Cluster::running().await;
    cluster.namespace("held").await;
    let (path, finalize) = (format!("{ALL}/held"), format!("{ALL}/held/finalize"));
    let set = async |finalizers: serde_json::Value| {
        let mut namespace = cluster.get(&path).await.is(200);
        namespace["spec"]["finalizers"] = finalizers.clone();
        assert_eq!(cluster.put(&finalize, &namespace).await.is(200)["spec"]["finalizers"], finalizers);
    };
    set(json!(["kubernetes", "e2e.example.com/held"])).await;
    cluster.delete(&path).await.is(200);
    cluster
        .until(&path, |namespace| namespace["spec"]["finalizers"] == json!(["e2e.example.com/held"]))
        .await;
    assert_eq!(cluster.get(&path).await.is(200)["status"]["phase"], "Terminating");
    let mut namespace = cluster.get(&path).await.is(200);
    namespace["spec"]["finalizers"] = json!([]);
    cluster.put(&finalize, &namespace).await.is(200);
    cluster.gone(&path).await;
}

#[tokio::test]
async fn services_are_deleted_with_their_namespace() {
    let cluster = Cluster::running().await;
    cluster.namespace("emptied").await;
    let services = format!("{ALL}/emptied/services");
    cluster
        .post(&services, &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}))
        .await
        .is(201);
    cluster.delete(&format!("{ALL}/emptied")).await.is(200);
    cluster.gone(&format!("{ALL}/emptied")).await;
    cluster.namespace("emptied").await;
    assert_eq!(cluster.names(&services).await, [""; 0]);
}

#[tokio::test]
async fn namespace_deletion_deletes_pods_first() {
    let cluster = Cluster::running().await;
    cluster.namespace("ordered").await;
    let (pods, maps) = (format!("{ALL}/ordered/pods"), format!("{ALL}/ordered/configmaps"));
    let held = json!({"name": "held", "finalizers": ["e2e.example.com/held"]});
    cluster
        .post(&pods, &json!({"metadata": held, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await
        .is(201);
    cluster.post(&maps, &json!({"metadata": {"name": "waits"}})).await.is(201);
    cluster.delete(&format!("{ALL}/ordered")).await.is(200);
    cluster.until(&format!("{pods}/held"), |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    cluster
        .until(&format!("{ALL}/ordered"), |namespace| {
            namespace["status"]["conditions"].to_string().contains("e2e.example.com/held")
        })
        .await;
    assert_eq!(
        cluster.get(&format!("{maps}/waits")).await.is(200)["metadata"]["deletionTimestamp"],
        json!(null)
    );
    cluster.patch(&format!("{pods}/held"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.gone(&format!("{ALL}/ordered")).await;
}
