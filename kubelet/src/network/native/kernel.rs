//! Settings of the kernel's network, in the namespace of this thread.

use std::fs;
use std::io;

/// Where they stand.
const NET: &str = "/proc/sys/net";
const V6_FORWARDING: &str = "ipv6/conf/all/forwarding";

/// Packets are handed on, and those of `localhost:PORT` of the host find their way back over the bridge; which settings were
/// switched on for that, by their names.
pub(super) fn hand_on(bridge: &str, v4: bool, v6: bool) -> io::Result<Vec<String>> {
    let mut switched = Vec::new();
    if v4 {
        for setting in ["ipv4/ip_forward".to_owned(), format!("ipv4/conf/{bridge}/route_localnet")] {
            if !is(&setting, "1") {
                set(&setting, "1")?;
                switched.push(name(&setting));
            }
        }
    }
    if v6 && !is(V6_FORWARDING, "1") {
        // One that hands packets on believes no router any more, and would lose its own way out, unless it is told otherwise.
        for link in fs::read_dir(format!("{NET}/ipv6/conf"))? {
            let link = link?.file_name();
            let setting = format!("ipv6/conf/{}/accept_ra", link.to_string_lossy());
            if is(&setting, "1") && link != *bridge {
                set(&setting, "2")?;
            }
        }
        set(V6_FORWARDING, "1")?;
        switched.push(name(V6_FORWARDING));
    }
    Ok(switched)
}

/// What is heard by that link says nothing about ways: there are pods at its other end, or other pods.
pub(super) fn believe_no_router(link: &str) -> io::Result<()> {
    match set(&format!("ipv6/conf/{link}/accept_ra"), "0") {
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A link has addresses of IPv6: engines switch it off in sandboxes that they give no network.
pub(super) fn speak_v6(link: &str) -> io::Result<()> {
    set(&format!("ipv6/conf/{link}/disable_ipv6"), "0")
}

/// What comes by a tunnel may be from a pod that is reached another way, and no router speaks there.
pub(super) fn tunnel(link: &str, v6: bool) -> io::Result<()> {
    set(&format!("ipv4/conf/{link}/rp_filter"), "2")?;
    if v6 { believe_no_router(link) } else { Ok(()) }
}

/// As `sysctl` knows it.
fn name(setting: &str) -> String {
    format!("net.{}", setting.replace('/', "."))
}

fn is(setting: &str, wanted: &str) -> bool {
    fs::read_to_string(format!("{NET}/{setting}")).is_ok_and(|now| now.trim() == wanted)
}

/// Sets it unless it is so: a directory that may not be written may hold what is right.
fn set(setting: &str, wanted: &str) -> io::Result<()> {
    if is(setting, wanted) {
        return Ok(());
    }
    let path = format!("{NET}/{setting}");
    fs::write(&path, wanted)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write {path}: {error}")))
}
