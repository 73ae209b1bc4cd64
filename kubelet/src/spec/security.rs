//! Security settings of a container. The security context of the container overrides that of the pod.
//!
//! Without seccomp or AppArmor settings, the default profiles of the engine apply, as with `RuntimeDefault`. The
//! stock kubelet disables seccomp by default.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, Pod, PodSecurityContext, SELinuxOptions, SecurityContext,
};

use super::ConfigError;
use super::{app_armor, containers, namespace};
use crate::runtime::Image;
use crate::runtime::spec::Security;

/// The seccomp profile file of a container, relative to `<root-dir>/seccomp`.
pub fn seccomp_file<'a>(pod: &'a Pod, container: &'a Container) -> Option<&'a str> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    match seccomp(context, container.security_context.as_ref()) {
        Seccomp::Localhost(file) => Some(file),
        Seccomp::Engine | Seccomp::Unconfined => None,
    }
}

/// The security settings of a container. `profile` is the content of its [`seccomp_file`].
///
/// # Errors
/// If `runAsNonRoot` is violated or cannot be verified, or the seccomp profile is missing.
pub(super) fn of(
    pod: &Pod,
    container: &Container,
    image: &Image,
    profile: Option<&str>,
) -> Result<Security, ConfigError> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let of_container = container.security_context.as_ref();
    if of_pod.and_then(|c| c.supplemental_groups_policy.as_deref()) == Some("Strict") {
        return Err(ConfigError::container("supplementalGroupsPolicy: Strict is not supported: use Merge"));
    }
    check_not_root(pod, container, image)?;
    let (add, drop) = capabilities(of_container.and_then(|c| c.capabilities.as_ref()));
    Ok(Security {
        user: user(of_pod, of_container, image),
        groups: groups(of_pod),
        privileged: of_container.and_then(|c| c.privileged) == Some(true),
        add,
        drop,
        read_only_root: of_container.and_then(|c| c.read_only_root_filesystem) == Some(true),
        options: options(of_pod, of_container, profile, app_armor::profile(pod, container))?,
    })
}

/// SELinux options in the format of the engine.
pub(super) fn se_linux(options: Option<&SELinuxOptions>) -> impl Iterator<Item = String> {
    options.into_iter().flat_map(|o| {
        let parts = [("user", &o.user), ("role", &o.role), ("type", &o.type_), ("level", &o.level)];
        parts.into_iter().filter_map(|(name, value)| {
            value.as_deref().filter(|v| !v.is_empty()).map(|v| format!("label={name}:{v}"))
        })
    })
}

fn run_as_user(of_pod: Option<&PodSecurityContext>, of_container: Option<&SecurityContext>) -> Option<i64> {
    of_container.and_then(|c| c.run_as_user).or(of_pod.and_then(|c| c.run_as_user))
}

/// The user of a pod's containers, if all have the same one.
pub(crate) fn only_user(pod: &Pod) -> Option<i64> {
    let spec = pod.spec.as_ref()?;
    let user = |container: &Container| {
        run_as_user(spec.security_context.as_ref(), container.security_context.as_ref())
    };
    let mut users = containers(spec).map(user);
    let first = users.next()??;
    users.all(|other| other == Some(first)).then_some(first)
}

fn user(
    of_pod: Option<&PodSecurityContext>,
    of_container: Option<&SecurityContext>,
    image: &Image,
) -> Option<String> {
    let user = run_as_user(of_pod, of_container).map(|uid| uid.to_string());
    let group = of_container.and_then(|c| c.run_as_group).or(of_pod.and_then(|c| c.run_as_group));
    match (user, group) {
        (user, None) => user,
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (None, Some(group)) => Some(format!("{}:{group}", image_user(image))),
    }
}

/// The user of an image without its group; root by default.
fn image_user(image: &Image) -> &str {
    let user = image.user.split(':').next().unwrap_or_default();
    if user.is_empty() { "0" } else { user }
}

/// Whether `runAsNonRoot` applies to the container.
fn must_not_run_as_root(pod: &Pod, container: &Container) -> bool {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let of_container = container.security_context.as_ref();
    of_container.and_then(|c| c.run_as_non_root).or(of_pod.and_then(|c| c.run_as_non_root)) == Some(true)
}

