//! What this engine cannot do, found out once: a rootless or hardened one refuses parts of a container.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};
use tokio::sync::OnceCell;

use super::errors::{WORK, within};
use super::pause::pause_image;
use super::{Docker, create, lifecycle};
use crate::runtime::{DoneWithout, Error, labels};

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

/// What has been found out about the engine since this process began.
#[derive(Default)]
pub(super) struct Abilities {
    asked: OnceCell<()>,
    no_negative_oom_score: AtomicBool,
}

impl Abilities {
    /// Takes out of a container what the engine is known to refuse, and notes it in the container's labels.
    ///
    /// A sandbox may not turn out to be refused at its start, when containers that join it exist already; so the
    /// engine is tried with a container of our own before the first is made.
    pub(super) async fn adapt(&self, docker: &Docker, body: &mut ContainerCreateBody) -> Result<(), Error> {
        if !asks_for(body.host_config.as_ref(), Part::OomScore) {
            return Ok(());
        }
        self.asked.get_or_try_init(|| self.ask(docker)).await?;
        if self.no_negative_oom_score.load(Ordering::Relaxed) {
            leave_out(body, Part::OomScore);
        }
        Ok(())
    }

    /// Remembers a refusal, so that the next container does not meet it.
    pub(super) fn learn(&self, refused: Part) {
        if refused == Part::OomScore {
            self.no_negative_oom_score.store(true, Ordering::Relaxed);
        }
    }

    /// Starts a process with a negative score, on the host's network because that is the cheapest.
    async fn ask(&self, docker: &Docker) -> Result<(), Error> {
        // The node's label alone makes it ours without making it a pod's.
        let labels = HashMap::from([(labels::NODE.to_owned(), docker.node.clone())]);
        let name = format!("k8s_probe_{}", docker.node);
        lifecycle::remove(docker, &name).await?;
        let body = ContainerCreateBody {
            image: Some(pause_image().to_owned()),
            labels: Some(labels),
            host_config: Some(HostConfig {
                network_mode: Some("host".to_owned()),
                oom_score_adj: Some(-1),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let id = create::create(docker, &name, &body).await?;
        let start = docker.client().await?.start_container(&id, None);
        let started = within(WORK, "start the container", &name, start).await;
        let removed = lifecycle::remove(docker, &id).await;
        match started {
            Ok(()) => removed,
            Err(Error::Refused { message, .. })
                if refused_part(&message, body.host_config.as_ref()).is_some() =>
            {
                self.learn(Part::OomScore);
                removed
            }
            Err(error) => Err(error),
        }
    }
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

fn asks_for(host: Option<&HostConfig>, part: Part) -> bool {
    let Some(host) = host else { return false };
    match part {
        Part::OomScore => host.oom_score_adj.is_some_and(|score| score < 0),
        Part::Privileged => host.privileged.unwrap_or_default(),
        Part::Capabilities => host.cap_add.as_ref().is_some_and(|add| !add.is_empty()),
    }
}

/// Takes a part out and says so in the label that tells later looks.
fn leave_out(body: &mut ContainerCreateBody, part: Part) {
    let Some(host) = &mut body.host_config else { return };
    let what = match part {
        Part::OomScore => format!("oom_score_adj {}", host.oom_score_adj.replace(0).unwrap_or_default()),
        Part::Privileged => {
            host.privileged = Some(false);
            "privileged".to_owned()
        }
        Part::Capabilities => format!("capabilities {}", host.cap_add.take().unwrap_or_default().join(", ")),
    };
    let label = body.labels.get_or_insert_default().entry(labels::DONE_WITHOUT.to_owned()).or_default();
    if !label.is_empty() {
        label.push('\n');
    }
    label.push_str(&what);
}

/// What a container had to do without, from its label.
pub(super) fn done_without(label: Option<&String>) -> DoneWithout {
    label.map(|label| label.lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// The same container without a part, from an inspect of it.
pub(super) fn again_without(found: ContainerInspectResponse, part: Part) -> Option<ContainerCreateBody> {
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
    leave_out(&mut body, part);
    Some(body)
}

#[cfg(test)]
mod tests;
