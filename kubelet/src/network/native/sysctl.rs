//! Network sysctls, in the network namespace of the calling thread.

use std::fs;
use std::io;

/// The directory of network sysctls.
const PROC_SYS_NET: &str = "/proc/sys/net";
const V6_FORWARDING: &str = "ipv6/conf/all/forwarding";

/// Enables packet forwarding, and `route_localnet`, so that replies to `localhost:PORT` return over the bridge.
/// Returns the names of the sysctls that were off.
pub(super) fn enable_forwarding(bridge: &str, v4: bool, v6: bool) -> io::Result<Vec<String>> {
    let mut enabled = Vec::new();
    if v4 {
        for setting in ["ipv4/ip_forward".to_owned(), format!("ipv4/conf/{bridge}/route_localnet")] {
            if !is(&setting, "1") {
                write(&setting, "1")?;
                enabled.push(sysctl_name(&setting));
            }
        }
    }
    if v6 && !is(V6_FORWARDING, "1") {
        // With forwarding on, a host ignores router advertisements and would lose its default route, unless `accept_ra`
        // is 2.
        for link in fs::read_dir(format!("{PROC_SYS_NET}/ipv6/conf"))? {
            let link = link?.file_name();
            let setting = format!("ipv6/conf/{}/accept_ra", link.to_string_lossy());
            if is(&setting, "1") && link != *bridge {
                write(&setting, "2")?;
            }
        }
        write(V6_FORWARDING, "1")?;
        enabled.push(sysctl_name(V6_FORWARDING));
    }
    Ok(enabled)
}

/// Ignores router advertisements on a link, because only pods could send them.
pub(super) fn ignore_router_advertisements(link: &str) -> io::Result<()> {
    match write(&format!("ipv6/conf/{link}/accept_ra"), "0") {
        // The kernel lacks IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Enables IPv6 on a link. Engines disable it in sandboxes without a network.
pub(super) fn enable_ipv6(link: &str) -> io::Result<()> {
    write(&format!("ipv6/conf/{link}/disable_ipv6"), "0")
}

/// Makes the kernel derive the link-local address of a link from its hardware address (EUI-64), regardless of the
/// default of the host.
pub(super) fn derive_link_local(link: &str) -> io::Result<()> {
    write(&format!("ipv6/conf/{link}/addr_gen_mode"), "0")
}

/// Loosens reverse-path filtering on a VXLAN device, because a sender may be routed another way. Also ignores
/// router advertisements.
pub(super) fn configure_vxlan(link: &str, v6: bool) -> io::Result<()> {
    write(&format!("ipv4/conf/{link}/rp_filter"), "2")?;
    if v6 { ignore_router_advertisements(link) } else { Ok(()) }
}

/// The name of a sysctl as `sysctl` prints it.
fn sysctl_name(setting: &str) -> String {
    format!("net.{}", setting.replace('/', "."))
}

fn is(setting: &str, wanted: &str) -> bool {
    fs::read_to_string(format!("{PROC_SYS_NET}/{setting}")).is_ok_and(|now| now.trim() == wanted)
}

/// Writes a sysctl unless it already has the value, because `/proc/sys` may be read-only.
fn write(setting: &str, wanted: &str) -> io::Result<()> {
    if is(setting, wanted) {
        return Ok(());
    }
    let path = format!("{PROC_SYS_NET}/{setting}");
    fs::write(&path, wanted)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write {path}: {error}")))
}
