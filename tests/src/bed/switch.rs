//! The switch of a bed. It has one bridge per segment. Its ports are the ends of the machines' cables.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::host::{ip, run};
use crate::process::Process;
use crate::{Chance, Host, python};

/// The switch. The real machine's firewall does not see its traffic.
#[derive(Debug)]
pub struct Switch {
    host: Host,
}

impl Switch {
    /// Creates a switch without segments.
    pub async fn new() -> Self {
        let host = Host::new().await;
        host.at(|| {
            for switch in ["arptables", "ip6tables", "iptables"] {
                // The file does not exist if the kernel does not pass bridged packets to netfilter.
                let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{switch}"), "0");
            }
            run("nft 'add table bridge bed; add chain bridge bed lost { type filter hook forward priority 0; }'");
        });
        Self { host }
    }

    pub fn add(&self, segment: u8) {
        self.host.at(|| {
            ip(&format!("link add segment{segment} type bridge forward_delay 0 mcast_snooping 0"));
            ip(&format!("link set segment{segment} up"));
        });
    }

    /// Connects a host to a port with a veth pair. `end` is the name of the link in the host.
    pub fn plug(&self, host: &Host, port: &str, end: &str, segment: u8) {
        self.host.at(|| {
            host.link(port, end);
            ip(&format!("link set {port} master segment{segment}"));
        });
    }

    /// Delays packets through a port of a segment in both directions and drops `lost` per cent of them, until the
    /// returned process is dropped.
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

    /// Attaches a delayed port directly to its segment again. Packets in transit are lost.
    pub fn straighten(&self, port: &str, segment: u8) {
        self.host.at(|| {
            ip(&format!("link delete {port}near"));
            ip(&format!("link set {port} master segment{segment}"));
        });
    }

    /// Removes the veth pair of a port.
    pub fn unplug(&self, port: &str) {
        self.host.at(|| ip(&format!("link delete {port}")));
    }

    /// Sets a port up or down. The host at the other end sees the change.
    pub fn turn(&self, port: &str, state: &str) {
        self.host.at(|| ip(&format!("link set {port} {state}")));
    }

    /// Silently drops packets from one port to another of the same segment, and packets from the first port to the
    /// given addresses.
    pub fn lose(&self, from: &str, to: &str, addresses: &[String]) {
        let family = |address: &str| if address.contains(':') { "ip6" } else { "ip" };
        let far = addresses.iter().map(|address| format!("{} daddr {address}", family(address)));
        let what = far.chain([format!("oifname {to}")]);
        let rules: Vec<_> =
            what.map(|what| format!("add rule bridge bed lost iifname {from} {what} drop")).collect();
        self.host.at(|| run(&format!("nft '{}'", rules.join("; "))));
    }

    /// Stops dropping packets.
    pub fn lose_nothing(&self) {
        self.host.at(|| run("nft flush chain bridge bed lost"));
    }
}
