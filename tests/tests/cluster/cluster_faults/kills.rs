//! Each process is killed while pods are created and deleted; the disk of the master fills up.

use std::time::Instant;

use serde_json::json;
use tests::wait_until;

use crate::cluster_faults::cluster::{Cluster, Home, MAPS, RECOVERY};

impl Cluster {
    /// The newest pod on a machine that is to stay, and its container.
    async fn newest(&self, on: usize) -> (String, String) {
        let running = self.kept(&[]).await.into_iter();
        let its = running.filter(|(uid, _)| self.promises.get(uid).is_some_and(|promise| promise.on == on));
        its.max_by_key(|(uid, _)| self.promises[uid].number()).unwrap()
    }

    /// Waits until a pod runs in another container.
    async fn is_restarted(&self, uid: &str, before: &str) {
        let look = async || match self.kept(&[]).await.into_iter().find(|(of, _)| of == uid) {
            Some((_, now)) if now != before => Ok(()),
            other => Err(format!("it is {other:?}\n{}", self.state())),
        };
        wait_until(RECOVERY, look).await.unwrap();
    }
}

#[tokio::test]
async fn cluster_recovers_from_kills_and_a_full_disk_of_the_master() {
    let mut cluster = Cluster::new(Home::Desk, &[], None).await;

    let kept = cluster.kept(&[]).await;
    cluster.churn().await;
    let since = Instant::now();
    cluster.machines[0].node.kill();
    cluster.machines[0].node.start().await;
    cluster.recovers("kill -9 of a kubelet", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.churn().await;
    let since = Instant::now();
    cluster.master.kill();
    cluster.master.start().await;
    cluster.recovers("kill -9 of the master", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.churn().await;
    let since = Instant::now();
    cluster.machines[1].engine.kill();
    cluster.machines[1].engine.start().await;
    cluster.recovers("kill -9 of dockerd", since, &kept, &[]).await;

    let kept = cluster.kept(&[]).await;
    cluster.churn().await;
    let since = Instant::now();
    cluster.machines[1].engine.kill_containerd();
    cluster.machines[1].engine.start_containerd().await;
    cluster.recovers("kill -9 of containerd", since, &kept, &[]).await;

    let (uid, container) = cluster.newest(2).await;
    let mut kept = cluster.kept(&[]).await;
    kept.retain(|(of, _)| *of != uid);
    cluster.churn().await;
    let since = Instant::now();
    cluster.machines[2].kill_shim(&container);
    cluster.is_restarted(&uid, &container).await;
    cluster.recovers("kill -9 of a containerd-shim", since, &kept, &[]).await;

    // Updates that happen while the disk is full are written once there is space.
    let refused = async || {
        cluster.disk.fill();
        let map = json!({"metadata": {"generateName": "big-"}, "data": {"x": "x".repeat(100_000)}});
        match cluster.post(MAPS, &map).await {
            Err(why) if why.starts_with("507") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    wait_until(RECOVERY, refused).await.unwrap();
    let (uid, container) = cluster.newest(0).await;
    let mut kept = cluster.kept(&[]).await;
    kept.retain(|(of, _)| *of != uid);
    let engine = cluster.machines[0].engine.engine();
    engine.docker().kill_container(&container, None).await.unwrap();
    cluster.is_restarted(&uid, &container).await;
    let since = Instant::now();
    cluster.disk.empty();
    cluster.churn().await;
    cluster.recovers("full disk of the master", since, &kept, &[]).await;
}
