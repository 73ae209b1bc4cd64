//! A bed: virtual machines on network segments with a router between them, and a desk. The desk is the host where
//! the test and its master run.
//!
//! Each machine has its own engine, kubelet, disk and address. A test can cut its power or its network, or freeze
//! it. Everything ends when the values are dropped, even if the test is killed. Nothing is created in the real
//! machine's network namespace, so several beds can run concurrently. The thread of a test is in the desk's
//! namespaces from the creation of the bed on, so the test needs a single-threaded runtime.

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

/// Segment of the desk.
const OFFICE: u8 = 0;

/// Host number of the desk on its segment.
const DESK_PLACE: u8 = 2;

/// Default IP versions of a bed.
const BOTH: &[u8] = &[4, 6];

/// Switch port of the desk.
const DESK: &str = "desk";

/// The parts of a bed other than its machines: the desk, the router and the switch.
#[derive(Debug)]
pub struct Bed {
    switch: Arc<Switch>,
    versions: &'static [u8],
    /// Host of the test and its master, on a separate segment outside the machines' segments.
    pub desk: Host,
    _router: Host,
}

impl Bed {
    /// Creates a bed with one machine per given segment number, from 1 on.
    ///
    /// All machines have booted and their engines answer. Their kubelets are not started. The machines are called
    /// `a`, `b` and so on, and have IPv4 and IPv6 addresses.
    pub async fn with<const N: usize>(segments: [u8; N]) -> (Self, [Machine; N]) {
        Self::speaking(BOTH, segments, own_names()).await
    }

    /// Creates a bed without IPv4. Otherwise does the same as `with`.
    pub async fn with_ipv6<const N: usize>(segments: [u8; N]) -> (Self, [Machine; N]) {
        Self::speaking(&[6], segments, own_names()).await
    }

    /// Creates a bed with machines of the given names on one segment, for demonstrations.
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

    /// Address of the desk, in the bed's first IP version.
    pub fn address(&self) -> String {
        self.address_of(self.versions[0])
    }

    /// Returns the desk's address of the given IP version.
    pub fn address_of(&self, version: u8) -> String {
        address(version, OFFICE, DESK_PLACE)
    }

    /// Starts a master at the desk. It approves every machine and advertises the desk's address.
    pub async fn master(&self, flags: &[&str]) -> Master {
        let mut master = Self::master_at(&self.address(), flags);
        master.start().await;
        master
    }

    /// Returns a master that advertises the given address, without starting it.
    pub fn master_at(at: &str, flags: &[&str]) -> Master {
        // The desk's addresses of both IP versions.
        let own = [
            "--bind-address",
            "::",
            "--advertise-address",
            at,
            "--csr-approval-policy=insecure-always-approve",
        ];
        Master::new().with_flags(own.iter().chain(flags).copied())
    }

    /// Silently drops packets from the desk to a machine.
    pub fn lose_towards(&self, machine: &Machine) {
        self.switch.lose(DESK, &machine.port(), &machine.addresses());
    }

    /// Silently drops packets from a machine to the desk.
    pub fn lose_from(&self, machine: &Machine) {
        let own: Vec<_> = BOTH.iter().map(|version| self.address_of(*version)).collect();
        self.switch.lose(&machine.port(), DESK, &own);
    }

    /// Stops dropping packets.
    pub fn lose_nothing(&self) {
        self.switch.lose_nothing();
    }
}

/// Default names of the machines, in order.
fn own_names<const N: usize>() -> [String; N] {
    let mut letters = 'a'..;
    [(); N].map(|()| format!("test-{}-{}", std::process::id(), letters.next().unwrap()))
}

/// Returns the address of a host on a segment, in the given IP version.
fn address(version: u8, segment: u8, host: u8) -> String {
    if version == 4 {
        Ipv4Addr::new(10, 77, segment, host).to_string()
    } else {
        Ipv6Addr::new(0xfd77, 0, 0, segment.into(), 0, 0, 0, host.into()).to_string()
    }
}

/// Address of the router on a segment.
fn gateway(version: u8, segment: u8) -> String {
    address(version, segment, 1)
}

/// Sets the addresses and the default route of the current thread's host. Replaces existing ones.
fn settle(versions: &[u8], segment: u8, host: u8) {
    ip("addr flush dev eth0 scope global");
    for version in versions {
        give(address(*version, segment, host), "eth0");
        ip(&format!("route replace default via {} dev eth0", gateway(*version, segment)));
    }
}

/// Adds an address to a link without duplicate address detection, which the isolated network does not need.
fn give(address: String, link: &str) {
    let more = if address.contains(':') { "/64 nodad" } else { "/24" };
    ip(&format!("addr add dev {link} {address}{more}"));
}
