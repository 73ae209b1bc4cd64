//! What nodes of tests have, and leave, of their networks on this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kubelet::network::nft::Rules;

/// The bridge of a node.
pub fn bridge(node: &str) -> Option<String> {
    bridges().find(|(_, of)| of == node).map(|(name, _)| name)
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

/// What is written of the networks of sandboxes under a `--root-dir`.
pub fn records(root_dir: &Path) -> usize {
    let entries = fs::read_dir(root_dir.join("network")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("record.json").exists()).count()
}

/// Takes away the bridges of those nodes.
pub fn remove(of: impl Fn(&str) -> bool) {
    for (name, _) in bridges().filter(|(_, node)| of(node)) {
        // Of the same name, and the rules in the tables of others.
        let removed = Rules::open().and_then(|mut rules| rules.remove(&name));
        if let Err(error) = removed {
            eprintln!("the rules of {name} stay behind: {error}");
        }
        let _ = Command::new("ip").args(["link", "delete", &name]).status();
        for version in ["4", "6"] {
            // There where a router lay between it and another.
            let tunnel = name.replacen("coracle", &format!("coracle{version}"), 1);
            let _ = Command::new("ip").args(["link", "delete", &tunnel]).stderr(Stdio::null()).status();
        }
    }
}

/// All bridges of nodes, and whose they are.
fn bridges() -> impl Iterator<Item = (String, String)> {
    fs::read_dir("/sys/class/net").into_iter().flatten().flatten().filter_map(|link| {
        let alias = fs::read_to_string(link.path().join("ifalias")).ok()?;
        let node = alias.trim().strip_prefix("pods of node ")?.to_owned();
        Some((link.file_name().to_string_lossy().into_owned(), node))
    })
}
