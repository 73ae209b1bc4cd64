//! What the machine has of a node's network.

use std::process::Command;

use serde_json::Value;
use tests::World;

/// A node whose network is the kubelet's.
pub async fn node(name: &str) -> World {
    let mut world = World::new(name).await.with_flags(["--pod-network", "native"]);
    world.start().await;
    world
}

/// What `ip` says, as JSON.
pub fn ip(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new("ip").arg("-json").args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Does something with `ip`.
pub fn change(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The node's bridge.
pub fn bridge(world: &World) -> Option<String> {
    let alias = format!("pods of node {}", world.node);
    let links = ip(&["link", "show", "type", "bridge"]);
    links.iter().find(|link| link["ifalias"] == alias).map(|link| link["ifname"].as_str().unwrap().to_owned())
}

/// The cables on it.
pub fn cables(world: &World) -> Vec<String> {
    let Some(bridge) = bridge(world) else { return Vec::new() };
    let names = ip(&["link", "show", "master", &bridge]).into_iter();
    names.map(|link| link["ifname"].as_str().unwrap().to_owned()).collect()
}

/// What is written of sandboxes' networks.
pub fn records(world: &World) -> usize {
    let entries = std::fs::read_dir(world.root_dir().join("network")).into_iter().flatten();
    entries.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
}
