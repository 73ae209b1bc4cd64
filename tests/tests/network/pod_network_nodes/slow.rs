//! A machine behind a slow link: packets in both directions are delayed, and some are lost.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::Bed;

use crate::pod_network_nodes::asking::{Client, HOST_PORT, answering, socket};
use crate::pod_network_nodes::cluster::{Cluster, WEB, condition, is_ready_with_range, web};

/// The delay in each direction.
const DELAY: Duration = Duration::from_millis(200);
const LOST_OF_A_HUNDRED: u8 = 5;

#[tokio::test]
async fn a_node_behind_a_slow_and_lossy_link_joins_runs_its_pod_and_reports_its_status() {
    let (bed, machines) = Bed::with([1]).await;
    let master = bed.master(&[]).await;
    let mut cluster = Cluster { bed, master, machines };
    let machine = &mut cluster.machines[0];
    machine.slow(DELAY, LOST_OF_A_HUNDRED);
    machine.join(&cluster.master, &[]).await;
    machine.node.write("web.yaml", &answering(WEB));
    let machine = &cluster.machines[0];
    let pod = web(machine).await;
    cluster.wait_for_node(machine, "a range and Ready", is_ready_with_range).await;

    let started = Instant::now();
    let expected = format!("{} sees {}", pod.name(), cluster.bed.address());
    Client::Desk.receives(&socket(&machine.address, HOST_PORT), &expected).await;
    // One round trip for the connection, and one for the request.
    assert!(started.elapsed() >= DELAY * 4, "the link is not slow: {:?}", started.elapsed());

    // Changes of the node's state are reported both ways.
    for (status, is_up) in [("False", false), ("True", true)] {
        let engine = &mut cluster.machines[0].engine;
        if is_up {
            engine.start().await
        } else {
            engine.stop().await
        }
        let is_shown = |node: &Value| condition(node, "Ready")["status"] == status;
        cluster.wait_for_node(&cluster.machines[0], &format!("Ready {status}"), is_shown).await;
    }
}
