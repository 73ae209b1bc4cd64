//! Detects features that an engine refuses, such as a rootless or hardened engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::models::{ContainerCreateBody, ContainerSummary, HostConfig};
use tokio::sync::{Mutex, OnceCell};

use super::errors::{WORK_TIMEOUT, with_timeout};
use super::omitted::{Part, leave_out, refused_part, requests};
use super::pause::pause_image;
use super::{Docker, capabilities, create, lifecycle};
use crate::runtime::{Error, Refusal, labels};

/// Restrictions of the engine that this process has detected.
#[derive(Default)]
pub(super) struct Restrictions {
    tested: OnceCell<()>,
    /// Locked during the test, because the test container has a fixed name.
    testing: Mutex<()>,
    /// True while the test container exists.
    is_testing: AtomicBool,
    no_negative_oom_score: AtomicBool,
    no_privileged: AtomicBool,
    /// Capabilities that the engine itself lacks, if they can be determined.
    lacking: OnceCell<Vec<&'static str>>,
}

impl Restrictions {
    /// Removes features that the engine is known to refuse from a container, and records them in its labels.
    ///
    /// The engine must not refuse a sandbox when it starts, because containers that join it may already exist.
    /// Therefore the kubelet tests the engine with a container of its own before it creates the first sandbox.
    pub(super) async fn adapt(&self, docker: &Docker, body: &mut ContainerCreateBody) -> Result<(), Error> {
        if requests(body.host_config.as_ref(), Part::OomScore) {
            self.tested.get_or_try_init(|| self.test_scores(docker)).await?;
        }
        for (part, is_known) in
            [(Part::OomScore, &self.no_negative_oom_score), (Part::Privileged, &self.no_privileged)]
        {
            if is_known.load(Ordering::Relaxed) && requests(body.host_config.as_ref(), part) {
                leave_out(body, part, self.lacking(docker).await);
            }
        }
        Ok(())
    }

    /// Records a refusal for later containers. The engine may refuse one capability and grant another, so
    /// capabilities are tried each time.
    pub(super) fn learn(&self, refused: Part) {
        match refused {
            Part::OomScore => self.no_negative_oom_score.store(true, Ordering::Relaxed),
            Part::Privileged => self.no_privileged.store(true, Ordering::Relaxed),
            Part::Capabilities => {}
        }
    }

    /// Capabilities that the engine lacks; empty if they cannot be determined.
    pub(super) async fn lacking(&self, docker: &Docker) -> &[&'static str] {
        self.lacking.get_or_init(|| async { capabilities::lacking(docker).await.unwrap_or_default() }).await
    }

    /// Removes the test container of a kubelet that was killed during the test.
    pub(super) async fn tidy(&self, docker: &Docker, found: &[ContainerSummary]) -> Result<(), Error> {
        if self.is_testing.load(Ordering::Relaxed) {
            return Ok(());
        }
        let name = format!("/{}", probe_name(docker));
        let left = found.iter().find(|c| c.names.iter().flatten().any(|of| *of == name));
        match left.and_then(|c| c.id.as_deref()) {
            Some(id) => lifecycle::remove(docker, id).await,
            None => Ok(()),
        }
    }

    /// Tests the engine with a negative `oom_score_adj` and remembers a refusal.
    async fn test_scores(&self, docker: &Docker) -> Result<(), Error> {
        if self.refuses_scores(docker).await? {
            tracing::warn!(
                "the engine rejects a negative oom_score_adj, because it runs without root or without \
                 CAP_SYS_RESOURCE; sandboxes run without it"
            );
            self.learn(Part::OomScore);
        }
        Ok(())
    }

    /// Whether the engine refuses a negative score but starts the same container without one.
    ///
    /// # Errors
    /// If the engine starts neither container, so that the result is unknown.
    pub(super) async fn refuses_scores(&self, docker: &Docker) -> Result<bool, Error> {
        let _one_at_a_time = self.testing.lock().await;
        self.is_testing.store(true, Ordering::Relaxed);
        let outcome = self.try_out(docker).await;
        self.is_testing.store(false, Ordering::Relaxed);
        outcome
    }

    async fn try_out(&self, docker: &Docker) -> Result<bool, Error> {
        let host = |score| HostConfig {
            // The host network is the cheapest.
            network_mode: Some("host".to_owned()),
            oom_score_adj: Some(score),
            ..HostConfig::default()
        };
        match probe(docker, host(-1)).await {
            Err(Error::Refused { message, cause, .. }) => match refused_part(cause, Some(&host(-1))) {
                Some(_) if cause == Refusal::ChildDied => probe(docker, host(0)).await.map(|()| true),
                Some(_) => Ok(true),
                // The engine refuses another property of the test container (with user namespace remapping, the host network).
                // The start of each real container will show whether it accepts scores.
                None => {
                    tracing::debug!(
                        message,
                        "cannot determine whether the engine accepts a negative oom_score_adj"
                    );
                    Ok(false)
                }
            },
            done => done.map(|()| false),
        }
    }
}

/// Starts and removes a test container with this host configuration.
async fn probe(docker: &Docker, host: HostConfig) -> Result<(), Error> {
    // With the node label alone, the container belongs to this node but to no pod.
    let labels = HashMap::from([(labels::NODE.to_owned(), docker.node.clone())]);
    let name = probe_name(docker);
    let body = ContainerCreateBody {
        image: Some(pause_image().to_owned()),
        labels: Some(labels),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    let id = create::create_replacing(docker, &name, &body).await?;
    let start = docker.client().await?.start_container(&id, None);
    let started = with_timeout(WORK_TIMEOUT, "start the container", &name, start).await;
    lifecycle::remove(docker, &id).await?;
    started
}

/// Name of the test container.
fn probe_name(docker: &Docker) -> String {
    format!("k8s_probe_{}", docker.node)
}

#[cfg(test)]
mod tests;
