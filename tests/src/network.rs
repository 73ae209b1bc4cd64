//! What nodes of tests have, and leave, of their networks on this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kubelet::network::native::bridge_of;
use kubelet::network::nft::Rules;

/// The bridge of a node.
pub fn bridge(node: &str) -> Option<String> {
    Some(bridge_of(node)).filter(|name| Path::new("/sys/class/net").join(name).exists())
}

/// The cables that lead to pods of a node.
pub fn cables(node: &str) -> Vec<String> {
    let Some(bridge) = bridge(node) else { return Vec::new() };
    let ports = fs::read_dir(Path::new("/sys/class/net").join(bridge).join("brif"));
    let names = ports.into_iter().flatten().flatten().map(|port| port.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The ports of the host that lead to pods of a node.
pub fn ports(node: &str) -> Vec<u16> {
    let Some(bridge) = bridge(node) else { return Vec::new() };
    let ports = Rules::open().and_then(|mut rules| rules.ports(&bridge)).unwrap_or_default();
    ports.iter().map(|port| port.place().2).collect()
}

/// The routes that a node has laid, as `ip` shows them.
pub fn routes(node: &str) -> Vec<String> {
    routes_of(&bridge_of(node)).into_iter().map(|(_, route)| route).collect()
}

/// By their mark: a protocol, and metrics with the number in the names of the node's links. Beside each is its family for `ip`.
fn routes_of(bridge: &str) -> Vec<(&'static str, String)> {
    let number = bridge.rsplit('-').next().and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let marks = [1 << 24, 0xfe << 24].map(|from: u32| format!("metric {}", from + number));
    let mut all = Vec::new();
    for family in ["-4", "-6"] {
        let shown = Command::new("ip").args([family, "route", "show", "proto", "67"]).output();
        let text =
            shown.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let is_its = |line: &&str| marks.iter().any(|mark| format!("{line} ").contains(&format!("{mark} ")));
        all.extend(text.lines().filter(is_its).map(|line| (family, line.trim().to_owned())));
    }
    all
}

/// What is written of the networks of sandboxes under a `--root-dir`.
pub fn records(root_dir: &Path) -> usize {
    let entries = fs::read_dir(root_dir.join("network")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("record.json").exists()).count()
}

/// Takes away what a node has left, its bridge or not.
pub fn remove(node: &str) {
    remove_named(&bridge_of(node));
}

/// Takes away what those nodes have left, and rules that belong to no bridge and no kubelet any more, whosever they were.
pub fn sweep(of: impl Fn(&str) -> bool) {
    // Whoever makes rules runs before and has his bridge before, so this comes first.
    let tables = tables();
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap();
    let links = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let is_taken = |name: &str| sockets.lines().any(|line| line.ends_with(&format!("@{name}")));
    let is_there = |name: &str| links.lines().any(|line| line.trim_start().starts_with(&format!("{name}:")));
    let is_left = |name: &String| !is_taken(name) && !is_there(name);
    let bridges = bridges().filter(|(_, node)| of(node)).map(|(name, _)| name);
    bridges.chain(tables.into_iter().filter(is_left)).for_each(|name| remove_named(&name));
}

/// Takes away a bridge, and all that goes with it.
fn remove_named(bridge: &str) {
    // Of the same name, and the rules in the tables of others.
    let removed = Rules::open().and_then(|mut rules| rules.remove(bridge));
    if let Err(error) = removed {
        eprintln!("the rules of {bridge} stay behind: {error}");
    }
    // There where a router lay between it and another.
    let tunnels = ["4", "6"].map(|version| bridge.replacen("coracle", &format!("coracle{version}"), 1));
    for link in tunnels.iter().map(String::as_str).chain([bridge]) {
        let _ = Command::new("ip").args(["link", "delete", link]).stderr(Stdio::null()).status();
    }
    for (family, route) in routes_of(bridge) {
        let words = [family, "route", "delete"].into_iter().chain(route.split_whitespace());
        let _ = Command::new("ip").args(words).stderr(Stdio::null()).status();
    }
}

/// The tables of rules of all nodes; they are called as bridges are.
fn tables() -> Vec<String> {
    let listed = Command::new("nft").args(["list", "tables", "inet"]).output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let names = String::from_utf8_lossy(&text);
    let names = names.lines().filter_map(|line| line.strip_prefix("table inet "));
    names.filter(|name| name.starts_with("coracle-")).map(str::to_owned).collect()
}

/// All bridges of nodes, and whose they are.
fn bridges() -> impl Iterator<Item = (String, String)> {
    fs::read_dir("/sys/class/net").into_iter().flatten().flatten().filter_map(|link| {
        let alias = fs::read_to_string(link.path().join("ifalias")).ok()?;
        let node = alias.trim().strip_prefix("pods of node ")?.to_owned();
        Some((link.file_name().to_string_lossy().into_owned(), node))
    })
}
