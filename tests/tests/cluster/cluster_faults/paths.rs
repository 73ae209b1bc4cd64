//! Network partitions between nodes and their master, in both directions or in one, until pods are evicted; a frozen
//! node; links with delay and packet loss.

use std::time::{Duration, Instant};

use tests::wait_until;

use crate::cluster_faults::cluster::{Cluster, Fate, Home, PODS, RECOVERY};

/// The grace period is twice the interval of lease renewals: no other node must be lost on a busy machine.
const FLAGS: [&str; 4] = ["--node-monitor-grace-period", "20s", "--node-eviction-rate", "1"];

/// The delay in each direction.
const DELAY: Duration = Duration::from_millis(100);
const LOST_OF_A_HUNDRED: u8 = 20;

impl Cluster {
    /// Waits until the master has evicted these pods from unreachable nodes.
    async fn evicts(&self, fickle: &[String]) {
        let look = async || {
            let list = self.get(PODS).await?;
            let pods = list["items"].as_array().ok_or("no list of pods")?;
            let is_going = |uid: &String| {
                pods.iter().any(|pod| {
                    pod["metadata"]["uid"] == **uid && pod["metadata"]["deletionTimestamp"].is_string()
                })
            };
            if fickle.iter().all(is_going) {
                Ok(())
            } else {
                Err(format!("they are not all evicted: {list}"))
            }
        };
        wait_until(RECOVERY, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", self.state()));
    }

    /// Creates a pod on each of these machines that is evicted when its node is unreachable, and waits until the pods run.
    async fn fickle(&mut self, on: [usize; 2]) -> Vec<String> {
        let mut made = Vec::new();
        for machine in on {
            made.push(self.make(machine, Fate::Fickle).await);
        }
        self.holds(&[]).await;
        made
    }
}

#[tokio::test]
async fn unreachable_frozen_and_slow_nodes_recover() {
    let mut cluster = Cluster::new(Home::Desk, &FLAGS, None).await;

    // One machine has no cable; packets from the other one are dropped.
    let fickle = cluster.fickle([1, 2]).await;
    let mut kept = cluster.kept(&[]).await;
    kept.retain(|(uid, _)| !fickle.contains(uid));
    cluster.machines[1].cut();
    cluster.bed.lose_from(&cluster.machines[2]);
    cluster.churn().await;
    cluster.evicts(&fickle).await;
    let since = Instant::now();
    cluster.machines[1].heal();
    cluster.recovers("partition both ways, from its end", since, &kept, &[2]).await;
    let since = Instant::now();
    cluster.bed.lose_nothing();
    cluster.recovers("partition from the node to the master, from its end", since, &kept, &[]).await;

    // Packets to one machine are dropped; the other machine's time stands still.
    let fickle = cluster.fickle([1, 2]).await;
    let mut kept = cluster.kept(&[]).await;
    kept.retain(|(uid, _)| !fickle.contains(uid));
    cluster.bed.lose_towards(&cluster.machines[1]);
    cluster.machines[2].freeze();
    cluster.churn().await;
    cluster.evicts(&fickle).await;
    let since = Instant::now();
    cluster.bed.lose_nothing();
    cluster.recovers("partition from the master to the node, from its end", since, &kept, &[2]).await;
    let since = Instant::now();
    cluster.machines[2].thaw();
    cluster.recovers("frozen node, from when it goes on", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.machines[1].slow(DELAY, LOST_OF_A_HUNDRED);
    let since = Instant::now();
    cluster.churn().await;
    cluster.recovers("loss of 20 % and delay of 100 ms, while it lasts", since, &kept, &[]).await;
    cluster.churn().await;
    let since = Instant::now();
    cluster.machines[1].straighten();
    cluster.recovers("loss and delay, from their end", since, &kept, &[]).await;
}
