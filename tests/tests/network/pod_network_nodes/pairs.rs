//! All pods and machines reach each other, and pods see each other's own addresses.

use serde_json::{Value, json};
use tests::{Bed, Pod};

use crate::pod_network_nodes::asking::{Client, HOST_PORT, NODE_PORT, answer, socket};
use crate::pod_network_nodes::cluster::{Cluster, WEB, ranges_of, web};

const RANGE4: &str = "10.244.0.0/16";
const RANGE6: &str = "fd00:244::/48";

/// The pod's only address of an IP version.
fn ip(pod: &Pod, version: u8) -> String {
    let mut all = pod.ips().into_iter().filter(|ip| ip.contains(':') == (version == 6));
    let one = all.next().unwrap_or_else(|| panic!("no address of IPv{version}: {}", pod.0)).to_owned();
    assert_eq!(all.next(), None, "{}", pod.0);
    one
}

/// Sends a request from each client to each server by an IP version.
async fn all_reach_each_other(cluster: &Cluster<3>, version: u8) {
    let mut pods = Vec::new();
    for machine in &cluster.machines {
        let pod = web(machine).await;
        pods.push((pod.name().to_owned(), ip(&pod, version), machine.address_of(version)));
    }
    for (from, (name, own, near)) in cluster.machines.iter().zip(&pods) {
        let client = Client::Pod(from, WEB);
        for (to, (pod, address, far)) in cluster.machines.iter().zip(&pods) {
            // Each pair of pods, including the pod itself, sees the pod's own address.
            let at = socket(address, 80);
            client.receives(&at, &format!("{pod} sees {own}")).await;
            Client::Machine(from).reaches(&at, pod).await;
            let host_port = socket(far, HOST_PORT);
            if near == far {
                client.reaches(&host_port, pod).await;
            } else {
                // Traffic from a pod to anything but pods has the machine's source address.
                let host = socket(far, NODE_PORT);
                client.receives(&host, &format!("{} sees {near}", to.node.node)).await;
                client.receives(&host_port, &format!("{pod} sees {near}")).await;
                Client::Machine(from).receives(&host_port, &format!("{pod} sees {near}")).await;
            }
        }
        let desk = cluster.bed.address_of(version);
        client.receives(&socket(&desk, NODE_PORT), &format!("desk sees {near}")).await;
        Client::Desk.receives(&socket(near, HOST_PORT), &format!("{name} sees {desk}")).await;
    }
}

/// Starts the servers of the machines and of the desk.
fn answer_all(cluster: &Cluster<3>) {
    for machine in &cluster.machines {
        machine.at(|| answer(&machine.node.node));
    }
    answer("desk");
}

#[tokio::test]
async fn pods_and_nodes_connect_on_one_segment_and_across_a_router() {
    let cluster = Cluster::of([1, 1, 2]).await;
    answer_all(&cluster);
    all_reach_each_other(&cluster, 4).await;
}

#[tokio::test]
async fn pods_and_nodes_connect_over_both_families_in_dual_stack() {
    let cluster = Cluster::with_ranges(Bed::with([1, 1, 2]).await, &[RANGE4, RANGE6]).await;
    answer_all(&cluster);
    for machine in &cluster.machines {
        let node = cluster.node(machine).await.unwrap();
        let is_ipv4: Vec<_> = ranges_of(&node).iter().map(|range| range.addr().is_ipv4()).collect();
        assert_eq!(is_ipv4, [true, false], "the ranges of a node are in the order of the cluster's");
        let internal =
            [4, 6].map(|version| json!({"type": "InternalIP", "address": machine.address_of(version)}));
        let addresses = node["status"]["addresses"].as_array().unwrap();
        let internal_ips: Vec<&Value> =
            addresses.iter().filter(|address| address["type"] == "InternalIP").collect();
        assert_eq!(internal_ips, internal.iter().collect::<Vec<_>>());
        let pod = web(machine).await;
        assert_eq!(pod.ips(), [ip(&pod, 4), ip(&pod, 6)], "the primary address comes first");
    }
    all_reach_each_other(&cluster, 4).await;
    all_reach_each_other(&cluster, 6).await;
}

#[tokio::test]
async fn pods_and_nodes_connect_over_ipv6_only() {
    let cluster = Cluster::with_ranges(Bed::with_ipv6([1, 1, 2]).await, &[RANGE6]).await;
    answer_all(&cluster);
    for machine in &cluster.machines {
        let pod = web(machine).await;
        assert_eq!(pod.ips(), [ip(&pod, 6)]);
    }
    all_reach_each_other(&cluster, 6).await;
}
