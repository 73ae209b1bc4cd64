//! The switch of a bed: a bridge a segment, whose ports are the ends of the machines' cables.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::host::{ip, run};
use crate::process::Process;
use crate::{Chance, Host, python};

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

    /// What goes through a port of a segment, either way, comes so much later, and so many packets of a hundred are lost, for as
    /// long as the value lives.
    pub fn slow(&self, port: &str, segment: u8, delay: Duration, lost: u8, log: &Path) -> Process {
        let (near, far) = (format!("{port}near"), format!("{port}far"));
        self.host.at(|| {
            ip(&format!("link add {near} type veth peer name {far}"));
            for end in [&near, &far] {
                ip(&format!("link set {end} up"));
            }
            ip(&format!("link set {port} nomaster"));
            ip(&format!("link set {far} master segment{segment}"));
        });
        let mut command = self.host.command(python::installed("python"));
        command.args(["-c", include_str!("late.py"), port, &near]);
        command.args([delay.as_millis().to_string(), lost.to_string(), Chance::seed().to_string()]);
        Process::start(&mut command, log)
    }

    /// Puts a port that was made slow back on its segment; what is on its way is lost. Nobody hands it on any more.
    pub fn straighten(&self, port: &str, segment: u8) {
        self.host.at(|| {
            ip(&format!("link delete {port}near"));
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

    /// Loses in silence what comes from a port to another one of its segment, and what comes from it for these addresses.
    pub fn lose(&self, from: &str, to: &str, addresses: &[String]) {
        let family = |address: &str| if address.contains(':') { "ip6" } else { "ip" };
        let far = addresses.iter().map(|address| format!("{} daddr {address}", family(address)));
        let what = far.chain([format!("oifname {to}")]);
        let rules: Vec<_> =
            what.map(|what| format!("add rule bridge bed lost iifname {from} {what} drop")).collect();
        self.host.at(|| run(&format!("nft '{}'", rules.join("; "))));
    }

    /// Loses nothing any more.
    pub fn lose_nothing(&self) {
        self.host.at(|| run("nft flush chain bridge bed lost"));
    }
}
