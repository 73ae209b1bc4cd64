//! Power cuts of nodes and of the master's machine; an engine that hangs; a node with a full disk.

use std::time::Instant;

use tests::{Pod, wait_until};

use crate::cluster_faults::cluster::{Cluster, Home, RECOVERY};

#[tokio::test]
async fn cluster_recovers_from_power_cuts_a_hanging_engine_and_a_full_node_disk() {
    let mut cluster = Cluster::new(Home::Machine, &[], None).await;

    let kept = cluster.kept(&[1]).await;
    cluster.churn().await;
    cluster.machines[1].power_off();
    let since = Instant::now();
    cluster.machines[1].boot().await;
    cluster.machines[1].node.start().await;
    cluster.recovers("power cut of a node, from when it is back", since, &kept, &[]).await;

    let kept = cluster.kept(&[0]).await;
    cluster.churn().await;
    cluster.machines[0].power_off();
    cluster.master.kill();
    let since = Instant::now();
    cluster.machines[0].boot().await;
    cluster.machines[0].node.start().await;
    let (master, machine) = (std::mem::take(&mut cluster.master), &cluster.machines[0]);
    cluster.master = master.on(machine.host(), &machine.address);
    cluster.master.start().await;
    cluster.recovers("power cut of the master's node, from when it is back", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.churn().await;
    cluster.machines[1].engine.freeze();
    let path = format!("/api/v1/nodes/{}", cluster.machines[1].node.node);
    let is_reported = async || match Pod(cluster.get(&path).await?) {
        node if node.condition("Ready") == "False" => Ok(()),
        node => Err(node.0.to_string()),
    };
    wait_until(RECOVERY, is_reported).await.unwrap();
    let since = Instant::now();
    cluster.machines[1].engine.thaw();
    cluster.recovers("engine that hung, from when it goes on", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.disk.fill();
    cluster.churn().await;
    let is_reported = async || {
        let events = cluster.machines[2].node.get("events").await?;
        let has_room = |event: &serde_json::Value| !event["message"].to_string().contains("No space left");
        if events.iter().all(has_room) { Err(format!("{events:?}")) } else { Ok(()) }
    };
    wait_until(RECOVERY, is_reported).await.unwrap();
    let since = Instant::now();
    cluster.disk.empty();
    cluster.recovers("full disk of a node, from when there is room", since, &kept, &[]).await;
}
