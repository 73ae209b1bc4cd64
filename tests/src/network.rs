//! What nodes of tests leave of their networks on this machine.

use std::fs;
use std::process::Command;

use kubelet::network::nft::Rules;

/// Takes away the bridges of those nodes.
pub fn remove(of: impl Fn(&str) -> bool) {
    for link in fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let Ok(alias) = fs::read_to_string(link.path().join("ifalias")) else { continue };
        if alias.trim().strip_prefix("pods of node ").is_some_and(&of) {
            let name = link.file_name();
            // Of the same name, and the rules in the tables of others.
            let _ = Rules::open().and_then(|mut rules| rules.remove(&name.to_string_lossy()));
            let _ = Command::new("ip").args(["link", "delete"]).arg(name).status();
        }
    }
}
