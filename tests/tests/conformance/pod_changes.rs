//! Pods as API objects while a node runs them: created, updated, watched, counted, deleted.

use serde_json::{Value, json};
use tests::Pod;
use tests::manifest::FOREVER;

use crate::cluster::revision;
use crate::node::{Node, path, shell};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn runs_on(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [shell(FOREVER)]}})
}

/// The kubelet's status reflects the latest generation of the spec.
fn is_caught_up(pod: &Pod, generation: i64) -> bool {
    let (written, seen) = (&pod.0["metadata"]["generation"], &pod.0["status"]["observedGeneration"]);
    (written, seen) == (&json!(generation), &json!(generation))
}

#[tokio::test]
async fn pods_follow_the_lifecycle_of_the_api() {
    let node = Node::running("life").await;
    let cluster = &node.cluster;
    let since = cluster.revision(PODS).await;
    let mut watch = cluster.watch(&format!("{PODS}?labelSelector=time%3Dnow&resourceVersion={since}")).await;
    node.make("life", runs_on(&json!({"time": "now"}))).await;
    watch.shows("ADDED", "life").await;
    let ready = node.ready("life").await;
    assert_eq!((ready.text("/status/hostIP"), ready.phase()), ("127.0.0.1", "Running"));

    // Changed by an update, by a patch, and in its status.
    let other = cluster.update(&path("life"), |pod| pod["metadata"]["labels"]["more"] = json!("later")).await;
    assert_eq!(other["metadata"]["labels"], json!({"time": "now", "more": "later"}));
    let status = json!({"metadata": {"labels": {"patched": "yes"}}, "status": {"message": "by a test", "reason": "E2E"}});
    let patched = cluster.patch(&format!("{}/status", path("life")), &status).await.is(200);
    assert_eq!(
        (&patched["status"]["message"], &patched["status"]["reason"]),
        (&json!("by a test"), &json!("E2E"))
    );
    let not_ready = cluster
        .update(&format!("{}/status", path("life")), |pod| {
            for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
                if condition["type"] == "Ready" {
                    condition["status"] = json!("False");
                }
            }
        })
        .await;
    watch.until("MODIFIED", |pod| revision(pod) == revision(&not_ready)).await;
    assert!(!Pod(not_ready).is_ready());
    // The node reports the real status.
    node.ready("life").await;

    cluster.delete(&path("life")).await.is(200);
    let gone = watch.comes_to("DELETED", "life").await;
    let metadata = &gone["metadata"];
    assert!(
        metadata["deletionTimestamp"].is_string() && metadata["deletionGracePeriodSeconds"] == 2,
        "{gone}"
    );
    node.cluster.gone(&path("life")).await;
    assert!(
        node.world.containers().await.iter().all(|container| container.pod != "life"),
        "it left containers"
    );
}

