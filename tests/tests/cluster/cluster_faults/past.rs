//! The clock of a node or of the master jumps; the master is restored from a backup.

use std::fs;
use std::time::Instant;

use tests::{Clock, wait_until};

use crate::cluster_faults::cluster::{Cluster, Fate, Home, RECOVERY};

/// The jump in either direction, in seconds.
const JUMP: i64 = 3600;

/// On SIGTERM leaves files on the host that outlive its pod, and ends after 5 s.
const POLITE: &str = "echo start >>/data/starts; trap 'touch /keep/asked; sleep 5; touch /keep/farewell; exit 0' TERM; sleep 1000000 & wait";
/// The termination grace period in seconds.
const GRACE: u32 = 60;

#[tokio::test]
async fn cluster_survives_clock_jumps_and_a_restored_master() {
    let clocks = [Clock::default(), Clock::default()];
    let mut cluster = Cluster::new(Home::Desk, &[], Some(&clocks)).await;

    for (who, clock) in [("master", &clocks[0]), ("kubelet", &clocks[1])] {
        for (seconds, way) in [(JUMP, "on"), (0, "back"), (-JUMP, "further back"), (0, "right again")] {
            let kept = cluster.kept(&[]).await;
            let since = Instant::now();
            clock.put(seconds);
            cluster.churn().await;
            let fault = format!("clock of the {who} put {way} by an hour");
            cluster.recovers(&fault, since, &kept, &[]).await;
        }
    }

    // A restored master does not know objects that are written after this point.
    cluster.writer.stop();
    cluster.holds(&[]).await;
    let backup = cluster.machines[0].disk().join("backup").display().to_string();
    assert_eq!(cluster.master.verb(&["backup", &backup]).await.code, 0);
    let (old, promise) =
        cluster.promises.first_key_value().map(|(uid, of)| (uid.clone(), of.clone())).unwrap();
    cluster.delete(&old).await;
    let new = cluster.make(0, Fate::Stays).await;
    let polite = cluster.make_of(1, Fate::Stays, POLITE, GRACE).await;
    cluster.holds(&[]).await;
    let mut kept = cluster.kept(&[]).await;
    kept.retain(|(uid, _)| *uid != polite);
    cluster.delete(&polite).await;
    let keep = cluster.machines[1].disk().join("keep");
    let is_requested = async || fs::metadata(keep.join("asked")).map_err(|error| error.to_string());
    wait_until(RECOVERY, is_requested).await.unwrap();

    cluster.master.kill();
    assert_eq!(cluster.master.verb(&["restore", "--replace", &backup]).await.code, 0);
    cluster.promises.get_mut(&new).unwrap().fate = Fate::Unclaimed;
    cluster.promises.insert(old, promise);
    let since = Instant::now();
    cluster.master.start().await;
    cluster.recovers("master restored from a backup", since, &kept, &[]).await;
    assert!(keep.join("farewell").exists(), "it was not given the time to end\n{}", cluster.state());
}
