//! Scheduling of pods: resource requests, selectors, host ports, and runtime classes.

use serde_json::{Value, json};
use tests::manifest::FOREVER;
use tests::{IMAGE, Pod};

use crate::node::{Node, join, path, shell, with};

/// Creates a pod for the scheduler.
async fn make(node: &Node, name: &str, spec: &Value) {
    let spec = with(json!({"containers": [shell(FOREVER)], "nodeName": ""}), spec);
    node.make(name, json!({"spec": spec})).await;
}

/// Waits until the scheduler has reported a pod as unschedulable, with this reason.
async fn fits_nowhere(node: &Node, name: &str, why: &str) {
    let is_reported = |pod: &Pod| {
        let conditions = pod.0["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["reason"] == "Unschedulable"
                && condition["message"].as_str().is_some_and(|message| message.contains(why))
        })
    };
    let pod = node.until(name, "to fit nowhere", is_reported).await;
    assert!(pod.condition("PodScheduled") == "False" && pod.text("/spec/nodeName").is_empty(), "{}", pod.0);
}

/// A container that requests CPU, in thousandths.
fn cpu(milli: i64) -> Value {
    let amount = json!({"cpu": format!("{milli}m")});
    json!({"containers": [with(shell(FOREVER), &json!({"resources": {"requests": amount, "limits": amount}}))]})
}

#[tokio::test]
async fn pods_are_scheduled_by_resources_and_node_selector() {
    let node = Node::scheduled("fits").await;
    let second = join(&node.cluster, "fits-too").await;
    let nodes = node.cluster.get("/api/v1/nodes").await.is(200);
    let untainted = |node: &&Value| Pod((*node).clone()).is_ready() && node["spec"]["taints"].is_null();
    let free = async || match node.cluster.get("/api/v1/nodes").await.is(200) {
        nodes if nodes["items"].as_array().unwrap().iter().filter(untainted).count() >= 2 => Ok(()),
        nodes => Err(nodes["items"].to_string()),
    };
    node.world.wait_for("two nodes that take pods", free).await;

    // By node selector.
    let here = json!({"kubernetes.io/hostname": node.world.node});
    make(&node, "nowhere", &json!({"nodeSelector": {"e2e": "nonempty"}})).await;
    fits_nowhere(&node, "nowhere", "didn't match Pod's node affinity/selector").await;
    let label = json!({"metadata": {"labels": {"e2e": "nonempty"}}});
    node.cluster.patch(&format!("/api/v1/nodes/{}", node.world.node), &label).await.is(200);
    node.ready("nowhere").await;

    // By host port: the wildcard address conflicts with every other address.
    let port = tests::free_port();
    let ports = |ip: Value| {
        let port = with(json!({"containerPort": 80, "hostPort": port.number}), &json!({"hostIP": ip}));
        json!({"nodeSelector": here, "containers": [with(shell(FOREVER), &json!({"ports": [port]}))]})
    };
    make(&node, "all-addresses", &ports(json!(null))).await;
    node.ready("all-addresses").await;
    make(&node, "one-address", &ports(json!("127.0.0.1"))).await;
    fits_nowhere(&node, "one-address", "didn't have free ports").await;

    // By CPU requests: each node is filled, and no further pod fits.
    for item in nodes["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap();
        let (cores, _) = crate::pod_volumes::amounts(&item["status"]["allocatable"]);
        let filling =
            with(cpu(cores * 1000 * 7 / 10), &json!({"nodeSelector": {"kubernetes.io/hostname": name}}));
        make(&node, &format!("fills-{name}"), &filling).await;
        node.ready(&format!("fills-{name}")).await;
    }
    let (cores, _) = crate::pod_volumes::amounts(&node.object().await["status"]["allocatable"]);
    make(&node, "additional", &cpu(cores * 1000 / 2)).await;
    fits_nowhere(&node, "additional", "Insufficient cpu").await;
    drop(second);
}

#[tokio::test]
async fn runtime_classes_are_resolved() {
    const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
    let node = Node::scheduled("classes").await;
    let cluster = &node.cluster;
    let overhead = json!({"podFixed": {"cpu": "10m", "memory": "1Mi"}});
    for (name, more) in [("plain", json!({})), ("costs", json!({"overhead": overhead})), ("goes", json!({}))]
    {
        let class = with(json!({"metadata": {"name": name}, "handler": "e2e"}), &more);
        cluster.post(CLASSES, &class).await.is(201);
    }
    cluster.delete(&format!("{CLASSES}/goes")).await.is(200);
    cluster.gone(&format!("{CLASSES}/goes")).await;
    let pod = |class: &str| {
        let main = json!({"name": "main", "image": IMAGE});
        json!({"spec": {"nodeName": "", "runtimeClassName": class, "containers": [main]}})
    };
    for (name, class) in [("deleted", "goes"), ("absent", "never")] {
        node.try_to_make(name, pod(class)).await.refuses(403, class);
    }
    // The kubelet checks whether the runtime handler exists.
    for (name, class, expected) in
        [("plain", "plain", json!(null)), ("costs", "costs", overhead["podFixed"].clone())]
    {
        let made = node.make(name, pod(class)).await;
        assert_eq!(made["spec"]["overhead"], expected, "{made}");
        let placed =
            cluster.until(&path(name), |pod| Pod(pod.clone()).condition("PodScheduled") == "True").await;
        assert_eq!(placed["spec"]["nodeName"], node.world.node.as_str());
    }
}
