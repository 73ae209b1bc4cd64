//! Finds the Linux capabilities that a local engine lacks, so that it cannot grant them.

use super::Docker;

/// Capability names by bit number.
const ALL: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The capabilities that are missing from the bounding set of the engine's process. `None` if the engine is not
/// local.
pub(super) async fn lacking(docker: &Docker) -> Option<Vec<&'static str>> {
    let pid = docker.transport.engine_pid().await?;
    let status = tokio::fs::read_to_string(format!("/proc/{pid}/status")).await.ok()?;
    of_status(&status)
}

fn of_status(status: &str) -> Option<Vec<&'static str>> {
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"))?;
    let bounds = u64::from_str_radix(bounds.trim(), 16).ok()?;
    Some((0..).zip(ALL).filter(|(bit, _)| bounds & (1 << bit) == 0).map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    //! Tests of reading capabilities from `/proc/PID/status`.

    use super::*;

    #[test]
    fn missing_capability_bits_are_named() {
        let status = |bounds: &str| format!("Name:\tdockerd\nCapEff:\t0\nCapBnd:\t{bounds}\nCapAmb:\t0\n");
        assert_eq!(of_status(&status("000001ffffffffff")), Some(vec![]));
        assert_eq!(of_status(&status("000001fffeffffff")), Some(vec!["SYS_RESOURCE"]));
        assert_eq!(of_status(&status("000000ffffffffff")), Some(vec!["CHECKPOINT_RESTORE"]));
        assert_eq!(of_status("Name:\tdockerd\n"), None);
    }
}
