//! The addresses and names under which clients reach the master.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use crate::options::{Options, ServiceRange};
use crate::pki::Names;

/// The advertised address. It is that of the flag, otherwise the bind address, otherwise the source address of the
/// default route.
pub(super) fn advertised(options: &Options) -> IpAddr {
    let bind = options.address.ip();
    match options.advertise_address {
        Some(address) => address,
        None if !bind.is_unspecified() => bind,
        None => outward(bind).unwrap_or_else(|| this_machine(bind)),
    }
}

/// The source address of the default route. It is found by connecting a UDP socket, which sends nothing.
fn outward(bind: IpAddr) -> Option<IpAddr> {
    // Documentation addresses: unassigned, so they use the default route.
    let away = if bind.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let socket = UdpSocket::bind((bind, 0)).ok()?;
    socket.connect(away).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}

/// The address at which this machine reaches the server.
pub(super) fn this_machine(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bind }
}

/// The names in the serving certificate.
pub(super) fn names(options: &Options, advertised: IpAddr) -> Names {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let service_addresses: Vec<IpAddr> = options.service_ranges.iter().map(ServiceRange::first).collect();
    let mut names = Names::of_master(&host_name, &options.cluster_domain, &service_addresses);
    names.addresses.insert(advertised);
    names.addresses.insert(this_machine(options.address.ip()));
    for name in &options.tls_san {
        names.add(name);
    }
    names
}
