//! Everybody reaches everybody, and pods see each other's own addresses.

use crate::asking::{Asker, HOST_PORT, NODE_PORT, answer};
use crate::cluster::{Cluster, WEB, at, web};

#[tokio::test]
async fn pods_and_machines_of_a_cluster_reach_each_other_on_a_segment_and_across_a_router() {
    let cluster = Cluster::of([1, 1, 2]).await;
    let bed = &cluster.bed;
    let mut pods = Vec::new();
    for machine in &cluster.machines {
        machine.at(|| answer(&machine.node.node));
        pods.push(web(machine).await);
    }
    answer("desk");
    for (from, own) in cluster.machines.iter().zip(&pods) {
        let asks = Asker::Pod(from, WEB);
        for (to, pod) in cluster.machines.iter().zip(&pods) {
            // Every pair, the pod itself among them, by its own address.
            asks.hears(&at(pod), &format!("{} hears {}", pod.name(), own.ip())).await;
            Asker::Machine(from).reaches(&at(pod), pod.name()).await;
            let host_port = format!("{}:{HOST_PORT}", to.address);
            if from.address == to.address {
                asks.reaches(&host_port, pod.name()).await;
            } else {
                // What is not for a pod bears the machine's address.
                let host = format!("{}:{NODE_PORT}", to.address);
                asks.hears(&host, &format!("{} hears {}", to.node.node, from.address)).await;
                asks.hears(&host_port, &format!("{} hears {}", pod.name(), from.address)).await;
                Asker::Machine(from)
                    .hears(&host_port, &format!("{} hears {}", pod.name(), from.address))
                    .await;
            }
        }
        let outside = format!("{}:{NODE_PORT}", bed.address());
        asks.hears(&outside, &format!("desk hears {}", from.address)).await;
        let host_port = format!("{}:{HOST_PORT}", from.address);
        Asker::Desk.hears(&host_port, &format!("{} hears {}", own.name(), bed.address())).await;
    }
}
