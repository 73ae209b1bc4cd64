//! The master's root CA is rotated: running nodes and returning nodes adopt it by themselves, and certificates
//! of another cluster are rejected.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tests::{Master, World};

use crate::kubelet_joining::machine::{file, is_in, line, master, pem, started};
use crate::kubelet_joining::reached::{logs, runs, wait_for_logs};

const CLIENT: &str = "kubelet-client-current.pem";
const SERVING: &str = "kubelet-server-current.pem";
const ALL: &str = "--csr-approval-policy=insecure-always-approve";

async fn rotate(master: &Master, flags: &[&str]) {
    let done = master.verb(&[&["rotate-ca"], flags].concat()).await;
    assert!(done.code == 0 && done.stdout.contains("has reloaded it"), "{done:?}\n{}", master.log());
}

/// The PEM certificates of the authorities in the kubeconfig that a node wrote.
fn authorities(node: &World) -> Result<String, String> {
    let text = fs::read(node.root_dir().join("kubeconfig")).map_err(|error| error.to_string())?;
    let file: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let data = file["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(data).unwrap()).unwrap())
}

/// Waits until a node trusts exactly these roots, for servers and for the clients of its own API.
pub async fn believes(node: &World, roots: &[&str]) {
    let look = async || {
        let clients = fs::read_to_string(pem(node, "ca.crt")).map_err(|error| error.to_string())?;
        let servers = authorities(node)?;
        let is_so = servers == roots.concat() && clients == servers;
        let count = |text: &str| text.matches("BEGIN CERTIFICATE").count();
        if is_so { Ok(()) } else { Err(format!("{} and {} roots", count(&servers), count(&clients))) }
    };
    node.wait_for("these roots", look).await;
}

/// Waits until the master's current intermediate CA has signed both certificates of a node.
async fn is_reissued(node: &World, master: &Master) {
    let intermediate = master.file("pki/intermediate.crt");
    for name in [CLIENT, SERVING] {
        let look = async || {
            let text = fs::read_to_string(pem(node, name)).map_err(|error| error.to_string())?;
            if text.contains(intermediate.trim()) {
                Ok(())
            } else {
                Err("it is signed by another".to_owned())
            }
        };
        node.wait_for(name, look).await;
    }
}

/// Starts a kubelet with a join string, and waits until its new log contains the text.
pub async fn begins(node: &mut World, line: &str, text: &str) {
    let begun = fs::read_to_string(node.log_path()).unwrap().len();
    node.set_flags(["--node-ip", "127.0.0.1", "--bootstrap", line]);
    node.launch();
    let look = async || {
        let log = fs::read_to_string(node.log_path()).unwrap();
        if log[begun..].contains(text) { Ok(()) } else { Err(log[begun..].to_owned()) }
    };
    node.wait_for(text, look).await;
}

#[tokio::test]
async fn the_root_ca_is_rotated_and_retired_while_the_kubelet_runs() {
    // Nodes check for a new root several times in the life of a certificate.
    let master = master(&[ALL, "--cluster-signing-duration=60s"]).await;
    let old_line = line(&master).await;
    let mut node = started("root", &["--bootstrap", &old_line]).await;
    is_in(&node, &master, "kubelet:").await;
    let pod = runs(&node, &master).await;
    file(&node, &pem(&node, SERVING)).await;
    let old = master.file("pki/root.crt");
    believes(&node, &[&old]).await;
    let process = node.kubelet_pid();

    rotate(&master, &[]).await;
    let new = master.file("pki/root.crt");
    believes(&node, &[&new, &old]).await;
    is_reissued(&node, &master).await;
    logs(&master, &pod).await;

    // The Node object reports the new certificate after its next update.
    let retired = async || {
        let expected_text = master.verb(&["rotate-ca", "--retire"]).await;
        if expected_text.code == 0 { Ok(()) } else { Err(expected_text.stderr) }
    };
    node.wait_for("all clients to leave the old root", retired).await;
    believes(&node, &[&new]).await;
    logs(&master, &pod).await;
    is_in(&node, &master, "kubelet:").await;
    assert_eq!(node.kubelet_pid(), process);

    // The current join string, and the old one that is still in the unit file.
    for line in [line(&master).await, old_line] {
        node.kill();
        begins(&mut node, &line, "the client certificate of this node is valid until").await;
        believes(&node, &[&new]).await;
        wait_for_logs(&node, &master, &pod).await;
    }
}

#[tokio::test]
async fn node_accepts_a_new_join_string_only_of_its_own_cluster() {
    let master = master(&[ALL]).await;
    let mut node = started("new-line", &["--bootstrap", &line(&master).await]).await;
    is_in(&node, &master, "kubelet:").await;
    file(&node, &pem(&node, SERVING)).await;
    node.kill();
    let old = master.file("pki/root.crt");
    rotate(&master, &[]).await;
    let new = master.file("pki/root.crt");
    let line = line(&master).await;
    let other = format!("https://127.0.0.1:{}#sha256:{}", master.port, "0".repeat(64));
    begins(&mut node, &other, "belongs to another cluster than --bootstrap").await;
    node.kill();
    believes(&node, &[&old]).await;
    begins(&mut node, &line, "the cluster info changed").await;
    believes(&node, &[&new, &old]).await;
    // Without the rotation they would be valid for a year.
    is_reissued(&node, &master).await;
    is_in(&node, &master, "kubelet:").await;
}

#[tokio::test]
async fn the_serving_certificate_of_another_cluster_is_replaced_at_once() {
    let (before, now) = (master(&[ALL]).await, master(&[ALL]).await);
    let mut node = started("moved", &["--bootstrap", &line(&before).await]).await;
    is_in(&node, &before, "kubelet:").await;
    let foreign = file(&node, &pem(&node, SERVING)).await;
    assert!(foreign.contains(before.file("pki/intermediate.crt").trim()));
    // The steps by which docs/joining.md moves a node to another cluster.
    node.kill();
    fs::remove_file(node.root_dir().join("kubeconfig")).unwrap();
    fs::remove_file(pem(&node, CLIENT)).unwrap();
    let expected_text = "the serving certificate of this node is signed by no CA of its cluster";
    begins(&mut node, &line(&now).await, expected_text).await;
    is_in(&node, &now, "kubelet:").await;
    is_reissued(&node, &now).await;
    let log = fs::read_to_string(node.log_path()).unwrap();
    assert_eq!(log.matches(expected_text).count(), 1, "{log}");
}
