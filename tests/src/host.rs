//! A host of its own on this machine: a network namespace, and whoever is in it.
//!
//! A namespace lives as long as somebody is in it: a program that waits for a line, which ends with the test however the test
//! ends. A thread is on one host at a time, and whatever it starts or connects is there, so tests that go from host to host
//! need a runtime of one thread. Nothing is made in the machine's own namespace, so that tests run side by side and leave nothing.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{DEADLINE, wait_until};

/// A network namespace that ends with the value.
#[derive(Debug)]
pub struct Host {
    holder: Child,
    network: File,
}

impl Host {
    /// A host with no link but its loopback, which is off.
    pub async fn new() -> Self {
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
        Self { network: File::open(&path).unwrap(), holder }
    }

    /// The process that is there for as long as the host is.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// The thread is there from now on.
    pub fn enter(&self) {
        enter(&self.network);
    }

    /// Does something there; the thread comes back to where it was.
    pub fn at<T>(&self, what: impl FnOnce() -> T) -> T {
        let _back = Back(File::open("/proc/thread-self/ns/net").unwrap());
        self.enter();
        what()
    }

    /// Lays a cable from the host where the thread is to this one. Both ends are on; there it is called `eth0`.
    pub fn link(&self, name: &str) {
        ip(&format!("link add {name} type veth peer name eth0 netns {}", self.pid()));
        ip(&format!("link set {name} up"));
        self.at(|| {
            ip("link set lo up");
            ip("link set eth0 up");
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Where the thread goes back to, also from a test that fails.
struct Back(File);

impl Drop for Back {
    fn drop(&mut self) {
        enter(&self.0);
    }
}

fn enter(network: &File) {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Runs `ip` on the host where the thread is.
pub fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

/// Runs a line of a shell on the host where the thread is; what it prints.
pub fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let (told, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complaint.is_empty(), "{line}: {told}{complaint}");
    told.into_owned()
}
