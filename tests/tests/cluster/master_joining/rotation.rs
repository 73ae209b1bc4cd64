//! CA rotation: a new root is added while clients keep working, then the old one is retired.

use std::fs;

use master::pki::ca_hash;
use serde_json::Value;
use tests::{DEADLINE, Master, trusting, wait_until};

use crate::master_joining::bootstrap::{join_string, learn};
use crate::master_joining::machine::{CLIENT, Machine, Shows, admin};

async fn rotate(master: &Master, flags: &[&str]) -> String {
    let done = master.verb(&[&["rotate-ca"], flags].concat()).await;
    assert!(done.code == 0 && done.stdout.contains("has reloaded it"), "{done:?}\n{}", master.log());
    done.stdout
}

/// Waits until the ConfigMap with the CA bundle for pods has that many certificates.
async fn published_to_pods(master: &Master, expected: usize) {
    let look = async || {
        let path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
        let (_, text) = master.get_as_admin(path).await;
        let found = text.matches("BEGIN CERTIFICATE").count();
        if found == expected { Ok(()) } else { Err(text) }
    };
    wait_until(DEADLINE, look)
        .await
        .unwrap_or_else(|seen| panic!("not {expected}: {seen}\n{}", master.log()));
}

#[tokio::test]
async fn a_rotated_root_ca_interrupts_no_client_that_trusts_it() {
    let master = Master::running().await;
    let (old_line, old_admin) = (join_string(&master).await, master.admin().unwrap());
    let old_file = master.data_dir().join("old.kubeconfig");
    fs::copy(master.data_dir().join("admin.kubeconfig"), &old_file).unwrap();
    let old_node = Machine::new();
    let request = old_node.request("kubelet:n1", "");
    old_node.request_certificate(&master, &Shows::Nothing, ("old", CLIENT), &request).await;
    admin(&master, "certificate approve old").await;
    let of_old = old_node.is_signed(&master, &Shows::Nothing, "old").await;
    let node = serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let (code, made) =
        old_node.sends(&master, &Shows::Certificate(&of_old), "/api/v1/nodes", Some(&node)).await;
    assert_eq!(code, 201, "{made}");
    // A watch that stays open until its root is retired.
    let url = format!("https://127.0.0.1:{}/api/v1/namespaces?watch=true", master.port);
    let mut watch = master.client().get(&url).send().await.unwrap();
    assert!(watch.chunk().await.unwrap().is_some());

    let printed = rotate(&master, &[]).await;
    let new_line = join_string(&master).await;
    let pinned = |line: &str| line.split_once("#sha256:").unwrap().1.to_owned();
    assert!(printed.contains(&pinned(&new_line)) && pinned(&new_line) != pinned(&old_line), "{printed}");
    let cluster_info = learn(&new_line).await.unwrap();
    assert_eq!(cluster_info["retiringAuthority"], old_admin.authority.as_str());
    assert_eq!(
        ca_hash(cluster_info["certificateAuthority"].as_str().unwrap().as_bytes()).unwrap(),
        pinned(&new_line)
    );
    let refused = learn(&old_line).await.unwrap_err();
    assert!(refused.starts_with("another authority"), "{refused}");
    published_to_pods(&master, 2).await;
    let both = master.admin().unwrap();
    assert_eq!(both.authority.matches("BEGIN CERTIFICATE").count(), 2);
    // A client that trusts only the old root, one that trusts only the new one, and a new node.
    let output = master.kubectl(&old_file, &["get", "namespaces"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let new_root = cluster_info["certificateAuthority"].as_str().unwrap();
    let own = (both.credentials.certificates.as_str(), both.credentials.key.as_str());
    let knows_new = trusting(new_root, Some(own)).unwrap();
    assert_eq!(master.send_request(&knows_new, "/api/v1/namespaces").await.unwrap().0, 200);
    let new_node = Machine::new();
    let request = new_node.request("kubelet:n2", "");
    new_node.request_certificate(&master, &Shows::Nothing, ("new", CLIENT), &request).await;
    admin(&master, "certificate approve new").await;
    let of_new = new_node.is_signed(&master, &Shows::Nothing, "new").await;
    for (machine, certificate) in [(&old_node, &of_old), (&new_node, &of_new)] {
        let (code, seen) =
            machine.sends(&master, &Shows::Certificate(certificate), "/api/v1/nodes/n9", None).await;
        assert_eq!(code, 404, "a node is known by it, and may look for others: {seen}");
    }
    let checked = master.verb(&["check"]).await.stdout;
    assert!(
        checked.contains("two root CAs are trusted") && checked.contains("master rotate-ca --retire"),
        "{checked}"
    );
    // The command lists nodes that retirement would lock out, until they present certificates of the new root.
    let late = "1 node without a certificate of the new root: n1";
    assert!(checked.contains(late), "{checked}");
    let refused = master.verb(&["rotate-ca", "--retire"]).await;
    assert!(
        refused.code != 0 && refused.stderr.contains(late) && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    published_to_pods(&master, 2).await;
    rotate(&master, &["--intermediate"]).await;
    assert_eq!(master.kubectl(&old_file, &["get", "namespaces"]).await.code, 0);
    let request = old_node.request("kubelet:n1", "");
    old_node.request_certificate(&master, &Shows::Certificate(&of_old), ("renewed", CLIENT), &request).await;
    let renewed = old_node.is_signed(&master, &Shows::Nothing, "renewed").await;
    let ready = serde_json::json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let (code, cluster_info) = old_node.patches(&master, &renewed, "/api/v1/nodes/n1/status", &ready).await;
    assert_eq!(code, 200, "{cluster_info}");
    let checked = master.verb(&["check"]).await.stdout;
    assert!(!checked.contains("of the new root:") && checked.contains("two root CAs"), "{checked}");
    let mut new_watch = master.client().get(&url).send().await.unwrap();
    assert!(new_watch.chunk().await.unwrap().is_some());
    let twice = master.verb(&["rotate-ca"]).await;
    assert!(twice.code != 0 && twice.stderr.contains("--retire"), "{twice:?}");

    rotate(&master, &["--retire"]).await;
    published_to_pods(&master, 1).await;
    let gone = master.kubectl(&old_file, &["get", "namespaces"]).await;
    assert!(gone.code != 0 && gone.stderr.contains("certificate"), "{gone:?}");
    assert_eq!(master.send_request(&knows_new, "/api/v1/namespaces").await.unwrap().0, 200);
    assert!(learn(&new_line).await.unwrap()["retiringAuthority"].is_null());
    assert!(!master.verb(&["check"]).await.stdout.contains("two root CAs"));
    assert_ne!(master.verb(&["rotate-ca", "--retire"]).await.code, 0);
    // Watches that were authenticated with the retired root are closed; others stay open.
    let ends = async { while let Ok(Some(_)) = watch.chunk().await {} };
    tokio::time::timeout(DEADLINE, ends).await.unwrap();
    admin(&master, "create namespace late").await;
    let look = async |watch: &mut reqwest::Response| loop {
        let chunk = watch.chunk().await.unwrap().expect("the watch ended");
        if String::from_utf8_lossy(&chunk).contains("late") {
            break;
        }
    };
    tokio::time::timeout(DEADLINE, look(&mut new_watch)).await.unwrap();
}

#[tokio::test]
async fn a_root_ca_is_not_retired_while_its_clients_are_unknown() {
    let mut master = Master::running().await;
    rotate(&master, &[]).await;
    let retiring = master.data_dir().join("pki/retiring.crt");
    master.kill();
    let refused = master.verb(&["rotate-ca", "--retire"]).await;
    assert!(refused.code != 0 && refused.stderr.contains("no master runs on"), "{refused:?}");
    assert!(retiring.exists());
    let done = master.verb(&["rotate-ca", "--retire", "--force"]).await;
    assert!(done.code == 0 && done.stdout.contains("No master is running here"), "{done:?}");
    assert!(!retiring.exists());
}

#[tokio::test]
async fn a_root_ca_without_its_key_is_not_rotated() {
    let master = Master::running().await;
    let key = master.data_dir().join("pki/root.key");
    fs::rename(&key, master.data_dir().join("elsewhere.key")).unwrap();
    let refused = master.verb(&["rotate-ca"]).await;
    assert!(refused.code != 0 && refused.stderr.contains("put the key of root.crt there"), "{refused:?}");
    let cluster_info: Value = learn(&join_string(&master).await).await.unwrap();
    assert!(cluster_info["retiringAuthority"].is_null(), "{cluster_info}");
}
