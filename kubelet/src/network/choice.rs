//! Whether the kubelet can give pods their network here.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;
use rustix::thread::{CapabilitySet, capabilities};

use crate::disk;

/// Why it cannot, with the engine at that endpoint; `None` when nothing stands in its way, as far as can be told while the engine
/// is away.
pub async fn obstacle(endpoint: &str) -> Option<String> {
    let endpoint = endpoint.to_owned();
    disk::run(move || look(&endpoint)).await
}

fn look(endpoint: &str) -> Option<String> {
    let Some(socket) = endpoint.strip_prefix("unix://") else {
        return Some(format!("the engine at {endpoint} may be another machine's"));
    };
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    if !capabilities(None).is_ok_and(|has| has.effective.contains(needed)) {
        return Some("it takes root (CAP_NET_ADMIN and CAP_SYS_ADMIN)".to_owned());
    }
    let engine = socket_peercred(UnixStream::connect(socket).ok()?.as_fd()).ok()?;
    if !engine.uid.is_root() {
        return Some("the engine runs without root".to_owned());
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    match (network(&engine.pid.as_raw_nonzero().to_string()), network("self")) {
        (Ok(engine), Ok(own)) if engine == own => None,
        (Ok(_), Ok(_)) => Some("the engine is in another network namespace than the kubelet".to_owned()),
        _ => Some("the engine's processes cannot be seen from here".to_owned()),
    }
}
