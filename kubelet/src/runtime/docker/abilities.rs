//! What this engine cannot do, found out once: a rootless or hardened one refuses parts of a container.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::models::{ContainerCreateBody, ContainerSummary, HostConfig};
use tokio::sync::OnceCell;

use super::errors::{WORK, within};
use super::pause::pause_image;
use super::without::{Part, asks_for, leave_out, refused_part};
use super::{Docker, capabilities, create, lifecycle};
use crate::runtime::{Error, labels};

/// What has been found out about the engine since this process began.
#[derive(Default)]
pub(super) struct Abilities {
    asked: OnceCell<()>,
    /// It is being asked: the container it is tried with is in use.
    is_asking: AtomicBool,
    no_negative_oom_score: AtomicBool,
    no_privileged: AtomicBool,
    /// Capabilities that the engine itself lacks and so cannot give, where that can be known.
    lacking: OnceCell<Vec<&'static str>>,
}

impl Abilities {
    /// Takes out of a container what the engine is known to refuse, and notes it in the container's labels.
    ///
    /// A sandbox may not turn out to be refused at its start, when containers that join it exist already; so the
    /// engine is tried with a container of our own before the first is made.
    pub(super) async fn adapt(&self, docker: &Docker, body: &mut ContainerCreateBody) -> Result<(), Error> {
        if asks_for(body.host_config.as_ref(), Part::OomScore) {
            self.asked.get_or_try_init(|| self.ask(docker)).await?;
        }
        for (part, is_known) in
            [(Part::OomScore, &self.no_negative_oom_score), (Part::Privileged, &self.no_privileged)]
        {
            if is_known.load(Ordering::Relaxed) && asks_for(body.host_config.as_ref(), part) {
                leave_out(body, part, self.lacking(docker).await);
            }
        }
        Ok(())
    }

    /// Remembers a refusal, so that the next container does not meet it. Of single capabilities the engine may
    /// refuse one and give another, so those are tried each time.
    pub(super) fn learn(&self, refused: Part) {
        match refused {
            Part::OomScore => self.no_negative_oom_score.store(true, Ordering::Relaxed),
            Part::Privileged => self.no_privileged.store(true, Ordering::Relaxed),
            Part::Capabilities => {}
        }
    }

    /// Capabilities that the engine lacks; empty when that is not to be known from here.
    pub(super) async fn lacking(&self, docker: &Docker) -> &[&'static str] {
        self.lacking.get_or_init(|| async { capabilities::lacking(docker).await.unwrap_or_default() }).await
    }

    /// Removes what a kubelet that was killed while it asked has left, should it be among these.
    pub(super) async fn tidy(&self, docker: &Docker, found: &[ContainerSummary]) -> Result<(), Error> {
        if self.is_asking.load(Ordering::Relaxed) {
            return Ok(());
        }
        let name = format!("/{}", probe_name(docker));
        let left = found.iter().find(|c| c.names.iter().flatten().any(|of| *of == name));
        match left.and_then(|c| c.id.as_deref()) {
            Some(id) => lifecycle::remove(docker, id).await,
            None => Ok(()),
        }
    }

    async fn ask(&self, docker: &Docker) -> Result<(), Error> {
        self.is_asking.store(true, Ordering::Relaxed);
        let outcome = self.try_out(docker).await;
        self.is_asking.store(false, Ordering::Relaxed);
        outcome
    }

    /// Starts a process with a negative score, on the host's network because that is the cheapest.
    async fn try_out(&self, docker: &Docker) -> Result<(), Error> {
        // The node's label alone makes it ours without making it a pod's.
        let labels = HashMap::from([(labels::NODE.to_owned(), docker.node.clone())]);
        let name = probe_name(docker);
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
        let outcome = match create::anew(docker, &name, &body).await {
            Ok(id) => {
                let start = docker.client().await?.start_container(&id, None);
                let started = within(WORK, "start the container", &name, start).await;
                lifecycle::remove(docker, &id).await?;
                started
            }
            Err(error) => Err(error),
        };
        match outcome {
            Err(Error::Refused { message, .. }) => match refused_part(&message, body.host_config.as_ref()) {
                Some(part) => {
                    tracing::warn!(
                        message,
                        "the engine takes no negative oom_score_adj, as those do not that run without root or without CAP_SYS_RESOURCE; sandboxes run without"
                    );
                    self.learn(part);
                }
                // An engine that minds something else about it (it may remap users, who then cannot have the host's
                // network) has told nothing of scores: containers find out for themselves.
                None => tracing::debug!(
                    message,
                    "the engine does not say whether it takes a negative oom_score_adj"
                ),
            },
            done => done?,
        }
        Ok(())
    }
}

/// The container that the engine is tried with.
fn probe_name(docker: &Docker) -> String {
    format!("k8s_probe_{}", docker.node)
}
