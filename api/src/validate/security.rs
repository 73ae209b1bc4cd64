//! Who a Pod runs as, and what it may do.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile};

use super::names::{local_path, one_of, required, within};
use crate::fault::Faults;
use crate::path::Path;

/// The largest user or group ID.
const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL_MAX: usize = 253;
/// What a path may hold, less its end.
const APPARMOR_MAX: usize = 4095;

pub(super) fn pod(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    host_users(spec, path, faults);
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let what = "the pod shares the host's processes already";
        faults.add(&path.field("shareProcessNamespace"), what, "remove it, or remove `hostPID`");
    }
    let Some(context) = &spec.security_context else { return };
    let path = &path.field("securityContext");
    for (id, field) in [
        (context.fs_group, "fsGroup"),
        (context.run_as_user, "runAsUser"),
        (context.run_as_group, "runAsGroup"),
    ] {
        if let Some(id) = id {
            within(id, 0, ID_MAX, &path.field(field), faults);
        }
    }
    let groups = path.field("supplementalGroups");
    for (index, id) in context.supplemental_groups.iter().flatten().enumerate() {
        within(*id, 0, ID_MAX, &groups.index(index), faults);
    }
    for (value, known, field) in [
        (&context.fs_group_change_policy, ["Always", "OnRootMismatch"], "fsGroupChangePolicy"),
        (&context.supplemental_groups_policy, ["Merge", "Strict"], "supplementalGroupsPolicy"),
        (&context.se_linux_change_policy, ["Recursive", "MountOption"], "seLinuxChangePolicy"),
    ] {
        if let Some(value) = value {
            one_of(value, &known, &path.field(field), faults);
        }
    }
    sysctls(context, spec, &path.field("sysctls"), faults);
    if let Some(profile) = &context.seccomp_profile {
        seccomp(profile, &path.field("seccompProfile"), faults);
    }
    if let Some(profile) = &context.app_armor_profile {
        apparmor(profile, &path.field("appArmorProfile"), faults);
    }
}

/// A user namespace of its own goes with no other namespace of the host.
fn host_users(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    if spec.host_users != Some(false) {
        return;
    }
    for (set, field) in
        [(spec.host_network, "hostNetwork"), (spec.host_pid, "hostPID"), (spec.host_ipc, "hostIPC")]
    {
        if set == Some(true) {
            faults.add(&path.field(field), "`hostUsers` is false", "remove one of them");
        }
    }
}

pub(super) fn container(container: &Container, spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let Some(context) = &container.security_context else { return };
    let path = &path.field("securityContext");
    for (id, field) in [(context.run_as_user, "runAsUser"), (context.run_as_group, "runAsGroup")] {
        if let Some(id) = id {
            within(id, 0, ID_MAX, &path.field(field), faults);
        }
    }
    if let Some(mount) = &context.proc_mount {
        let path = &path.field("procMount");
        one_of(mount, &["Default", "Unmasked"], path, faults);
        if mount == "Unmasked" && spec.host_users != Some(false) {
            faults.add(
                path,
                "it needs a user namespace of the pod's own",
                "add `hostUsers: false` to the pod",
            );
        }
    }
    if let Some(profile) = &context.seccomp_profile {
        seccomp(profile, &path.field("seccompProfile"), faults);
    }
    if let Some(profile) = &context.app_armor_profile {
        apparmor(profile, &path.field("appArmorProfile"), faults);
    }
    if context.allow_privilege_escalation == Some(false) {
        let path = &path.field("allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            faults.add(
                path,
                "a privileged container has every privilege",
                "remove it, or remove `privileged`",
            );
        }
        let mut added =
            context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.any(|capability| capability == "CAP_SYS_ADMIN") {
            faults.add(path, "CAP_SYS_ADMIN is every privilege", "remove it, or remove the capability");
        }
    }
}

fn seccomp(profile: &SeccompProfile, path: &Path<'_>, faults: &mut Faults) {
    one_of(&profile.type_, &["RuntimeDefault", "Unconfined", "Localhost"], &path.field("type"), faults);
    let path = &path.field("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => required(path, "add the file of the profile", faults),
        ("Localhost", Some(file)) => local_path(file, path, faults),
        (_, Some(_)) => {
            faults.add(path, "only the type Localhost has a file", "remove it, or write `type: Localhost`")
        }
        (_, None) => {}
    }
}

fn apparmor(profile: &AppArmorProfile, path: &Path<'_>, faults: &mut Faults) {
    one_of(&profile.type_, &["RuntimeDefault", "Unconfined", "Localhost"], &path.field("type"), faults);
    let path = &path.field("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => required(path, "add the name of the profile", faults),
        ("Localhost", Some(name)) if name.trim() != name => {
            faults.add(path, "the name begins or ends with a space", format!("write `{}`", name.trim()));
        }
        ("Localhost", Some(name)) if name.len() > APPARMOR_MAX => {
            faults.add(path, "the name is too long", format!("keep to {APPARMOR_MAX} characters"));
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(_)) => {
            faults.add(path, "only the type Localhost has a name", "remove it, or write `type: Localhost`")
        }
    }
}

fn sysctls(context: &PodSecurityContext, spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let item = path.index(index);
        let path = &item.field("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            required(path, "add the name of the kernel parameter", faults);
        } else if !is_sysctl(name) {
            faults.add(path, format!("`{name}` is no kernel parameter"), "write it like net.core.somaxconn");
        } else if !names.insert(name.replace('/', ".")) {
            faults.twice(path, format!("`{name}` stands here twice"), "keep one of them");
        }
        let dotted = name.replace('/', ".");
        if spec.host_network == Some(true) && dotted.starts_with("net.") {
            faults.add(path, "the network is the host's", "remove it, or remove `hostNetwork`");
        }
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix));
        if spec.host_ipc == Some(true) && (ipc || dotted == "kernel.sem") {
            faults.add(path, "shared memory is the host's", "remove it, or remove `hostIPC`");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let part = |part: &str| {
        let inside =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        part.bytes().all(inside) && ends(part.bytes().next()) && ends(part.bytes().last())
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(part)
}