#[tokio::test]
async fn generation_counts_changes_of_the_pod_spec() {
    let node = Node::running("counts").await;
    let cluster = &node.cluster;
    let mut first = runs_on(&json!({}));
    first["metadata"]["generation"] = json!(100);
    first["metadata"]["finalizers"] = json!(["e2e.example.com/held"]);
    let made = node.make("own", first).await;
    assert_eq!(made["metadata"]["generation"], 1);
    node.make("few", runs_on(&json!({}))).await;
    node.make("many", runs_on(&json!({}))).await;
    for name in ["own", "few", "many"] {
        node.until(name, "to be seen once", |pod| pod.is_ready() && is_caught_up(pod, 1)).await;
    }
    // A deletion increments the generation, labels do not.
    cluster.delete(&path("own")).await.is(200);
    cluster.until(&path("own"), |pod| pod["metadata"]["generation"] == 2).await;
    cluster.patch(&path("own"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.gone(&path("own")).await;

    let toleration = json!([{"key": "e2e", "operator": "Exists", "effect": "NoSchedule"}]);
    let image = json!([{"name": "main", "image": "coracle/busybox:1", "command": ["sh", "-c", FOREVER]}]);
    for (change, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 1),
        (json!({"spec": {"activeDeadlineSeconds": 5000}}), 2),
        (json!({"spec": {"tolerations": toleration}}), 3),
        (json!({"spec": {"containers": image}}), 3),
    ] {
        let pod = cluster.get(&path("few")).await.is(200);
        let mut change = change;
        if let Some(Value::Array(tolerations)) = change.pointer_mut("/spec/tolerations") {
            // Existing tolerations must be kept.
            tolerations.extend(pod["spec"]["tolerations"].as_array().into_iter().flatten().cloned());
        }
        if change["spec"]["containers"].is_array() {
            change["spec"]["containers"] = pod["spec"]["containers"].clone();
        }
        let patched = cluster.patch(&path("few"), &change).await.is(200);
        assert_eq!(patched["metadata"]["generation"], generation, "{change}");
        node.until("few", "to be seen", |pod| is_caught_up(pod, generation)).await;
    }

    for seconds in 0..499 {
        let change = json!({"spec": {"activeDeadlineSeconds": 5000 - seconds}});
        cluster.patch(&path("many"), &change).await.is(200);
    }
    node.until("many", "to be seen as it is", |pod| is_caught_up(pod, 500)).await;
    assert_eq!(node.ready("many").await.restarts("main"), 0);

    // An earlier active deadline ends the pod.
    cluster.patch(&path("many"), &json!({"spec": {"activeDeadlineSeconds": 1}})).await.is(200);
    let late = |pod: &Pod| pod.phase() == "Failed" && pod.text("/status/reason") == "DeadlineExceeded";
    node.until("many", "to be out of time", late).await;
}

#[tokio::test]
async fn pod_collections_are_deleted_at_once_and_with_their_namespace() {
    let node = Node::running("goes").await;
    let cluster = &node.cluster;
    cluster.namespace("emptied").await;
    cluster.namespace("ordered").await;
    for name in ["emptied/one", "emptied/two"] {
        node.make(name, runs_on(&json!({}))).await;
    }
    let mut held = runs_on(&json!({}));
    held["metadata"]["finalizers"] = json!(["e2e.example.com/held"]);
    node.make("ordered/held", held).await;
    let maps = "/api/v1/namespaces/ordered/configmaps";
    cluster.post(maps, &json!({"metadata": {"name": "waits"}})).await.is(201);
    for name in ["set-1", "set-2", "set-3"] {
        node.make(name, runs_on(&json!({"type": "testing"}))).await;
    }
    for name in ["set-1", "set-2", "set-3", "emptied/one", "emptied/two", "ordered/held"] {
        node.ready(name).await;
    }

    assert_eq!(cluster.names(&format!("{PODS}?labelSelector=type%3Dtesting")).await.len(), 3);
    cluster.delete(&format!("{PODS}?labelSelector=type%3Dtesting")).await.is(200);
    for namespace in ["emptied", "ordered"] {
        cluster.delete(&format!("/api/v1/namespaces/{namespace}")).await.is(200);
    }
    for name in ["set-1", "set-2", "set-3"] {
        cluster.gone(&path(name)).await;
    }
    cluster.gone("/api/v1/namespaces/emptied").await;
    cluster.namespace("emptied").await;
    assert_eq!(cluster.names("/api/v1/namespaces/emptied/pods").await, [""; 0]);

    // A pod with a finalizer keeps its namespace from being removed.
    let disruption_condition =
        |namespace: &Value| namespace["status"]["conditions"].to_string().contains("e2e.example.com/held");
    cluster.until("/api/v1/namespaces/ordered", disruption_condition).await;
    let map = cluster.get(&format!("{maps}/waits")).await.is(200);
    assert!(map["metadata"]["deletionTimestamp"].is_null(), "{map}");
    cluster.patch(&path("ordered/held"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.gone("/api/v1/namespaces/ordered").await;
    let empty = async || match node.world.leftovers().await {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    };
    node.world.wait_for("nothing to be left of them", empty).await;
}
