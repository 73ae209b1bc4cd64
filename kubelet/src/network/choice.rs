//! Checks whether the kubelet can provide the pod network on this machine.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;
use rustix::thread::{CapabilitySet, capabilities};

use crate::disk;

/// The reason why the kubelet cannot provide the pod network with this engine. `None` if it can, or if the engine
/// does not answer.
pub async fn obstacle(endpoint: &str) -> Option<String> {
    let endpoint = endpoint.to_owned();
    disk::run(move || look(&endpoint)).await
}

fn look(endpoint: &str) -> Option<String> {
    let Some(socket) = endpoint.strip_prefix("unix://") else {
        return Some(format!("the engine at {endpoint} may be on another machine"));
    };
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    if !capabilities(None).is_ok_and(|has| has.effective.contains(needed)) {
        return Some("it needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN)".to_owned());
    }
    let engine = socket_peercred(UnixStream::connect(socket).ok()?.as_fd()).ok()?;
    if !engine.uid.is_root() {
        return Some("the engine runs without root".to_owned());
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    match (network(&engine.pid.as_raw_nonzero().to_string()), network("self")) {
        (Ok(engine), Ok(own)) if engine == own => None,
        (Ok(_), Ok(_)) => Some("the engine is in another network namespace than the kubelet".to_owned()),
        _ => Some("the engine's processes are not visible here".to_owned()),
    }
}
