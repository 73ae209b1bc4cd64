//! A kubelet that the master rejects as a node, and the messages for its operator.

use std::fs;

use serde_json::Value;
use tests::manifest::sleeper;
use tests::{Master, World};

use crate::kubelet_joining::machine::{
    CLIENT, admin, file, is_in, line, master, pem, requests, started, wait_for_log,
};

/// Approves the only undecided request, once it exists.
async fn approve(node: &World, master: &Master) {
    let look = async || {
        let all = requests(master, CLIENT).await;
        let open = all.iter().find(|request| request["status"]["conditions"].is_null());
        open.map(|open| open["metadata"]["name"].as_str().unwrap().to_owned())
            .ok_or("none is open".to_owned())
    };
    let name = node.wait_for("a request", look).await;
    admin(master, &["certificate", "approve", &name]).await;
}

#[tokio::test]
async fn deleted_node_reports_the_file_to_remove_and_rejoins_without_it() {
    let master = master(&["--node-admission=certificate"]).await;
    let mut node = started("deleted", &["--bootstrap", &line(&master).await]).await;
    approve(&node, &master).await;
    is_in(&node, &master, "kubelet:").await;
    admin(&master, &["delete", "node", &node.node]).await;
    let log_line = wait_for_log(&node, "the key of this certificate is not registered for node").await;
    let own = pem(&node, "kubelet-client-current.pem");
    let remedy = format!("remove {} and start the kubelet again", own.display());
    assert!(log_line.contains("WARN") && log_line.contains(&remedy), "{log_line}");
    let look = async || {
        let events = node.get("events").await?;
        let is_reported =
            |event: &&Value| event["message"].as_str().is_some_and(|text| text.contains(&remedy));
        if events.iter().any(|event| is_reported(&event)) { Ok(()) } else { Err(format!("{events:?}")) }
    };
    node.wait_for("an event that says what to do", look).await;

    node.kill();
    let before = file(&node, &own).await;
    fs::remove_file(&own).unwrap();
    node.launch();
    approve(&node, &master).await;
    is_in(&node, &master, "kubelet:").await;
    assert_ne!(file(&node, &own).await, before);
}

#[tokio::test]
async fn user_kubeconfig_is_rejected_without_a_request() {
    let master = master(&["-v", "4"]).await;
    let mut node = World::new("person").await;
    let kubeconfig = node.path("jane.kubeconfig");
    fs::write(&kubeconfig, master.verb(&["kubeconfig", "--user", "jane"]).await.stdout).unwrap();
    node = node.with_flags(["--node-ip", "127.0.0.1", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    node.launch();
    let log_line = wait_for_log(&node, "the certificate of \"jane\"").await;
    let name = &node.node;
    for expected in [
        format!("{} has the certificate", kubeconfig.display()),
        format!("needs a certificate of kubelet:{name} or system:node:{name}"),
        "--bootstrap and the output of `master join-string`".to_owned(),
    ] {
        assert!(log_line.contains("WARN") && log_line.contains(&expected), "{expected}: {log_line}");
    }
    // It runs its own static pods anyway, and does not send the request again meanwhile.
    node.write("own.yaml", &sleeper("own"));
    node.wait_ready("own").await;
    let request_count = master.log().lines().filter(|line| line.contains("user=\"jane\"")).count();
    assert_eq!(request_count, 1, "{}", master.log());
    node.kill();
}
