//! Pods of a master that are deleted again with a shorter grace period, and a pod whose name is taken by a mirror pod.

use std::time::Duration;

use tests::Pod;
use tests::manifest::{FOREVER, container, sleeper};

use crate::cluster_pods::{apply, at_master, bound, gone_from_master, joined, kubectl};

/// Does not end on SIGTERM.
const DEAF: &str = "trap 'echo asked' TERM; echo up; while true; do sleep 1000000 & wait; done";
/// The termination grace period of a pod that may take as long as it likes.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn shortened_grace_period_takes_effect_during_termination() {
    let (master, world) = joined("hurry").await;
    // Ways to shorten the grace period of a terminating pod.
    let hurries: [(&str, &[&str]); 2] =
        [("less", &["--grace-period=1", "--wait=false"]), ("force", &["--grace-period=0", "--force"])];
    for (name, _) in hurries {
        let manifest = bound(&world, name, &format!("containers:\n- {}", container("main", DEAF, "")));
        let patient = format!("terminationGracePeriodSeconds: {}", LONG.as_secs());
        apply(&master, &world, &manifest.replace("terminationGracePeriodSeconds: 2", &patient)).await;
        at_master(&world, &master, name, "to be Ready", Pod::is_ready).await;
        world.wait_for_log(name, "main", "up").await;
    }
    for (name, hurry) in hurries {
        let pod = world.pod_name(name);
        kubectl(&master, &["delete", "pod", &pod, "--wait=false"]).await;
        world.wait_for_log(name, "main", "asked").await;
        kubectl(&master, &[&["delete", "pod", &pod], hurry].concat()).await;
        world.wait_gone(name).await;
        gone_from_master(&world, &master, name).await;
    }
}

#[tokio::test]
async fn static_pod_replaces_an_api_pod_with_the_same_name() {
    let (master, world) = joined("taken").await;
    let main = container("main", &format!("echo up; {FOREVER}"), "");
    apply(&master, &world, &bound(&world, "web", &format!("containers:\n- {main}"))).await;
    let given = at_master(&world, &master, "web", "to be Ready", Pod::is_ready).await;
    world.write("web.yaml", &sleeper("web"));
    let is_reported = |pod: &Pod| (pod.phase(), pod.text("/status/reason")) == ("Failed", "PodNameInUse");
    let failed = at_master(&world, &master, "web", "to be failed", is_reported).await;
    assert_eq!(failed.uid(), given.uid());
    assert!(failed.text("/status/message").contains("web.yaml"), "{}", failed.0["status"]);
    let own = world
        .wait_for_pod("web", "to be the node's own", |pod| pod.is_ready() && pod.uid() != given.uid())
        .await;
    // Once the pod is deleted, the mirror pod is created.
    kubectl(&master, &["delete", "pod", &world.pod_name("web")]).await;
    let image = at_master(&world, &master, "web", "to be the image", |pod| pod.uid() != given.uid()).await;
    assert_eq!(image.text("/metadata/annotations/kubernetes.io~1config.source"), "file");
    assert_eq!(world.wait_ready("web").await.container_id("main"), own.container_id("main"));
}
