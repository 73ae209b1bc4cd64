//! Finds and removes the network resources of test nodes on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kubelet::network::native::{bridge_of, services_table_of};
use kubelet::network::nft::Rules;
use kubelet::network::nft::services::ServiceTable;

pub fn bridge(node: &str) -> Option<String> {
    Some(bridge_of(node)).filter(|name| Path::new("/sys/class/net").join(name).exists())
}

/// Returns the veth links of a node to its pods.
pub fn cables(node: &str) -> Vec<String> {
    let Some(bridge) = bridge(node) else { return Vec::new() };
    let ports = fs::read_dir(Path::new("/sys/class/net").join(bridge).join("brif"));
    let names = ports.into_iter().flatten().flatten().map(|port| port.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Returns the host ports that lead to pods of a node.
pub fn ports(node: &str) -> Vec<u16> {
    let Some(bridge) = bridge(node) else { return Vec::new() };
    let ports = Rules::open().and_then(|mut rules| rules.ports(&bridge)).unwrap_or_default();
    ports.iter().map(|port| port.place().2).collect()
}

/// Returns the routes that a node has added, as `ip` prints them.
pub fn routes(node: &str) -> Vec<String> {
    routes_of(&bridge_of(node)).into_iter().map(|(_, route)| route).collect()
}

/// Finds a node's routes by their protocol and by a metric that equals the number in the node's link names. Returns
/// each with the `ip` option of its address family.
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

/// Returns the number of sandbox network records under a `--root-dir`.
pub fn records(root_dir: &Path) -> usize {
    let entries = fs::read_dir(root_dir.join("network")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("record.json").exists()).count()
}

/// Removes a node's network resources, whether its bridge still exists or not.
pub fn remove(node: &str) {
    remove_named(&bridge_of(node));
}

/// Removes the network resources of the nodes that `of` selects. Also removes nftables tables that have neither a
/// bridge nor a running kubelet of any node.
pub fn sweep(of: impl Fn(&str) -> bool) {
    // List the tables first: a kubelet that creates tables has taken its lock and created its bridge before.
    let tables = tables();
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap();
    let links = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let is_taken = |name: &str| sockets.lines().any(|line| line.ends_with(&format!("@{name}")));
    let is_there = |name: &str| links.lines().any(|line| line.trim_start().starts_with(&format!("{name}:")));
    let is_left = |name: &String| !is_taken(name) && !is_there(name);
    let bridges = bridges().filter(|(_, node)| of(node)).map(|(name, _)| name);
    bridges.chain(tables.into_iter().filter(is_left)).for_each(|name| remove_named(&name));
}

/// Removes a bridge and everything that belongs to it.
fn remove_named(bridge: &str) {
    // Removes the table with the bridge's name, and its rules in other tables.
    let removed = Rules::open().and_then(|mut rules| rules.remove(bridge));
    if let Err(error) = removed {
        eprintln!("the rules of {bridge} stay behind: {error}");
    }
    let services = services_table_of(bridge);
    if let Err(error) = ServiceTable::open().and_then(|mut table| table.remove(&services)) {
        eprintln!("the table {services} stays behind: {error}");
    }
    // Tunnel devices exist only if a router was between this node and another.
    let tunnels = ["4", "6"].map(|version| bridge.replacen("coracle", &format!("coracle{version}"), 1));
    for link in tunnels.iter().map(String::as_str).chain([bridge]) {
        let _ = Command::new("ip").args(["link", "delete", link]).stderr(Stdio::null()).status();
    }
    for (family, route) in routes_of(bridge) {
        let words = [family, "route", "delete"].into_iter().chain(route.split_whitespace());
        let _ = Command::new("ip").args(words).stderr(Stdio::null()).status();
    }
}

/// Returns the names of the bridges whose nftables tables exist: for IP, for frames or for Services.
fn tables() -> Vec<String> {
    let listed = Command::new("nft").args(["list", "tables"]).output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let tables = String::from_utf8_lossy(&text);
    let of_family = |line| ["table inet ", "table bridge "].iter().find_map(|of| str::strip_prefix(line, of));
    let names = tables.lines().filter_map(of_family).filter(|name| name.starts_with("coracle-"));
    let bridges: BTreeSet<String> =
        names.map(|name| name.replacen("coracle-services-", "coracle-", 1)).collect();
    bridges.into_iter().collect()
}

/// Returns all node bridges with the names of their nodes.
fn bridges() -> impl Iterator<Item = (String, String)> {
    fs::read_dir("/sys/class/net").into_iter().flatten().flatten().filter_map(|link| {
        let alias = fs::read_to_string(link.path().join("ifalias")).ok()?;
        let node = alias.trim().strip_prefix("pods of node ")?.to_owned();
        Some((link.file_name().to_string_lossy().into_owned(), node))
    })
}
