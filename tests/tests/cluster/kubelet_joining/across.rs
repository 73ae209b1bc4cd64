//! A master on one host and kubelets on others: the join string is copied once, and the approval policy decides.

use std::fs;
use std::process::Stdio;

use apiserver::tls::{self, Keys};
use axum::routing::post;
use master::kubeconfig::Kubeconfig;
use master::pki::{Names, Pki};
use serde_json::{Value, json};
use tests::manifest::{FOREVER, scripted};
use tests::{Master, World, binary, free_port};
use tokio::sync::watch;

use crate::kubelet_joining::hosts::{Hosts, address};
use crate::kubelet_joining::machine::{CLIENT, admin, file, is_in, pem, requests, token, wait_for_log};
use crate::kubelet_joining::reached::shown;

/// A master on the first host.
async fn master(flags: &[&str]) -> Master {
    let at = address(0);
    let own = ["--advertise-address", at.as_str()];
    let mut master = Master::new().with_flags(own.iter().chain(flags).copied());
    master.start().await;
    master
}

/// The join string as it is printed.
async fn line(master: &Master) -> String {
    master.verb(&["join-string"]).await.stdout.trim_end().to_owned()
}

/// A running kubelet on the given host.
async fn started(hosts: &Hosts, host: usize, name: &str, flags: &[&str]) -> World {
    let at = address(host);
    let own = ["--node-ip", at.as_str()];
    let mut world = World::new(name).await.with_flags(own.iter().chain(flags).copied());
    hosts.at(host, || world.launch());
    world
}

#[tokio::test]
async fn administrator_approves_two_hosts_across_master_restarts_and_lists_their_pods() {
    let hosts = Hosts::new(3).await;
    let mut master = master(&[]).await;
    let line = line(&master).await;
    let nodes = [
        started(&hosts, 1, "one", &["--bootstrap", &line]).await,
        started(&hosts, 2, "two", &["--bootstrap", &line]).await,
    ];
    for node in &nodes {
        let script = format!("echo this is {}; {FOREVER}", node.node);
        node.write("web.yaml", &scripted("web", "Always", &script));
        wait_for_log(node, "kubectl certificate approve").await;
    }
    master.kill();
    master.start().await;
    for request in requests(&master, CLIENT).await {
        admin(&master, &["certificate", "approve", request["metadata"]["name"].as_str().unwrap()]).await;
    }
    for node in &nodes {
        is_in(node, &master, "kubelet:").await;
        let pod = shown(node, &master, "web").await;
        // The serving certificate is approved automatically: it is for the address from which the kubelet sends the request.
        file(node, &pem(node, "kubelet-server-current.pem")).await;
        let kubeconfig = master.data_dir().join("admin.kubeconfig");
        let look = async || {
            let output = master.kubectl(&kubeconfig, &["logs", &pod]).await;
            if output.code == 0 { Ok(output.stdout) } else { Err(output.stderr) }
        };
        let log = node.wait_for("the pod's log through the master", look).await;
        assert_eq!(log, format!("this is {}\n", node.node));
        let printed = admin(&master, &["exec", &pod, "--", "hostname"]).await;
        assert_eq!(printed.trim_end(), pod, "a command in the pod");
    }
}

#[tokio::test]
async fn allowlist_admits_one_host_and_rejects_the_other() {
    let hosts = Hosts::new(3).await;
    let allowed = format!("--csr-approval-allowlist={}/32", address(1));
    let master = master(&["--csr-approval-policy=allowlist", &allowed]).await;
    let line = line(&master).await;
    let one = started(&hosts, 1, "one", &["--bootstrap", &line]).await;
    let two = started(&hosts, 2, "two", &["--bootstrap", &line]).await;
    is_in(&one, &master, "kubelet:").await;
    let printed = wait_for_log(&two, "was denied").await;
    assert!(printed.contains(&format!("{} is in no network on the allowlist", address(2))), "{printed}");
}

#[tokio::test]
async fn no_node_joins_with_the_policy_always_reject() {
    let hosts = Hosts::new(3).await;
    let master = master(&["--csr-approval-policy=always-reject"]).await;
    let line = line(&master).await;
    let one = started(&hosts, 1, "one", &["--bootstrap", &line]).await;
    let two = started(&hosts, 2, "two", &["--bootstrap", &line]).await;
    for node in [&one, &two] {
        wait_for_log(node, "was denied").await;
    }
}

