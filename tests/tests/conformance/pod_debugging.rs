//! Ephemeral containers that are added to a running pod for debugging.

use serde_json::{Value, json};
use tests::manifest::FOREVER;
use tests::{IMAGE, Pod};

use crate::node::{Node, path, shell};

/// An ephemeral container that runs a script.
fn ephemeral(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "command": ["sh", "-c", script]})
}

/// The state of an ephemeral container.
fn state<'a>(pod: &'a Pod, name: &str) -> &'a Value {
    let all = pod.0["status"]["ephemeralContainerStatuses"].as_array();
    let found = all.into_iter().flatten().find(|status| status["name"] == name);
    found.map_or(&Value::Null, |status| &status["state"])
}

#[tokio::test]
async fn ephemeral_containers_do_not_affect_readiness_or_restarts() {
    let mut node = Node::running("debug").await;
    let spec =
        json!({"spec": {"restartPolicy": "Always", "containers": [shell(&format!("echo here; {FOREVER}"))]}});
    node.make("debug", spec).await;
    let before = node.ready("debug").await;
    let runs = |pod: &Pod, name: &str| state(pod, name)["running"].is_object();

    let part = format!("{}/ephemeralcontainers", path("debug"));
    let patch =
        json!({"spec": {"ephemeralContainers": [ephemeral("debugger", &format!("echo polo; {FOREVER}"))]}});
    node.cluster.patch(&part, &patch).await.is(200);
    let debugged = node.until("debug", "to have a debugger that runs", |pod| runs(pod, "debugger")).await;
    assert!(
        debugged.is_ready() && debugged.container_id("main") == before.container_id("main"),
        "{}",
        debugged.0
    );
    node.log_until("debug", "debugger", "polo", |log| log == "polo\n").await;
    assert_eq!(node.exec("debug", "debugger", &["echo", "marco"]).await, "marco\n");

    // A second one, added by an update: it sees the processes of its target container, and ends.
    let mut second = ephemeral("second", "tr '\\0' ' ' < /proc/1/cmdline; exit 3");
    second["targetContainerName"] = json!("main");
    node.cluster
        .update(&part, |pod| {
            pod["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(second.clone());
        })
        .await;
    let ended = |pod: &Pod| state(pod, "second")["terminated"]["exitCode"] == 3;
    let after = node.until("debug", "to have one that has ended", ended).await;
    assert!(after.is_ready() && after.phase() == "Running" && runs(&after, "debugger"), "{}", after.0);
    let seen = node.log("debug", "second").await;
    assert!(seen.contains("echo here"), "{seen}");

    // The next kubelet restarts neither, and both are removed with the pod.
    node.world.kill();
    node.world.start().await;
    let later = node.ready("debug").await;
    assert_eq!((state(&later, "second"), later.restarts("main")), (state(&after, "second"), 0));
    assert_eq!(state(&later, "debugger"), state(&after, "debugger"));
    node.cluster.delete(&path("debug")).await.is(200);
    node.cluster.gone(&path("debug")).await;
    assert!(
        node.world.containers().await.iter().all(|container| container.pod != "debug"),
        "it left containers"
    );
}

#[tokio::test]
async fn ephemeral_container_without_an_image_does_not_block_termination() {
    let node = Node::running("debug-silent").await;
    node.make("silent", json!({"spec": {"containers": [shell(FOREVER)]}})).await;
    node.ready("silent").await;
    // A registry that accepts connections and never answers.
    let registry = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut debugger = ephemeral("debugger", FOREVER);
    debugger["image"] = json!(format!("{}/never:1", registry.local_addr().unwrap()));
    let patch = json!({"spec": {"ephemeralContainers": [debugger]}});
    node.cluster.patch(&format!("{}/ephemeralcontainers", path("silent")), &patch).await.is(200);
    let _asked = registry.accept().await.unwrap();
    node.cluster.delete(&path("silent")).await.is(200);
    node.cluster.gone(&path("silent")).await;
}
