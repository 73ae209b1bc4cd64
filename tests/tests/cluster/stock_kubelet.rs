//! A stock kubelet as a node of the master, beside a stock controller manager, by the commands of `docs/stock-components.md`.
//!
//! Everything runs in the host of a private engine, because a stock kubelet removes containers that it does not know.
//! `CORACLE_PEERS` names a folder with `kubelet` (1.21, the last with support for Docker is 1.23), `kube-controller-manager`
//! and `runc-oom`, a runc for machines on which oom_score_adj cannot be negative.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tests::{
    DEADLINE, Files, IMAGE, Master, PRIVATE_ADDRESS, PrivateEngine, Process, World, free_port, installed,
};

use crate::stock_client::{Client, LOST_WITHIN, NODE_GRACE, deployment, web};
use crate::stock_components::arguments;
use crate::stock_page::{command, stock_program};

const NODE: &str = "stock";
const MANAGER: &str = "kube-controller-manager";
/// Repository and tag of the sandbox image. It is loaded from a file and never pulled.
const PAUSE: [&str; 2] = ["pause", "test"];
/// What the kubelet runs to forward a port to `TCP4:localhost:PORT`.
const SOCAT: &str = "#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/${2##*:}
cat <&0 >&3 &
cat <&3
kill $!
";

/// Starts the kubelet with the page's flags and those of this machine. All its files are in the engine's folder.
async fn start(master: &Master, engine: &PrivateEngine) -> Process {
    let kubeconfig =
        master.user(&format!("system:node:{NODE}"), &["system:nodes"]).await.display().to_string();
    let directory = master.data_dir().display().to_string();
    let at = |name: &str| engine.folder().join(name).display().to_string();
    let words = command("kubelet --kubeconfig");
    let words = words[1..].iter().map(|word| match word.as_str() {
        "kubelet.kubeconfig" => kubeconfig.clone(),
        "NAME" => NODE.to_owned(),
        "ADDRESS" => "10.96.0.10".to_owned(),
        word => word.replace("DIR/", &format!("{directory}/")),
    });
    let programs = engine.folder().join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("socat"), SOCAT).unwrap();
    fs::set_permissions(programs.join("socat"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut kubelet = Command::new(stock_program("kubelet"));
    kubelet.env("PATH", path).args(words);
    for (flag, value) in [
        ("root-dir", at("disk/kubelet")),
        ("cert-dir", at("disk/kubelet-pki")),
        ("docker-endpoint", format!("unix://{}", engine.socket().display())),
        ("experimental-dockershim-root-directory", at("disk/dockershim")),
        ("volume-plugin-dir", at("disk/plugins")),
        ("pod-infra-container-image", PAUSE.join(":")),
        ("node-ip", PRIVATE_ADDRESS.to_owned()),
        ("address", PRIVATE_ADDRESS.to_owned()),
        ("port", free_port().to_string()),
        ("read-only-port", "0".to_owned()),
        ("healthz-port", "0".to_owned()),
        ("fail-swap-on", "false".to_owned()),
        ("make-iptables-util-chains", "false".to_owned()),
        ("cgroups-per-qos", "false".to_owned()),
        ("enforce-node-allocatable", String::new()),
        ("eviction-hard", String::new()),
        ("image-gc-high-threshold", "100".to_owned()),
    ] {
        kubelet.arg(format!("--{flag}={value}"));
    }
    Process::start(&mut kubelet, &engine.folder().join("kubelet.log"))
}

/// Prints the end of a log if the test fails.
struct ShownOnFailure(PathBuf);

impl Drop for ShownOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.0).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(60).collect();
            println!("{}, latest first:\n{}", self.0.display(), last.join("\n"));
        }
    }
}

