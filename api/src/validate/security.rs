//! Validates security contexts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile};

use super::names::{local_path, one_of, required, within};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// The largest user or group ID.
const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL_MAX: usize = 253;
/// Limit for the name of an AppArmor profile: PATH_MAX without the terminating NUL.
const APPARMOR_MAX: usize = 4095;

pub(super) fn pod(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    host_users(spec, path, errors);
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let what = "the pod shares the host's processes already";
        errors.add(&path.field("shareProcessNamespace"), what, "remove it, or remove `hostPID`");
    }
    let Some(context) = &spec.security_context else { return };
    let path = &path.field("securityContext");
    for (id, field) in [
        (context.fs_group, "fsGroup"),
        (context.run_as_user, "runAsUser"),
        (context.run_as_group, "runAsGroup"),
    ] {
        if let Some(id) = id {
            within(id, 0, ID_MAX, &path.field(field), errors);
        }
    }
    let groups = path.field("supplementalGroups");
    for (index, id) in context.supplemental_groups.iter().flatten().enumerate() {
        within(*id, 0, ID_MAX, &groups.index(index), errors);
    }
    for (value, known, field) in [
        (&context.fs_group_change_policy, ["Always", "OnRootMismatch"], "fsGroupChangePolicy"),
        (&context.supplemental_groups_policy, ["Merge", "Strict"], "supplementalGroupsPolicy"),
        (&context.se_linux_change_policy, ["Recursive", "MountOption"], "seLinuxChangePolicy"),
    ] {
        if let Some(value) = value {
            one_of(value, &known, &path.field(field), errors);
        }
    }
    sysctls(context, spec, &path.field("sysctls"), errors);
    if let Some(profile) = &context.seccomp_profile {
        seccomp(profile, &path.field("seccompProfile"), errors);
    }
    if let Some(profile) = &context.app_armor_profile {
        apparmor(profile, &path.field("appArmorProfile"), errors);
    }
}

/// Rejects a separate user namespace together with other host namespaces.
fn host_users(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    if spec.host_users != Some(false) {
        return;
    }
    for (set, field) in
        [(spec.host_network, "hostNetwork"), (spec.host_pid, "hostPID"), (spec.host_ipc, "hostIPC")]
    {
        if set == Some(true) {
            errors.add(&path.field(field), "`hostUsers` is false", "remove one of them");
        }
    }
}

pub(super) fn container(container: &Container, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(context) = &container.security_context else { return };
    let path = &path.field("securityContext");
    for (id, field) in [(context.run_as_user, "runAsUser"), (context.run_as_group, "runAsGroup")] {
        if let Some(id) = id {
            within(id, 0, ID_MAX, &path.field(field), errors);
        }
    }
    if let Some(mount) = &context.proc_mount {
        let path = &path.field("procMount");
        one_of(mount, &["Default", "Unmasked"], path, errors);
        if mount == "Unmasked" && spec.host_users != Some(false) {
            errors.add(path, "it requires a separate user namespace", "add `hostUsers: false` to the pod");
        }
    }
    if let Some(profile) = &context.seccomp_profile {
        seccomp(profile, &path.field("seccompProfile"), errors);
    }
    if let Some(profile) = &context.app_armor_profile {
        apparmor(profile, &path.field("appArmorProfile"), errors);
    }
    if context.allow_privilege_escalation == Some(false) {
        let path = &path.field("allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            errors.add(
                path,
                "a privileged container has all privileges",
                "remove it, or remove `privileged`",
            );
        }
        let mut added =
            context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.any(|capability| capability == "CAP_SYS_ADMIN") {
            errors.add(path, "CAP_SYS_ADMIN grants all privileges", "remove it, or remove the capability");
        }
    }
}

fn seccomp(profile: &SeccompProfile, path: &Path<'_>, errors: &mut FieldErrors) {
    one_of(&profile.type_, &["RuntimeDefault", "Unconfined", "Localhost"], &path.field("type"), errors);
    let path = &path.field("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => required(path, "add the file of the profile", errors),
        ("Localhost", Some(file)) => local_path(file, path, errors),
        (_, Some(_)) => {
            errors.add(path, "only the type Localhost has a file", "remove it, or write `type: Localhost`")
        }
        (_, None) => {}
    }
}

fn apparmor(profile: &AppArmorProfile, path: &Path<'_>, errors: &mut FieldErrors) {
    one_of(&profile.type_, &["RuntimeDefault", "Unconfined", "Localhost"], &path.field("type"), errors);
    let path = &path.field("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => required(path, "add the name of the profile", errors),
        ("Localhost", Some(name)) if name.trim() != name => {
            errors.add(path, "the name begins or ends with a space", format!("write `{}`", name.trim()));
        }
        ("Localhost", Some(name)) if name.len() > APPARMOR_MAX => {
            errors.add(path, "the name is too long", format!("keep to {APPARMOR_MAX} characters"));
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(_)) => {
            errors.add(path, "only the type Localhost has a name", "remove it, or write `type: Localhost`")
        }
    }
}

fn sysctls(context: &PodSecurityContext, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let item = path.index(index);
        let path = &item.field("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            required(path, "add the name of the kernel parameter", errors);
        } else if !is_sysctl(name) {
            errors.add(
                path,
                format!("`{name}` is not a kernel parameter"),
                "write it like net.core.somaxconn",
            );
        } else if !names.insert(name.replace('/', ".")) {
            errors.duplicate(path, format!("`{name}` is defined twice"), "keep one of them");
        }
        let dotted = name.replace('/', ".");
        if spec.host_network == Some(true) && dotted.starts_with("net.") {
            errors.add(path, "the pod uses the network of the host", "remove it, or remove `hostNetwork`");
        }
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix));
        if spec.host_ipc == Some(true) && (ipc || dotted == "kernel.sem") {
            errors.add(path, "the pod uses the shared memory of the host", "remove it, or remove `hostIPC`");
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
