//! Capabilities that an engine on this machine lacks and so cannot give to a container.

use super::Docker;

/// The kernel's capabilities, each at the place of its bit.
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

/// What the process behind the engine's socket lacks; `None` when it is not on this machine.
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
mod tests;