/// Checks for `runAsNonRoot: true` with `runAsUser: 0`. This check needs no image.
///
/// # Errors
/// If the container has this conflict.
pub(super) fn run_as_root_conflict(pod: &Pod, container: &Container) -> Result<(), ConfigError> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let user = run_as_user(of_pod, container.security_context.as_ref());
    if must_not_run_as_root(pod, container) && user == Some(0) {
        return Err(root_refused(pod, container, "container's runAsUser breaks non-root policy"));
    }
    Ok(())
}

fn check_not_root(pod: &Pod, container: &Container, image: &Image) -> Result<(), ConfigError> {
    run_as_root_conflict(pod, container)?;
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let user = run_as_user(of_pod, container.security_context.as_ref());
    if !must_not_run_as_root(pod, container) || user.is_some() {
        return Ok(());
    }
    let wrong = match image_user(image).parse::<u32>() {
        Ok(0) => "container has runAsNonRoot and image will run as root: set runAsUser".to_owned(),
        Ok(_) => return Ok(()),
        Err(_) => format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root: set runAsUser",
            image_user(image)
        ),
    };
    Err(root_refused(pod, container, &wrong))
}

fn root_refused(pod: &Pod, container: &Container, wrong: &str) -> ConfigError {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    ConfigError::container(format!(
        "{wrong} (pod: \"{name}_{}\", container: {})",
        namespace(pod),
        container.name
    ))
}

fn groups(of_pod: Option<&PodSecurityContext>) -> Vec<String> {
    let Some(context) = of_pod else { return Vec::new() };
    let mut groups: Vec<String> = Vec::new();
    for group in context.fs_group.iter().chain(context.supplemental_groups.iter().flatten()) {
        let group = group.to_string();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn capabilities(capabilities: Option<&Capabilities>) -> (Vec<String>, Vec<String>) {
    let plain = |list: &Option<Vec<String>>| {
        let names = list.iter().flatten().map(|name| name.to_ascii_uppercase());
        names.map(|name| name.strip_prefix("CAP_").map(str::to_owned).unwrap_or(name)).collect()
    };
    capabilities.map(|c| (plain(&c.add), plain(&c.drop))).unwrap_or_default()
}

fn options(
    of_pod: Option<&PodSecurityContext>,
    of_container: Option<&SecurityContext>,
    profile: Option<&str>,
    app_armor_profile: Option<AppArmorProfile>,
) -> Result<Vec<String>, ConfigError> {
    let mut options = Vec::new();
    if of_container.and_then(|c| c.allow_privilege_escalation) == Some(false) {
        options.push("no-new-privileges".to_owned());
    }
    match seccomp(of_pod, of_container) {
        Seccomp::Engine => {}
        Seccomp::Unconfined => options.push("seccomp=unconfined".to_owned()),
        Seccomp::Localhost(file) => options.push(match profile {
            Some(json) => format!("seccomp={json}"),
            None => {
                return Err(ConfigError::container(format!(
                    "seccompProfile: {file} is not in the directory seccomp of the kubelet's root directory"
                )));
            }
        }),
    }
    options.extend(app_armor_option(app_armor_profile));
    let own = of_container.and_then(|c| c.se_linux_options.as_ref());
    options.extend(se_linux(own.or(of_pod.and_then(|c| c.se_linux_options.as_ref()))));
    if of_container.and_then(|c| c.proc_mount.as_deref()) == Some("Unmasked") {
        options.push("systempaths=unconfined".to_owned());
    }
    Ok(options)
}

enum Seccomp<'a> {
    /// The default profile of the engine.
    Engine,
    Unconfined,
    Localhost(&'a str),
}

fn seccomp<'a>(
    of_pod: Option<&'a PodSecurityContext>,
    of_container: Option<&'a SecurityContext>,
) -> Seccomp<'a> {
    let own = of_container.and_then(|c| c.seccomp_profile.as_ref());
    let Some(profile) = own.or(of_pod.and_then(|c| c.seccomp_profile.as_ref())) else {
        return Seccomp::Engine;
    };
    match profile.type_.as_str() {
        "Unconfined" => Seccomp::Unconfined,
        "Localhost" => Seccomp::Localhost(profile.localhost_profile.as_deref().unwrap_or_default()),
        _ => Seccomp::Engine,
    }
}

fn app_armor_option(profile: Option<AppArmorProfile>) -> Option<String> {
    let profile = profile?;
    match profile.type_.as_str() {
        "Unconfined" => Some("apparmor=unconfined".to_owned()),
        "Localhost" => Some(format!("apparmor={}", profile.localhost_profile.as_deref().unwrap_or_default())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
