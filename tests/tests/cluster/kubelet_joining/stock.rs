//! The stock bootstrap flow, exactly, at a server that accepts no other.

use std::fs;

use tests::World;

use crate::kubelet_joining::machine::{by_token, file, pem, wait_for_log};
use crate::kubelet_joining::stage::{Authorities, Rules, Stage, TOKEN};

#[tokio::test]
async fn bootstrap_kubeconfig_yields_a_kubeconfig_with_the_certificate_path() {
    let authorities = Authorities::new();
    let rules =
        Rules { takes_strangers: false, life: std::time::Duration::from_secs(20), ..Rules::default() };
    let stage = Stage::new(&authorities, rules).await;
    let mut node = World::new("stock").await;
    let (boot, kubeconfig, pki) =
        (node.path("bootstrap.conf"), node.path("etc/kubelet.conf"), node.path("certs"));
    fs::write(&boot, by_token(stage.server(), &authorities.root(), TOKEN)).unwrap();
    node = node.with_config("rotateCertificates: true\nserverTLSBootstrap: true\n").with_flags([
        "--bootstrap-kubeconfig",
        boot.to_str().unwrap(),
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--cert-dir",
        pki.to_str().unwrap(),
        "--node-ip",
        "127.0.0.1",
    ]);
    node.launch();
    wait_for_log(&node, "kubectl certificate approve").await;
    assert!(stage.seen().iter().all(|seen| seen.user == "token"), "{:?}", stage.seen());
    // The key waits under the file name that the stock kubelet uses; no other file exists yet.
    file(&node, &pki.join("kubelet-client.key.tmp")).await;
    assert!(!kubeconfig.exists());
    stage.approve();
    let current = pki.join("kubelet-client-current.pem");
    let first = file(&node, &current).await;
    let written = file(&node, &kubeconfig).await;
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    let user = &written["users"][0]["user"];
    assert_eq!(
        (user["client-certificate"].as_str(), user["client-key"].as_str()),
        (current.to_str(), current.to_str())
    );
    assert_eq!(written["clusters"][0]["cluster"]["server"], stage.server());
    file(&node, &pki.join("kubelet-server-current.pem")).await;
    // From then on the node uses its own certificate, also when the token no longer exists.
    fs::remove_file(&boot).unwrap();
    let renewed = async || {
        let now = file(&node, &current).await;
        if now == first { Err("it has the first one".to_owned()) } else { Ok(()) }
    };
    node.wait_for("another certificate", renewed).await;
    assert!(stage.faults().is_empty(), "{:?}", stage.faults());
    assert!(!pem(&node, "kubelet-client-current.pem").exists());
}

#[tokio::test]
async fn a_401_without_credentials_is_reported_with_the_remedy() {
    let authorities = Authorities::new();
    let rules = Rules { takes_strangers: false, ..Rules::default() };
    let stage = Stage::new(&authorities, rules).await;
    let mut node = World::new("stranger").await;
    // A kubeconfig with an empty token.
    let bare = by_token(stage.server(), &authorities.root(), "\"\"");
    let kubeconfig = node.path("bare.conf");
    fs::write(&kubeconfig, bare).unwrap();
    node = node.with_flags(["--kubeconfig", kubeconfig.to_str().unwrap()]);
    node.launch();
    let log_line = wait_for_log(&node, "answered 401").await;
    assert!(log_line.contains("--bootstrap-kubeconfig"), "{log_line}");
    assert!(stage.seen().iter().all(|seen| seen.user == "anonymous"), "{:?}", stage.seen());
}
