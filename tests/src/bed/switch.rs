//! The switch of a bed: a bridge a segment, whose ports are the ends of the machines' cables.

use std::fs;

use crate::Host;
use crate::host::{ip, run};

/// The switch. What it passes on is seen by no firewall of this machine.
#[derive(Debug)]
pub struct Switch {
    host: Host,
}

impl Switch {
    /// A switch without segments.
    pub async fn new() -> Self {
        let host = Host::new().await;
        host.at(|| {
            for switch in ["arptables", "ip6tables", "iptables"] {
                // Not there where the kernel does not show what is bridged to anybody.
                let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{switch}"), "0");
            }
            run("nft 'add table bridge bed; add chain bridge bed lost { type filter hook forward priority 0; }'");
        });
        Self { host }
    }

    /// One more segment.
    pub fn add(&self, segment: u8) {
        self.host.at(|| {
            ip(&format!("link add segment{segment} type bridge forward_delay 0 mcast_snooping 0"));
            ip(&format!("link set segment{segment} up"));
        });
    }

    /// Lays a cable from a port to a host, which calls its end so.
    pub fn plug(&self, host: &Host, port: &str, end: &str, segment: u8) {
        self.host.at(|| {
            host.link(port, end);
            ip(&format!("link set {port} master segment{segment}"));
        });
    }

    /// Takes a port's cable away, with both ends.
    pub fn unplug(&self, port: &str) {
        self.host.at(|| ip(&format!("link delete {port}")));
    }

    /// A port is on or off, and whoever is at the other end sees it.
    pub fn turn(&self, port: &str, state: &str) {
        self.host.at(|| ip(&format!("link set {port} {state}")));
    }

    /// Loses in silence what comes from a port to another one of its segment, and what comes from it for an address.
    pub fn lose(&self, from: &str, to: &str, address: &str) {
        let rule = |what: &str| format!("add rule bridge bed lost iifname {from} {what} drop");
        let (near, far) = (rule(&format!("oifname {to}")), rule(&format!("ip daddr {address}")));
        self.host.at(|| run(&format!("nft '{near}; {far}'")));
    }

    /// Loses nothing any more.
    pub fn lose_nothing(&self) {
        self.host.at(|| run("nft flush chain bridge bed lost"));
    }
}
