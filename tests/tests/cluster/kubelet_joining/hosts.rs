//! Several hosts on one machine, on one bridge. They share the engine, which listens on a Unix socket.

use tests::Host;
use tests::host::ip;

/// The hosts, of which the first one has the bridge; the test's thread is there except during [`Hosts::at`].
pub struct Hosts {
    all: Vec<Host>,
}

pub fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

impl Hosts {
    /// The given number of hosts, which reach only each other.
    pub async fn new(count: usize) -> Self {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(Host::new().await);
        }
        all[0].enter();
        ip("link add br0 type bridge forward_delay 0");
        ip(&format!("addr add {}/24 dev br0", address(0)));
        ip("link set br0 up");
        for (number, host) in all.iter().enumerate().skip(1) {
            host.link(&format!("port{number}"), "eth0");
            ip(&format!("link set port{number} master br0"));
            host.at(|| ip(&format!("addr add {}/24 dev eth0", address(number))));
        }
        Self { all }
    }

    /// Runs a function on another host.
    pub fn at<T>(&self, host: usize, what: impl FnOnce() -> T) -> T {
        self.all[host].at(what)
    }
}
