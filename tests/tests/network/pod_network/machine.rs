//! Helpers to inspect and change the network of the node on this machine.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::{World, network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Timeout of one request: a dropped packet gets no answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A node whose kubelet runs with `--pod-network native`.
pub async fn node(name: &str) -> World {
    let mut world = World::new(name).await.with_flags(["--pod-network", "native"]);
    world.start().await;
    world
}

/// Runs `ip -json` and returns its output.
pub fn ip(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new("ip").arg("-json").args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Runs `ip` to change the network.
pub fn change(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The body of an HTTP response that a client on this machine gets from an address.
pub async fn get(host: &str, port: u16) -> Result<String, String> {
    let responds = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    tokio::time::timeout(PATIENCE, responds)
        .await
        .map_err(|late| late.to_string())?
        .map_err(|error| error.to_string())
}

/// Waits until no veth of a pod is left, so that the kubelet removes the bridge when it stops. The kernel removes
/// the veth of an ended pod in the background.
pub async fn has_no_cables(world: &World) {
    let look = async || match network::cables(&world.node) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?} are left")),
    };
    world.wait_for("the veths to go", look).await;
}

/// The IPv4 address of the node's bridge.
pub fn gateway(world: &World) -> String {
    let shown = ip(&["addr", "show", &network::bridge(&world.node).unwrap()]);
    let info = shown[0]["addr_info"].as_array().unwrap();
    let v4 = info.iter().find(|info| info["family"] == "inet").unwrap();
    v4["local"].as_str().unwrap().to_owned()
}
