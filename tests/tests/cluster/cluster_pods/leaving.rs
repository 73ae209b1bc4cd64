//! The permanent removal of a node, by the steps of `docs/node-lifecycle.md`.

use std::fs;

use tests::manifest::{FOREVER, container, sleeper};
use tests::{Pod, network};

use crate::cluster_pods::{apply, at_master, bound, get, gone_from_master, joined, kubectl};

#[tokio::test]
async fn removed_node_leaves_no_state_and_may_join_again() {
    let (master, mut world) = joined("leaving").await;
    let spec =
        format!("containers:\n- {}\nvolumes:\n- {{name: v, emptyDir: {{}}}}", container("main", FOREVER, ""));
    apply(&master, &world, &bound(&world, "given", &spec)).await;
    at_master(&world, &master, "given", "to be Ready", Pod::is_ready).await;
    world.write("own.yaml", &sleeper("own"));
    at_master(&world, &master, "own", "to be Ready", Pod::is_ready).await;

    let node = world.node.clone();
    let drain = ["drain", &node, "--ignore-daemonsets", "--delete-emptydir-data", "--force"];
    let output = kubectl(&master, &drain).await;
    assert!(output.contains("drained"), "{output}");
    gone_from_master(&world, &master, "given").await;
    world.wait_gone("given").await;
    world.wait_ready("own").await;
    world.remove("own.yaml");
    world.wait_gone("own").await;
    gone_from_master(&world, &master, "own").await;

    let empty = async || match world.leftovers().await {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    };
    world.wait_for("nothing to be left of the pods", empty).await;
    world.stop().await;
    assert_eq!(world.leftovers().await, [""; 0]);
    assert_eq!(network::bridge(&node), None);
    kubectl(&master, &["delete", "node", &node]).await;
    for path in [
        format!("/api/v1/nodes/{node}"),
        format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"),
    ] {
        let look = async || match get(&master, &path).await {
            Err(why) if why.starts_with("404") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        world.wait_for(&format!("{path} to go"), look).await;
    }

    fs::remove_dir_all(world.root_dir()).unwrap();
    world.start().await;
    let look = async || {
        let found = get(&master, &format!("/api/v1/nodes/{node}")).await?;
        let is_new = found["spec"]["unschedulable"].is_null() && Pod(found.clone()).is_ready();
        if is_new { Ok(()) } else { Err(found.to_string()) }
    };
    world.wait_for("the machine to be a new node", look).await;
}
