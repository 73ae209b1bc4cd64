//! The first node starts the master from its manifest and joins it; a second one joins by a join string; the cluster survives kills, an
//! upgrade and a reboot.

use std::fs;

use tests::bed::manifest;
use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{Bed, Container, Machine};

use crate::cluster_bootstrap::stage::{TAG, approve, image, kubectl, names, node_ready, pod_ready, sees};

/// The containers of a static pod of the master, which must stay unchanged.
async fn containers(machine: &Machine, pod: &str) -> Vec<String> {
    let all = machine.node.containers().await;
    all.into_iter().filter(|container| container.pod == pod).map(|container| container.id).collect()
}

/// Waits until the master of a machine runs in a new container.
async fn another_master(machine: &Machine, before: &Container) -> Container {
    let look = async || match machine.node.container("master", "master").await? {
        now if now.is_running() && now.id != before.id => Ok(now),
        now => Err(format!("it is {now:?}")),
    };
    machine.node.wait_for("another container of the master", look).await
}

/// A pod with a topology spread constraint: the scheduler places one on each node.
fn spread(name: &str) -> String {
    let main = container("main", FOREVER, "");
    let spec = format!(
        "automountServiceAccountToken: false\ntopologySpreadConstraints:\n- {{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
         whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: spread}}}}}}\ncontainers:\n- {main}"
    );
    pod(name, &spec).replace("metadata:\n", "metadata:\n  labels: {app: spread}\n")
}

#[tokio::test]
async fn static_pod_master_survives_kills_upgrade_and_reboot() {
    let (_bed, [mut a, mut b]) = Bed::with([1, 1]).await;
    let image = image();
    for tag in [TAG, "next"] {
        image.give(&a.engine.engine(), "coracle/master", tag).await;
    }

    // Its bootstrap kubeconfig does not exist yet: the kubelet reports that, and runs its static pods.
    a.node.write("own.yaml", &sleeper("own"));
    a.found(&[]).await;
    a.node.wait_ready("own").await;
    let look = async || {
        let log = fs::read_to_string(a.node.log_path()).map_err(|error| error.to_string())?;
        let count = log.matches("bootstrap.kubeconfig, which does not exist yet").count();
        if count == 1 { Ok(()) } else { Err(format!("it says so {count} times: {log}")) }
    };
    a.node.wait_for("the log to say once that the kubeconfig is missing", look).await;
    a.node.write("master.yaml", &a.own_manifest(&manifest("master.yaml"), TAG));
    node_ready(&a, &a).await;

    // Later nodes need an approval.
    let line = a.node.wait_for("a line to join by", async || a.join_string().await).await;
    b.join_by(&line).await;
    approve(&a, &b).await;
    node_ready(&a, &b).await;
    let files = ["left", "right"].map(|name| {
        let path = a.node.path(&format!("{name}.yaml"));
        fs::write(&path, spread(name)).unwrap();
        path
    });
    for file in &files {
        kubectl(&a, &["apply", "-f", file.to_str().unwrap()]).await;
    }
    let (left, right) = (pod_ready(&a, "left").await, pod_ready(&a, "right").await);
    let is_on_a = left.text("/spec/nodeName") == a.node.node;
    let (on_a, on_b) = if is_on_a { (left, right) } else { (right, left) };
    assert_eq!(on_b.text("/spec/nodeName"), b.node.node, "one on each");
    // The serving certificate of the node is approved automatically.
    let look = async || match a.kubectl(&["logs", on_a.name()]).await {
        output if output.code == 0 => Ok(()),
        output => Err(output.stderr),
    };
    a.node.wait_for("logs of a pod on the first node", look).await;

    // The list of pods contains the mirror pod.
    pod_ready(&a, &a.node.pod_name("own")).await;
    let nodes = names(&a, "/api/v1/nodes").await;
    let pods = names(&a, "/api/v1/namespaces/default/pods").await;
    let (kept_on_a, kept_on_b) = (containers(&a, on_a.name()).await, containers(&b, on_b.name()).await);
    let own = containers(&a, &a.node.pod_name("own")).await;

    // Both are killed at once, so that no process observes the end of the other one.
    let before = a.node.container("master", "master").await.unwrap();
    a.node.kill();
    a.run("pkill -KILL -x master");
    a.node.start().await;
    let killed = another_master(&a, &before).await;
    node_ready(&a, &a).await;

    // An upgrade to another version.
    a.node.write("master.yaml", &a.own_manifest(&manifest("master.yaml"), "next"));
    let upgraded = another_master(&a, &killed).await;
    let runs = |of: &Container| {
        let (engine, id) = (a.engine.engine(), of.id.clone());
        async move { engine.inspect(&id).await.map(|seen| seen.image) }
    };
    assert_ne!(runs(&upgraded).await.unwrap(), runs(&killed).await.unwrap());
    a.node.wait_ready("master").await;
    node_ready(&a, &a).await;
    assert_eq!(names(&a, "/api/v1/namespaces/default/pods").await, pods);
    assert_eq!(containers(&a, on_a.name()).await, kept_on_a, "pods coast");
    assert_eq!(containers(&b, on_b.name()).await, kept_on_b);
    assert_eq!(containers(&a, &a.node.pod_name("own")).await, own);

    a.power_off();
    a.boot().await;
    a.node.start().await;
    node_ready(&a, &a).await;
    assert_eq!(names(&a, "/api/v1/nodes").await, nodes);
    assert_eq!(names(&a, "/api/v1/namespaces/default/pods").await, pods);
    let path = format!("/api/v1/namespaces/default/pods/{}", on_a.name());
    let again = |pod: &serde_json::Value| {
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        tests::Pod(pod.clone()).is_ready() && restarts > Some(0)
    };
    sees(&a, &path, "to run again", again).await;
    assert_eq!(containers(&b, on_b.name()).await, kept_on_b);
}
