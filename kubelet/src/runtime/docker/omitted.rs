//! Removes a refused feature from a container's configuration, but keeps the parts that the engine grants.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};

use crate::runtime::{OmittedParts, Refusal, labels};

/// A container feature that an engine may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A negative `oom_score_adj`, which needs CAP_SYS_RESOURCE.
    OomScore,
    /// Privileged mode.
    Privileged,
    /// Capabilities beyond the default ones.
    Capabilities,
}

/// The feature that the engine refused, from the cause and the container's configuration.
pub(super) fn refused_part(cause: Refusal, host: Option<&HostConfig>) -> Option<Part> {
    let candidates: &[Part] = match cause {
        Refusal::OomScore | Refusal::ChildDied => &[Part::OomScore],
        Refusal::Capabilities => &[Part::Privileged, Part::Capabilities],
        Refusal::Conflict | Refusal::AccessDenied | Refusal::Other => &[],
    };
    candidates.iter().copied().find(|part| requests(host, *part))
}

/// Whether a container requests the feature.
pub(super) fn requests(host: Option<&HostConfig>, part: Part) -> bool {
    let Some(host) = host else { return false };
    match part {
        Part::OomScore => host.oom_score_adj.is_some_and(|score| score < 0),
        Part::Privileged => host.privileged.unwrap_or_default(),
        Part::Capabilities => host.cap_add.as_ref().is_some_and(|add| !add.is_empty()),
    }
}

/// Removes a feature, and records that in a label for later inspections. `lacking` are the capabilities that the
/// engine lacks. Other capabilities of the set stay.
pub(super) fn leave_out(body: &mut ContainerCreateBody, part: Part, lacking: &[&str]) {
    let Some(host) = &mut body.host_config else { return };
    let what = match part {
        Part::OomScore => format!("oom_score_adj {}", host.oom_score_adj.replace(0).unwrap_or_default()),
        Part::Privileged => {
            host.privileged = Some(false);
            if lacking.is_empty() {
                "privileged".to_owned()
            } else {
                nearly_privileged(host, lacking);
                format!("privileged (it has all but {} and the host's devices)", lacking.join(", "))
            }
        }
        Part::Capabilities => format!("capabilities {}", without_capabilities(host, lacking).join(", ")),
    };
    let label = body.labels.get_or_insert_default().entry(labels::OMITTED_PARTS.to_owned()).or_default();
    if !label.is_empty() {
        label.push('\n');
    }
    label.push_str(&what);
}

/// Replaces `privileged` by its individual effects, as far as the engine can grant them.
fn nearly_privileged(host: &mut HostConfig, lacking: &[&str]) {
    host.cap_add = Some(vec!["ALL".to_owned()]);
    host.cap_drop = Some(lacking.iter().map(|&cap| cap.to_owned()).collect());
    host.masked_paths = Some(Vec::new());
    host.readonly_paths = Some(Vec::new());
    host.device_cgroup_rules = Some(vec!["a *:* rwm".to_owned()]);
    let options = host.security_opt.get_or_insert_default();
    for profile in ["seccomp", "apparmor"] {
        if !options.iter().any(|option| option.starts_with(profile)) {
            options.push(format!("{profile}=unconfined"));
        }
    }
}

/// Removes the capabilities that cannot be granted, or all if these are unknown. Returns the removed ones.
fn without_capabilities(host: &mut HostConfig, lacking: &[&str]) -> Vec<String> {
    let requested = host.cap_add.take().unwrap_or_default();
    let bare = |cap: &str| cap.to_uppercase().trim_start_matches("CAP_").to_owned();
    if requested.iter().any(|cap| bare(cap) == "ALL") && !lacking.is_empty() {
        host.cap_add = Some(requested);
        // `cap_drop` is applied to `ALL`.
        host.cap_drop.get_or_insert_default().extend(lacking.iter().map(|&cap| cap.to_owned()));
        return lacking.iter().map(|&cap| cap.to_owned()).collect();
    }
    let (refused, given): (Vec<_>, Vec<_>) =
        requested.iter().cloned().partition(|cap| lacking.contains(&bare(cap).as_str()));
    if refused.is_empty() {
        return requested;
    }
    host.cap_add = Some(given);
    refused
}

/// The omitted features in a container's label.
pub(super) fn omitted_parts(label: Option<&String>) -> OmittedParts {
    label.map(|label| label.lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// The creation request of an inspected container, without one feature.
pub(super) fn body_without(
    found: ContainerInspectResponse,
    part: Part,
    lacking: &[&str],
) -> Option<ContainerCreateBody> {
    // Docker returns the configuration in the format of a creation request.
    let config = serde_json::to_value(found.config?).ok()?;
    let mut body: ContainerCreateBody = serde_json::from_value(config).ok()?;
    body.host_config = found.host_config;
    body.image = found.image;
    if body.host_config.as_ref()?.network_mode.as_deref().is_some_and(|mode| mode.starts_with("container:")) {
        // The engine filled these in from sandbox and image; it rejects them in a request.
        body.hostname = None;
        body.domainname = None;
        body.exposed_ports = None;
    }
    leave_out(&mut body, part, lacking);
    Some(body)
}

#[cfg(test)]
mod tests;