#[tokio::test]
async fn token_admits_the_host_that_has_it() {
    let hosts = Hosts::new(3).await;
    let master = master(&["--csr-approval-policy=token"]).await;
    let folder = tempfile::tempdir().unwrap();
    let boot = folder.path().join("boot");
    token(&boot, &master, 1, "").await;
    let text = fs::read_to_string(&boot).unwrap().replace("127.0.0.1", &address(0));
    fs::write(&boot, text).unwrap();
    let line = line(&master).await;
    let one = started(&hosts, 1, "one", &["--bootstrap-kubeconfig", boot.to_str().unwrap()]).await;
    let two = started(&hosts, 2, "two", &["--bootstrap", &line]).await;
    is_in(&one, &master, "system:node:").await;
    wait_for_log(&two, "was denied").await;
}

/// A webhook server on the first host that approves nodes named `one`. Returns the path of its kubeconfig.
async fn webhook(folder: &std::path::Path) -> String {
    let now = jiff::Timestamp::now();
    let pki = Pki::open(folder, now).unwrap();
    let mut names = Names::default();
    names.add(&address(0));
    let serving = pki.serving(&names, now).unwrap();
    let keys = Keys { chain: serving.chain, key: serving.key, client_authorities: pki.client_cas() };
    let listener = tokio::net::TcpListener::bind((address(0), 0)).await.unwrap();
    let server = format!("https://{}/join", listener.local_addr().unwrap());
    let answer = async |axum::Json(review): axum::Json<Value>| {
        let is_known =
            review["node"].as_str().unwrap().ends_with("-one") && review["peerAddress"] == address(1);
        let (decision, why) =
            if is_known { ("Approve", "it is known") } else { ("Deny", "the request is unknown") };
        axum::Json(json!({"decision": decision, "message": why}))
    };
    let router = axum::Router::new().route("/join", post(answer));
    tokio::spawn(async move {
        // The senders must not be dropped while the server runs.
        let (_swap, config) = watch::channel(tls::config(keys).unwrap());
        let (_stop, stopped) = watch::channel(false);
        tls::serve(listener, router, config, stopped).await;
    });
    let credentials = pki.client("approver", &[], now).unwrap();
    Kubeconfig { server, authority: pki.root_pem(), user: "approver".to_owned(), credentials }.text()
}

#[tokio::test]
async fn webhook_decides_which_host_joins() {
    let hosts = Hosts::new(3).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("webhook");
    fs::write(&kubeconfig, webhook(&folder.path().join("pki")).await).unwrap();
    let shown = kubeconfig.to_str().unwrap();
    let master = master(&["--csr-approval-policy=webhook", "--csr-approval-webhook", shown]).await;
    let line = line(&master).await;
    let one = started(&hosts, 1, "one", &["--bootstrap", &line]).await;
    let two = started(&hosts, 2, "two", &["--bootstrap", &line]).await;
    is_in(&one, &master, "kubelet:").await;
    let printed = wait_for_log(&two, "was denied").await;
    assert!(printed.contains("the request is unknown"), "{printed}");
}

#[tokio::test]
async fn two_nodes_join_through_a_discovery_server() {
    let hosts = Hosts::new(4).await;
    let master = master(&["--csr-approval-policy=insecure-always-approve"]).await;
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let info = folder.path().join("cluster-info.json");
    fs::write(&info, master.verb(&["cluster-info", "--tls-san", &address(3)]).await.stdout).unwrap();
    let mut command = tokio::process::Command::new(binary("master"));
    command.arg("discovery").arg("--cluster-info").arg(&info).kill_on_drop(true);
    command.args(["--listen", &format!("{}:{port}", address(3))]).stdin(Stdio::null()).stdout(Stdio::null());
    let _running = hosts.at(3, || command.stderr(Stdio::null()).spawn().unwrap());
    let hash = line(&master).await.split_once('#').unwrap().1.to_owned();
    let line = format!("https://{}:{port}#{hash}", address(3));
    let one = started(&hosts, 1, "one", &["--bootstrap", &line]).await;
    let two = started(&hosts, 2, "two", &["--bootstrap", &line]).await;
    for node in [&one, &two] {
        is_in(node, &master, "kubelet:").await;
        let written = fs::read_to_string(node.root_dir().join("kubeconfig")).unwrap();
        assert!(written.contains(&format!("https://{}:{}", address(0), master.port)), "{written}");
    }
}
