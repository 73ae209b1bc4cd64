//! Decides which kubelet holds the node lease. Pure, except for reading this kubelet's identity.
//!
//! Two machines can have certificates for the same node name, for example after a disk was copied, or with a policy
//! that approves every CSR. Only the machine that holds the lease acts as the node. Each renewal names the
//! `resourceVersion` that it replaces, so only one of two kubelets can renew.

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::lease::LEASE_DURATION_SECONDS;

/// The annotation of the lease with the identity of the kubelet that renews it.
pub const INSTANCE: &str = "coracle.io/kubelet-instance";
/// The file below the root directory that stores this kubelet's identity across restarts.
const INSTANCE_FILE: &str = "cluster/instance";
/// The kernel's ID of this boot, which differs between machines with copied disks.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A file of the kernel that contains a new random UUID on each read.
const RANDOM_UUID: &str = "/proc/sys/kernel/random/uuid";

/// The identity of this kubelet in the lease: a hash of the ID in its root directory and the boot ID of the
/// machine.
///
/// # Errors
/// If the file in the root directory cannot be read or written.
pub fn instance(root_dir: &Path) -> io::Result<String> {
    let file = root_dir.join(INSTANCE_FILE);
    let own = match std::fs::read_to_string(&file) {
        Ok(own) if !own.trim().is_empty() => own,
        Ok(_) => create_instance_file(&file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_instance_file(&file)?,
        Err(error) => return Err(error),
    };
    let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    Ok(hex::encode(&Sha256::digest(format!("{}\n{}", own.trim(), boot.trim()))[..16]))
}

fn create_instance_file(file: &Path) -> io::Result<String> {
    let own = std::fs::read_to_string(RANDOM_UUID)?;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(file, &own)?;
    Ok(own)
}

/// The lease of another kubelet, and the time since which its `renewTime` has not changed.
#[derive(Debug)]
pub struct Observed {
    renewed: String,
    since: Instant,
}

/// The holder of a lease.
#[derive(Debug, PartialEq, Eq)]
pub enum Holder {
    /// No other kubelet renews the lease. It belongs to this kubelet or to none, or it has expired.
    Free,
    /// Another kubelet renews the lease.
    Other,
}

/// Decides which kubelet holds the lease. `observed` keeps the lease of another kubelet between two calls.
pub fn holder(
    lease: &Value,
    instance: &str,
    observed: &mut Option<Observed>,
    (wall, now): (Timestamp, Instant),
) -> Holder {
    let by = lease["metadata"]["annotations"][INSTANCE].as_str().unwrap_or_default();
    let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
    // A lease without the annotation belongs to a stock kubelet or an older version. This kubelet takes such a lease
    // over.
    let Some(at) = renewed.parse::<Timestamp>().ok().filter(|_| !by.is_empty() && by != instance) else {
        *observed = None;
        return Holder::Free;
    };
    let since = match observed {
        Some(before) if before.renewed == renewed => before.since,
        Some(_) | None => now,
    };
    *observed = Some(Observed { renewed: renewed.to_owned(), since });
    // The clock of the other machine may be wrong. A `renewTime` that does not change for the lease duration also means
    // that the lease has expired.
    let is_old = wall.duration_since(at) > SignedDuration::from_secs(LEASE_DURATION_SECONDS.cast_signed());
    let is_expired = is_old || now.duration_since(since) > Duration::from_secs(LEASE_DURATION_SECONDS);
    if is_expired { Holder::Free } else { Holder::Other }
}

/// The event message for a node name that another machine uses.
pub fn conflict_message(node: &str, object: Option<&Value>) -> String {
    let status = object.map(|object| &object["status"]);
    let address = status.and_then(|status| status["addresses"][0]["address"].as_str()).unwrap_or("unknown");
    let machine = status.and_then(|status| status["nodeInfo"]["machineID"].as_str()).unwrap_or("unknown");
    format!(
        "another machine uses the node name {node} and renews the node's lease (address {address}, machine ID \
         {machine}). This kubelet runs no new pods of the cluster until the other machine stops. Stop one of the \
         two, or give this machine another name (--hostname-override)"
    )
}

#[cfg(test)]
mod tests {
    //! Tests of leases of this and other kubelets, with the wall clock and the monotonic clock.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn node_name_is_taken_while_another_machine_renews_its_lease() {
        let (wall, now): (Timestamp, _) = ("2026-01-01T00:10:00Z".parse().unwrap(), Instant::now());
        let lease = |by: Option<&str>, renewed: &str| json!({"metadata": {"annotations": by.map(|by| json!({INSTANCE: by}))}, "spec": {"renewTime": renewed}});
        for (by, renewed, expected) in [
            (Some("own"), "2026-01-01T00:09:55Z", Holder::Free),
            (None, "2026-01-01T00:09:55Z", Holder::Free),
            (Some("other"), "2026-01-01T00:09:55.123456Z", Holder::Other),
            (Some("other"), "2026-01-01T00:09:19Z", Holder::Free),
            (Some("other"), "", Holder::Free),
            // A clock that is ahead.
            (Some("other"), "2026-01-01T01:00:00Z", Holder::Other),
        ] {
            let found = holder(&lease(by, renewed), "own", &mut None, (wall, now));
            assert_eq!(found, expected, "{by:?} {renewed}");
        }
        let (mut observed, ahead) = (None, lease(Some("other"), "2026-01-01T01:00:00Z"));
        for (seconds, expected) in [(0, Holder::Other), (40, Holder::Other), (41, Holder::Free)] {
            let later = now + Duration::from_secs(seconds);
            assert_eq!(holder(&ahead, "own", &mut observed, (wall, later)), expected, "after {seconds} s");
        }
        let renewed = lease(Some("other"), "2026-01-01T01:00:41Z");
        let later = now + Duration::from_secs(41);
        assert_eq!(holder(&renewed, "own", &mut observed, (wall, later)), Holder::Other);
    }

    #[test]
    fn restarted_kubelet_is_the_same_lease_holder() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = instance(one.path()).unwrap();
        assert_eq!(instance(one.path()).unwrap(), first);
        assert_ne!(instance(other.path()).unwrap(), first);
    }
}
