//! Machines on segments of a network, with a router between the segments; and a desk, where the test sits and a master runs.
//!
//! Each machine has an engine, a kubelet, a disk and an address of its own, and can lose its power, its cables and its time.
//! All of it ends with the values, also when the test is killed, and nothing is in the machine's own network, so that several
//! beds stand side by side. A test stands at its desk from the moment the bed is made, so it needs a runtime of one thread.

mod machine;
mod switch;

use std::sync::Arc;

use futures_util::future::join_all;

pub use machine::Machine;
use switch::Switch;

use crate::host::ip;
use crate::private_engine::test_image;
use crate::{Host, Master};

/// The segment of the desk.
const OFFICE: u8 = 0;

/// The desk's port.
const DESK: &str = "desk";

/// What is there beside the machines.
#[derive(Debug)]
pub struct Bed {
    switch: Arc<Switch>,
    /// Where the test and its master are, in a segment of its own: to machines it is a part of the world outside.
    pub desk: Host,
    _router: Host,
}

impl Bed {
    /// A bed with machines on these segments (from 1 on), which have all booted: their engines answer, their kubelets are not
    /// started yet. They are called `a`, `b` and so on.
    pub async fn with<const N: usize>(segments: [u8; N]) -> (Self, [Machine; N]) {
        let image = test_image().await;
        let bed = Self::empty(&segments).await;
        let machines = ('a'..).zip(segments).enumerate().map(|(number, (name, segment))| {
            let place = u8::try_from(number).unwrap();
            Machine::new(bed.switch.clone(), &image, segment, place, name)
        });
        let machines = join_all(machines).await;
        (bed, machines.try_into().unwrap())
    }

    async fn empty(segments: &[u8]) -> Self {
        let (switch, router, desk) = (Switch::new().await, Host::new().await, Host::new().await);
        let mut legs: Vec<u8> = [OFFICE].iter().chain(segments).copied().collect();
        legs.sort_unstable();
        legs.dedup();
        for segment in legs {
            switch.add(segment);
            let name = format!("leg{segment}");
            switch.plug(&router, &name, &name, segment);
            router.at(|| ip(&format!("addr add {}/24 dev {name}", gateway(segment))));
        }
        router.at(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        switch.plug(&desk, DESK, "eth0", OFFICE);
        desk.enter();
        settle(&desk_address(), OFFICE);
        Self { switch: Arc::new(switch), desk, _router: router }
    }

    /// Where the desk is reached.
    pub fn address(&self) -> String {
        desk_address()
    }

    /// A master at the desk that answers, lets every machine in, and names itself by the desk's address.
    pub async fn master(&self, flags: &[&str]) -> Master {
        let at = self.address();
        let own = ["--advertise-address", &at, "--csr-approval-policy=insecure-always-approve"];
        let mut master = Master::new().with_flags(own.iter().chain(flags).copied());
        master.start().await;
        master
    }

    /// What is sent from the desk to a machine is lost, and nobody is told.
    pub fn lose_towards(&self, machine: &Machine) {
        self.switch.lose(DESK, &machine.port(), &machine.address);
    }

    /// What a machine sends to the desk is lost.
    pub fn lose_from(&self, machine: &Machine) {
        self.switch.lose(&machine.port(), DESK, &self.address());
    }

    /// Nothing that anybody sends is lost any more.
    pub fn lose_nothing(&self) {
        self.switch.lose_nothing();
    }
}

fn desk_address() -> String {
    address(OFFICE, 2)
}

fn address(segment: u8, host: u8) -> String {
    format!("10.77.{segment}.{host}")
}

/// The router's address on a segment.
fn gateway(segment: u8) -> String {
    address(segment, 1)
}

/// Gives the host where the thread is an address on its segment, as its only one, and the way to all others.
fn settle(address: &str, segment: u8) {
    ip("addr flush dev eth0");
    ip(&format!("addr add {address}/24 dev eth0"));
    ip(&format!("route add default via {}", gateway(segment)));
}
