//! Several hosts on one machine: a network namespace each, on one bridge.
//!
//! A namespace lives as long as somebody is in it: a program that waits for a line, which ends with the test however the test
//! ends. A thread is on one host at a time, and whatever it starts or connects is there, so these tests need a runtime of one
//! thread. Nothing is made in the machine's own namespace, so that tests run side by side and leave nothing. All hosts share
//! the engine, which listens on a file.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tests::{DEADLINE, wait_until};

/// Hosts, of which the first has the bridge; the test is there but for moments.
pub struct Hosts {
    all: Vec<Host>,
}

/// The address of a host.
pub fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

struct Host {
    holder: Child,
    namespace: File,
}

impl Hosts {
    /// So many, which reach each other and nobody else.
    pub async fn new(count: usize) -> Self {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(Host::new().await);
        }
        let hosts = Self { all };
        hosts.enter(0);
        ip("link set lo up");
        ip("link add br0 type bridge forward_delay 0");
        ip(&format!("addr add {}/24 dev br0", address(0)));
        ip("link set br0 up");
        for (number, host) in hosts.all.iter().enumerate().skip(1) {
            ip(&format!("link add port{number} type veth peer name eth0 netns {}", host.holder.id()));
            ip(&format!("link set port{number} master br0 up"));
            hosts.at(number, || {
                ip("link set lo up");
                ip(&format!("addr add {}/24 dev eth0", address(number)));
                ip("link set eth0 up");
            });
        }
        hosts
    }

    /// Does something on another host.
    pub fn at<T>(&self, host: usize, what: impl FnOnce() -> T) -> T {
        self.enter(host);
        let done = what();
        self.enter(0);
        done
    }

    fn enter(&self, host: usize) {
        let namespace = self.all[host].namespace.as_fd();
        move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Host {
    async fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let holder = command.spawn().unwrap();
        let path = format!("/proc/{}/ns/net", holder.id());
        let look = async || {
            let own = fs::read_link("/proc/thread-self/ns/net").map_err(|error| error.to_string())?;
            let its = fs::read_link(&path).map_err(|error| error.to_string())?;
            if its == own { Err("it is in the test's own".to_owned()) } else { Ok(()) }
        };
        wait_until(DEADLINE, look).await.unwrap();
        Self { namespace: File::open(&path).unwrap(), holder }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
