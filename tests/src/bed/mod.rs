//! Machines on segments of a network, with a router between the segments; and a desk, where the test sits and a master runs.
//!
//! Each machine has an engine, a kubelet, a disk and an address of its own, and can lose its power, its cables and its time.
//! All of it ends with the values, also when the test is killed, and nothing is in the machine's own network, so that several
//! beds stand side by side. A test stands at its desk from the moment the bed is made, so it needs a runtime of one thread.

mod founding;
mod machine;
mod switch;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use futures_util::future::join_all;

pub use founding::manifest;
pub use machine::Machine;
use machine::Place;
use switch::Switch;

use crate::host::ip;
use crate::private_engine::test_image;
use crate::{Host, Master};

/// The segment of the desk.
const OFFICE: u8 = 0;

/// Its place there.
const DESK_PLACE: u8 = 2;

/// The versions of IP that a bed has unless it asks for less.
const BOTH: &[u8] = &[4, 6];

/// The desk's port.
const DESK: &str = "desk";

/// What is there beside the machines.
#[derive(Debug)]
pub struct Bed {
    switch: Arc<Switch>,
    versions: &'static [u8],
    /// Where the test and its master are, in a segment of its own: to machines it is a part of the world outside.
    pub desk: Host,
    _router: Host,
}

impl Bed {
    /// A bed with machines on these segments (from 1 on), which have all booted: their engines answer, their kubelets are not
    /// started yet. They are called `a`, `b` and so on, and have an address of each version of IP.
    pub async fn with<const N: usize>(segments: [u8; N]) -> (Self, [Machine; N]) {
        Self::speaking(BOTH, segments, own_names()).await
    }

    /// As `with`, but without IPv4.
    pub async fn with_ipv6<const N: usize>(segments: [u8; N]) -> (Self, [Machine; N]) {
        Self::speaking(&[6], segments, own_names()).await
    }

    /// A bed with machines of these names on one segment, for somebody to look at.
    pub async fn named<const N: usize>(names: [&str; N]) -> (Self, [Machine; N]) {
        Self::speaking(BOTH, [1; N], names.map(str::to_owned)).await
    }

    async fn speaking<const N: usize>(
        versions: &'static [u8],
        segments: [u8; N],
        names: [String; N],
    ) -> (Self, [Machine; N]) {
        let image = test_image().await;
        let bed = Self::empty(versions, &segments).await;
        let machines = names.into_iter().zip(segments).enumerate().map(|(number, (name, segment))| {
            let place = Place::new(versions, segment, u8::try_from(number).unwrap());
            Machine::new(bed.switch.clone(), &image, place, name)
        });
        let machines = join_all(machines).await;
        (bed, machines.try_into().unwrap())
    }

    async fn empty(versions: &'static [u8], segments: &[u8]) -> Self {
        let (switch, router, desk) = (Switch::new().await, Host::new().await, Host::new().await);
        let mut legs: Vec<u8> = [OFFICE].iter().chain(segments).copied().collect();
        legs.sort_unstable();
        legs.dedup();
        for segment in legs {
            switch.add(segment);
            let name = format!("leg{segment}");
            switch.plug(&router, &name, &name, segment);
            router.at(|| versions.iter().for_each(|version| give(gateway(*version, segment), &name)));
        }
        for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            router.at(|| std::fs::write(format!("/proc/sys/net/{switch}"), "1").unwrap());
        }
        switch.plug(&desk, DESK, "eth0", OFFICE);
        desk.enter();
        settle(versions, OFFICE, DESK_PLACE);
        Self { switch: Arc::new(switch), versions, desk, _router: router }
    }

    /// Where the desk is reached by the first version of IP that there is.
    pub fn address(&self) -> String {
        self.address_of(self.versions[0])
    }

    /// Where it is reached by a version of IP.
    pub fn address_of(&self, version: u8) -> String {
        address(version, OFFICE, DESK_PLACE)
    }

    /// A master at the desk that answers, lets every machine in, and names itself by the desk's address.
    pub async fn master(&self, flags: &[&str]) -> Master {
        let mut master = Self::master_at(&self.address(), flags);
        master.start().await;
        master
    }

    /// One that names itself by that address and is not started yet.
    pub fn master_at(at: &str, flags: &[&str]) -> Master {
        // All addresses there are, of either version.
        let own = [
            "--bind-address",
            "::",
            "--advertise-address",
            at,
            "--csr-approval-policy=insecure-always-approve",
        ];
        Master::new().with_flags(own.iter().chain(flags).copied())
    }

    /// What is sent from the desk to a machine is lost, and nobody is told.
    pub fn lose_towards(&self, machine: &Machine) {
        self.switch.lose(DESK, &machine.port(), &machine.addresses());
    }

    /// What a machine sends to the desk is lost.
    pub fn lose_from(&self, machine: &Machine) {
        let own: Vec<_> = BOTH.iter().map(|version| self.address_of(*version)).collect();
        self.switch.lose(&machine.port(), DESK, &own);
    }

    /// Nothing that anybody sends is lost any more.
    pub fn lose_nothing(&self) {
        self.switch.lose_nothing();
    }
}

/// What the machines of a test are called, in order.
fn own_names<const N: usize>() -> [String; N] {
    let mut letters = 'a'..;
    [(); N].map(|()| format!("test-{}-{}", std::process::id(), letters.next().unwrap()))
}

/// Where a host of a segment is reached by a version of IP.
fn address(version: u8, segment: u8, host: u8) -> String {
    if version == 4 {
        Ipv4Addr::new(10, 77, segment, host).to_string()
    } else {
        Ipv6Addr::new(0xfd77, 0, 0, segment.into(), 0, 0, 0, host.into()).to_string()
    }
}

/// The router's address on a segment.
fn gateway(version: u8, segment: u8) -> String {
    address(version, segment, 1)
}

/// Gives the host where the thread is its addresses on its segment, as its only ones, and the way to all others.
fn settle(versions: &[u8], segment: u8, host: u8) {
    ip("addr flush dev eth0 scope global");
    for version in versions {
        give(address(*version, segment, host), "eth0");
        ip(&format!("route replace default via {} dev eth0", gateway(*version, segment)));
    }
}

/// One more address of a link, at once: nobody else is there who could have it.
fn give(address: String, link: &str) {
    let more = if address.contains(':') { "/64 nodad" } else { "/24" };
    ip(&format!("addr add dev {link} {address}{more}"));
}
