//! The pod network of a single machine, whether the kubelet or the engine provides it.

use tests::Bed;

use crate::pod_network_nodes::asking::{Client, HOST_PORT, NODE_PORT, answer, answering};
use crate::pod_network_nodes::cluster::{WEB, at, web};

async fn reached_and_reaching(network: &str) {
    let (bed, [mut a, b]) = Bed::with([1, 1]).await;
    a.node.set_flags(["--pod-network", network]);
    a.node.start().await;
    a.node.write("web.yaml", &answering(WEB));
    a.node.write("other.yaml", &answering("other").replace(&HOST_PORT.to_string(), "8081"));
    let (pod, other) = (web(&a).await, a.node.wait_ready("other").await);
    answer("desk");
    b.at(|| answer("b"));
    let host_port = format!("{}:{HOST_PORT}", a.address);
    let expected_response = |address: &str| format!("{} sees {address}", pod.name());
    Client::Machine(&b).receives(&host_port, &expected_response(&b.address)).await;
    Client::Desk.receives(&host_port, &expected_response(&bed.address())).await;
    Client::Pod(&a, WEB).reaches(&host_port, pod.name()).await;
    Client::Pod(&a, "other").reaches(&host_port, pod.name()).await;
    Client::Pod(&a, "other").receives(&at(&pod), &expected_response(other.ip())).await;
    for (name, address) in [("desk", bed.address()), ("b", b.address.clone())] {
        let there = format!("{address}:{NODE_PORT}");
        Client::Pod(&a, WEB).receives(&there, &format!("{name} sees {}", a.address)).await;
    }
}

#[tokio::test]
async fn pods_in_the_native_network_connect_with_other_machines() {
    reached_and_reaching("native").await;
}

#[tokio::test]
async fn pods_in_the_docker_network_connect_with_other_machines() {
    reached_and_reaching("docker").await;
}