#[tokio::test]
async fn a_stock_kubelet_is_a_node_of_the_master() {
    let runtime = json!({"oom": {"path": stock_program("runc-oom")}});
    let engine = json!({"runtimes": runtime, "default-runtime": "oom"}).to_string();
    let engine = PrivateEngine::configured(false, &engine).await;
    let pause = Files::of(&installed("coreutils", "sleep")).with_arguments(&["infinity"]);
    pause.give(&engine.engine(), PAUSE[0], PAUSE[1]).await;
    engine.host().enter();

    let run = command("master run --scheduler=true --controllers");
    let mut master = Master::new().with_flags(run[2..].to_vec());
    master.start().await;
    let port = free_port();
    let mut words = arguments(&master, MANAGER, &format!("system:{MANAGER}"), &port.to_string()).await;
    words.push(NODE_GRACE.to_owned());
    let mut manager = Command::new(stock_program(MANAGER));
    let _manager = Process::start(manager.args(words), &engine.folder().join("manager.log"));
    let mut kubelet = start(&master, &engine).await;
    let client = Client::new(&master.data_dir(), &master.data_dir().join("admin.kubeconfig"));
    let _log = ShownOnFailure(engine.folder().join("kubelet.log"));

    let other = second_node(&master, &client).await;

    client.wait_for_output(LOST_WITHIN, &["get", "node", NODE], " Ready").await;
    client.apply(&web("first")).await;
    client.wait_for_output(DEADLINE, &["get", "pod", "web"], "1/1").await;
    client.wait_for_output(DEADLINE, &["logs", "web"], "begins").await;
    client.wait_for_output(DEADLINE, &["exec", "web", "--", "cat", "/conf/text"], "first").await;
    let image = format!("--image={IMAGE}");
    let attach = ["run", "once", &image, "--restart=Never", "--rm", "--attach", "--command", "--"];
    client
        .wait_for_output(DEADLINE, &[&attach[..], &["sh", "-c", "sleep 1; echo said"]].concat(), "said")
        .await;
    client.check_port_forward("web", 8080, "/text", "first").await;
    let sent = engine.folder().join("sent");
    fs::write(&sent, "a file").unwrap();
    client.wait_for_output(DEADLINE, &["cp", sent.to_str().unwrap(), "web:/tmp/sent"], "").await;
    let got = engine.folder().join("got");
    client.wait_for_output(DEADLINE, &["cp", "web:/tmp/sent", got.to_str().unwrap()], "").await;
    assert_eq!(fs::read_to_string(&got).unwrap(), "a file");

    client.apply(&deployment("one")).await;
    client.wait_for_rollout().await;
    client.apply(&deployment("two")).await;
    client.wait_for_rollout().await;

    client.wait_for_terminating_pods().await;
    kubelet.kill();
    client.wait_for_output(LOST_WITHIN, &["get", "node", NODE], "NotReady").await;
    client.wait_for_eviction().await;
    let _kubelet = start(&master, &engine).await;
    client.wait_for_output(LOST_WITHIN, &["get", "node", NODE], " Ready").await;
    client.wait_for_rollout().await;
    client.wait_for_output(DEADLINE, &["get", "pod", "web"], "1/1").await;
    client.kubectl(&["delete", "deployment", "dep"]).await;
    client.kubectl(&["delete", "pod", "web"]).await;
    client.wait_for_no_output(&["get", "pods", "-o", "name"]).await;
    drop(other);
}

/// Starts a kubelet of Coracle as a cordoned node. The controller manager evicts no pods while all nodes are lost.
async fn second_node(master: &Master, client: &Client) -> World {
    let mut other = World::new("second").await;
    let user = master.user(&format!("system:node:{}", other.node), &["system:nodes"]).await;
    other = other.with_flags([
        "--kubeconfig",
        user.to_str().unwrap(),
        "--node-ip",
        "127.0.0.1",
        "--pod-network",
        "docker",
    ]);
    other.launch();
    client.wait_for_output(DEADLINE, &["get", "node", &other.node], " Ready").await;
    client.check_output(&["cordon", &other.node], "cordoned").await.unwrap();
    other
}
