//! The pod formats from before Kubernetes 1.0.

use serde_json::{Value, json};
use tests::manifest::FOREVER;
use tests::{IMAGE, World};

fn container(word: &str) -> Value {
    json!({"name": "main", "image": IMAGE, "command": ["sh", "-c", format!("echo {word}; {FOREVER}")]})
}

fn manifest(version: &str, id: &str) -> Value {
    json!({"version": version, "id": id, "containers": [container(id)],
        "volumes": [{"name": "data", "source": {"emptyDir": {}}}], "restartPolicy": {"always": {}}})
}

async fn runs(world: &World, names: &[&str]) {
    for name in names {
        world.wait_ready(name).await;
        world.wait_for_log(name, "main", name).await;
    }
}

#[tokio::test]
async fn container_manifests_run() {
    let world = World::running("manifest").await;
    world.write("one.json", &manifest("v1beta1", "one").to_string());
    world.write("two.json", &manifest("v1beta2", "two").to_string());
    runs(&world, &["one", "two"]).await;
}

#[tokio::test]
async fn lists_of_container_manifests_and_bound_pods_run() {
    let world = World::running("lists").await;
    let list = json!({"kind": "ContainerManifestList", "apiVersion": "v1beta1",
        "items": [manifest("v1beta1", "one"), manifest("v1beta1", "two")]});
    world.write("list.json", &list.to_string());
    let bound = json!({"kind": "BoundPods", "apiVersion": "v1beta1", "items": [
        {"id": "three", "namespace": "default", "spec": {"containers": [container("three")], "restartPolicy": {"always": {}}}}]});
    world.write("bound.json", &bound.to_string());
    runs(&world, &["one", "two", "three"]).await;
}

#[tokio::test]
async fn a_v1beta3_pod_runs() {
    let world = World::running("v1beta3").await;
    let pod = json!({"kind": "Pod", "apiVersion": "v1beta3", "metadata": {"name": "one"},
        "spec": {"containers": [container("one")]}});
    world.write("one.json", &pod.to_string());
    runs(&world, &["one"]).await;
    assert_eq!(world.pod("one").await.unwrap().text("/apiVersion"), "v1");
}
