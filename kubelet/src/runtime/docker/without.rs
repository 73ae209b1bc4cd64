//! A container without a part that the engine refuses, and with as much of that part as it does give.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};

use crate::runtime::{DoneWithout, labels};

/// A part of a container that an engine may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A negative `oom_score_adj`, which needs CAP_SYS_RESOURCE.
    OomScore,
    /// `privileged`.
    Privileged,
    /// Capabilities beyond the default.
    Capabilities,
}

/// Which part of a container the engine refused to start it with, from what it said and what was asked for.
pub(super) fn refused_part(message: &str, host: Option<&HostConfig>) -> Option<Part> {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["oom_score_adj", "can't get final child's PID from pipe"]) && asks_for(host, Part::OomScore) {
        return Some(Part::OomScore);
    }
    if says(&["unable to apply caps", "unable to apply bounding set"]) {
        return [Part::Privileged, Part::Capabilities].into_iter().find(|part| asks_for(host, *part));
    }
    None
}

/// Whether a container has that part.
pub(super) fn asks_for(host: Option<&HostConfig>, part: Part) -> bool {
    let Some(host) = host else { return false };
    match part {
        Part::OomScore => host.oom_score_adj.is_some_and(|score| score < 0),
        Part::Privileged => host.privileged.unwrap_or_default(),
        Part::Capabilities => host.cap_add.as_ref().is_some_and(|add| !add.is_empty()),
    }
}

/// Takes a part out and says so in the label that tells later looks. `lacking` are capabilities that the engine is
/// known to lack: then the others of a refused set are kept.
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
    let label = body.labels.get_or_insert_default().entry(labels::DONE_WITHOUT.to_owned()).or_default();
    if !label.is_empty() {
        label.push('\n');
    }
    label.push_str(&what);
}

/// What `privileged` stands for, as far as it can be told one by one.
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

/// Takes out those that cannot be had, or all where that is not known; says which.
fn without_capabilities(host: &mut HostConfig, lacking: &[&str]) -> Vec<String> {
    let asked = host.cap_add.take().unwrap_or_default();
    let bare = |cap: &str| cap.to_uppercase().trim_start_matches("CAP_").to_owned();
    if asked.iter().any(|cap| bare(cap) == "ALL") && !lacking.is_empty() {
        host.cap_add = Some(asked);
        // What is dropped is taken from all.
        host.cap_drop.get_or_insert_default().extend(lacking.iter().map(|&cap| cap.to_owned()));
        return lacking.iter().map(|&cap| cap.to_owned()).collect();
    }
    let (refused, given): (Vec<_>, Vec<_>) =
        asked.iter().cloned().partition(|cap| lacking.contains(&bare(cap).as_str()));
    if refused.is_empty() {
        return asked;
    }
    host.cap_add = Some(given);
    refused
}

/// What a container had to do without, from its label.
pub(super) fn done_without(label: Option<&String>) -> DoneWithout {
    label.map(|label| label.lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// The same container without a part, from an inspect of it.
pub(super) fn again_without(
    found: ContainerInspectResponse,
    part: Part,
    lacking: &[&str],
) -> Option<ContainerCreateBody> {
    // Docker keeps a container's configuration in the words in which it is told to make one.
    let config = serde_json::to_value(found.config?).ok()?;
    let mut body: ContainerCreateBody = serde_json::from_value(config).ok()?;
    body.host_config = found.host_config;
    body.image = found.image;
    if body.host_config.as_ref()?.network_mode.as_deref().is_some_and(|mode| mode.starts_with("container:")) {
        // Filled in by the engine from the sandbox and the image; as a wish, it would refuse them.
        body.hostname = None;
        body.domainname = None;
        body.exposed_ports = None;
    }
    leave_out(&mut body, part, lacking);
    Some(body)
}

#[cfg(test)]
mod tests;
