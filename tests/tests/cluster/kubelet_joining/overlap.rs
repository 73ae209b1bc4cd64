//! While two roots are trusted, an attacker with the stolen key of the replaced root cannot change which roots a node
//! trusts.

use jiff::SignedDuration;
use serde_json::{Value, json};

use tests::free_port;

use crate::kubelet_joining::machine::{file, pem, started, wait_for_log};
use crate::kubelet_joining::roots::{begins, believes};
use crate::kubelet_joining::stage::{Authorities, Rules, Stage};

const DOUBTED: &str = "which cannot be confirmed";

/// The bootstrap document that a server serves.
fn document(server: &str, root: &str, retiring: &str) -> Option<Value> {
    Some(json!({
        "apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": [server], "certificateAuthority": root,
        "retiringAuthority": retiring, "nodeUserPrefix": "kubelet:",
    }))
}

#[tokio::test]
async fn retiring_root_cannot_replace_the_cluster_info() {
    let (old, evil) = (Authorities::new(), Authorities::new());
    let stage = Stage::new(&old, Rules::default()).await;
    let (line, server) = (stage.line(), stage.server().to_owned());
    let mut node = started("overlap", &["--bootstrap", &line]).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    stage.approve();
    file(&node, &pem(&node, "kubelet-server-current.pem")).await;
    believes(&node, &[&old.root()]).await;
    node.kill();

    // A root whose key that server does not have.
    let rules = Rules { document: document(&server, &evil.root(), &old.root()), ..Rules::default() };
    let stage = Stage::at(stage.leave().await, &old, rules, SignedDuration::ZERO).await;
    begins(&mut node, &line, DOUBTED).await;
    believes(&node, &[&old.root()]).await;
    node.kill();

    let new = old.rotated();
    let stage = Stage::at(stage.leave().await, &new, Rules::default(), SignedDuration::ZERO).await;
    begins(&mut node, &line, "the cluster info changed").await;
    believes(&node, &[&new.root(), &old.root()]).await;
    node.kill();

    // The attacker answers at that address: with the old root alone, with the two roots swapped, with a root of the
    // attacker.
    let mut port = stage.leave().await;
    for (thief, root, retiring) in [
        (&old, old.root(), String::new()),
        (&old, old.root(), new.root()),
        (&old, evil.root(), old.root()),
        (&old.rotated(), String::new(), String::new()),
    ] {
        // In the last case the attacker has created a new root and a cross-signed certificate for it.
        let document = if root.is_empty() { None } else { document(&server, &root, &retiring) };
        let rules = Rules { document, ..Rules::default() };
        let stage = Stage::at(port, thief, rules, SignedDuration::ZERO).await;
        begins(&mut node, &line, DOUBTED).await;
        believes(&node, &[&new.root(), &old.root()]).await;
        node.kill();
        port = stage.leave().await;
    }

    // The attacker names servers that confirm the attacker's root: one of the attacker, and a node with a certificate
    // of the remaining root.
    let cluster_info = |servers: &[&str]| {
        let mut cluster_info = document(servers[0], &evil.root(), &old.root()).unwrap();
        cluster_info["servers"] = json!(servers);
        Some(cluster_info)
    };
    let (his, nodes) = (free_port(), free_port());
    let [his_server, nodes_server] = [&his, &nodes].map(|port| format!("https://127.0.0.1:{port}"));
    let cluster_info = cluster_info(&[&server, &his_server, &nodes_server]);
    let rules = Rules { document: cluster_info.clone(), ..Rules::default() };
    let as_node = Rules { is_node: true, ..rules.clone() };
    let _his = Stage::at(his, &evil, rules.clone(), SignedDuration::ZERO).await;
    let _nodes = Stage::at(nodes, &new, as_node.clone(), SignedDuration::ZERO).await;
    for (thief, rules) in [(&old, rules), (&new, as_node)] {
        let stage = Stage::at(port, thief, rules, SignedDuration::ZERO).await;
        begins(&mut node, &line, DOUBTED).await;
        believes(&node, &[&new.root(), &old.root()]).await;
        node.kill();
        port = stage.leave().await;
    }

    let retired = new.retired();
    let _stage = Stage::at(port, &retired, Rules::default(), SignedDuration::ZERO).await;
    begins(&mut node, &line, "the cluster info changed").await;
    believes(&node, &[&new.root()]).await;
}

#[tokio::test]
async fn a_discovery_server_names_the_masters_and_does_not_change_the_trusted_ca() {
    let (own, evil) = (Authorities::new(), Authorities::new());
    let cluster = Stage::new(&own, Rules::default()).await;
    let cluster_info = document(cluster.server(), &(own.root() + &evil.root()), &evil.root());
    let rules = Rules { document: cluster_info, is_node: true, ..Rules::default() };
    let messenger = Stage::new(&own, rules).await;
    let node = started("messenger", &["--bootstrap", &messenger.line()]).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    assert_eq!((cluster.approve(), messenger.approve()), (1, 0));
    believes(&node, &[&own.root()]).await;
}
