//! The join string under each approval policy, an external host that serves the bootstrap document, and reinstalled machines.

use std::fs;
use std::process::Stdio;

use serde_json::json;
use tests::{World, binary, free_port};

use crate::kubelet_joining::machine::{
    CLIENT, admin, file, is_in, line, master, requests, started, token, wait_for_log, whoami,
};

#[tokio::test]
async fn approval_policy_decides_which_nodes_join() {
    for (flags, expected) in [
        (vec!["--csr-approval-policy=insecure-always-approve"], None),
        (vec!["--csr-approval-policy=allowlist", "--csr-approval-allowlist=127.0.0.0/8,test-*"], None),
        (vec!["--csr-approval-policy=allowlist", "--csr-approval-allowlist=10.0.0.0/8"], Some("was denied")),
        (vec!["--csr-approval-policy=always-reject"], Some("was denied")),
    ] {
        let master = master(&flags).await;
        let node = started("policy", &["--bootstrap", &line(&master).await]).await;
        match expected {
            None => is_in(&node, &master, "kubelet:").await,
            Some(expected) => drop(wait_for_log(&node, expected).await),
        }
        assert_eq!(requests(&master, CLIENT).await.len(), 1, "{flags:?}");
    }
}

#[tokio::test]
async fn complaint_any_bootstrap_token_claims_any_name_but_a_bound_one_joins_only_its_node() {
    let master = master(&["--csr-approval-policy", "token"]).await;
    let folder = tempfile::tempdir().unwrap();
    let boot = folder.path().join("boot");
    let other = World::new("other").await.with_flags(["--bootstrap-kubeconfig", boot.to_str().unwrap()]);
    let mut own = World::new("own").await.with_flags(["--bootstrap-kubeconfig", boot.to_str().unwrap()]);
    token(&boot, &master, 1, &format!("system:bootstrappers:node:{}", own.node)).await;
    let mut other = other;
    other.launch();
    own.launch();
    is_in(&own, &master, "system:node:").await;
    wait_for_log(&other, "was denied").await;
}

#[tokio::test]
async fn complaint_an_expired_token_is_reported_at_once_with_the_remedy() {
    let master = master(&["--csr-approval-policy", "token"]).await;
    let mut node = World::new("expired").await;
    let boot = node.path("boot");
    token(&boot, &master, -1, "").await;
    node = node.with_flags(["--bootstrap-kubeconfig", boot.to_str().unwrap()]);
    node.launch();
    let log_line = wait_for_log(&node, "has expired").await;
    let command = log_line.split('`').nth(1).unwrap();
    assert!(
        command.starts_with("kubectl -n kube-system patch secret bootstrap-token-abcdef -p"),
        "{log_line}"
    );
    // Run the printed command in a shell.
    let config = master.data_dir().join("admin.kubeconfig");
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(command).env("KUBECONFIG", config).env("HOME", node.path("home"));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    is_in(&node, &master, "system:node:").await;
}

#[tokio::test]
async fn complaint_reinstalled_node_joins_again_once_its_node_is_deleted() {
    let master = master(&["--csr-approval-policy=allowlist", "--csr-approval-allowlist=127.0.0.0/8"]).await;
    let mut node = World::new("anew").await.with_flags(["--bootstrap", &line(&master).await]);
    // The Node of the former machine, whose disk is lost.
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.node}});
    let url = format!("https://127.0.0.1:{}/api/v1/nodes", master.port);
    assert_eq!(master.client().post(url).json(&object).send().await.unwrap().status().as_u16(), 201);
    node.launch();
    let log_line = wait_for_log(&node, "kubectl certificate approve").await;
    assert!(log_line.contains(&node.node), "{log_line}");
    let name = requests(&master, CLIENT).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    admin(&master, &["delete", "node", &node.node]).await;
    admin(&master, &["delete", "csr", &name]).await;
    is_in(&node, &master, "kubelet:").await;
}

#[tokio::test]
async fn kubelet_joins_through_an_external_discovery_server() {
    let master = master(&["--csr-approval-policy", "insecure-always-approve"]).await;
    let made = master.verb(&["cluster-info", "--tls-san", "127.0.0.1"]).await;
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let info = folder.path().join("cluster-info.json");
    // Masters that are unreachable come first: the node uses the one that answers, and remembers all.
    let away = free_port();
    let mut document: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    let servers = [format!("https://127.0.0.1:{away}"), format!("https://127.0.0.1:{}", master.port)];
    document["servers"] = json!(servers);
    fs::write(&info, document.to_string()).unwrap();
    let mut command = tokio::process::Command::new(binary("master"));
    command.arg("discovery").arg("--cluster-info").arg(&info).kill_on_drop(true);
    command.args(["--listen", &format!("127.0.0.1:{port}")]).stdin(Stdio::null()).stdout(Stdio::null());
    let _running = command.stderr(Stdio::null()).spawn().unwrap();
    let line = line(&master).await.replace(&master.port.to_string(), &port.to_string());
    let node = started("outside", &["--bootstrap", &line]).await;
    let written = file(&node, &node.root_dir().join("kubeconfig")).await;
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    let remembered: Vec<&str> = written["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["cluster"]["server"].as_str().unwrap())
        .collect();
    assert_eq!(remembered, servers);
    let who = whoami(&node, &master, &["--context", "default-context-2"]).await;
    assert_eq!(who["status"]["userInfo"]["username"], format!("kubelet:{}", node.node));
}
