//! Starts, signals, waits for and removes containers.

use std::time::Duration;

use bollard::query_parameters::{KillContainerOptions, RemoveContainerOptions};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::errors::{WORK_TIMEOUT, is_gone, with_timeout};
use super::{Docker, create, inspect, omitted};
use crate::runtime::{Error, Refusal, Started, labels};

/// Maximum number of attempts to start a container. Each feature that the engine may refuse costs at most one.
const TRIES: usize = 4;

pub(super) async fn start(docker: &Docker, id: &str) -> Result<Started, Error> {
    let client = docker.client().await?;
    let mut id = id.to_owned();
    {
        let _turn = docker.starts.acquire().await;
        let mut tries = 0;
        loop {
            tries += 1;
            match with_timeout(WORK_TIMEOUT, "start the container", &id, client.start_container(&id, None))
                .await
            {
                Ok(()) => break,
                Err(error) => {
                    let Error::Refused { cause, .. } = error else { return Err(error) };
                    if tries == TRIES {
                        return Err(error);
                    }
                    id = recreate_without(docker, &id, cause).await?.ok_or(error)?;
                }
            }
        }
    }
    let found = inspect::inspect_raw(docker, &id).await?;
    let label = found.config.as_ref().and_then(|config| config.labels.as_ref()?.get(labels::OMITTED_PARTS));
    let omitted = omitted::omitted_parts(label);
    Ok(Started { seen: inspect::seen(docker, &id, found).await?, omitted })
}

/// Recreates a container under the same name, without the feature that the engine refused. `None` if the refusal
/// has another cause.
async fn recreate_without(docker: &Docker, id: &str, cause: Refusal) -> Result<Option<String>, Error> {
    let found = inspect::inspect_raw(docker, id).await?;
    let Some(part) = omitted::refused_part(cause, found.host_config.as_ref()) else { return Ok(None) };
    if cause == Refusal::ChildDied && !docker.restrictions.refuses_scores(docker).await.unwrap_or_default() {
        return Ok(None);
    }
    docker.restrictions.learn(part);
    let name = found.name.clone().unwrap_or_default();
    let lacking = docker.restrictions.lacking(docker).await;
    let Some(body) = omitted::body_without(found, part, lacking) else { return Ok(None) };
    remove(docker, id).await?;
    create::create(docker, name.trim_start_matches('/'), &body).await.map(Some)
}

pub(super) async fn signal(docker: &Docker, id: &str, signal: &str) -> Result<(), Error> {
    let options = KillContainerOptions { signal: signal.to_owned() };
    let request = docker.client().await?.kill_container(id, Some(options));
    match with_timeout(WORK_TIMEOUT, "signal the container", id, request).await {
        Err(Error::Refused { cause: Refusal::Conflict, .. }) => Ok(()),
        done => done,
    }
}

/// Delay before the next wait if the engine ended a wait early.
const WAIT_AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn wait(docker: &Docker, id: &str, at_most: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + at_most;
    loop {
        let mut ends = std::pin::pin!(docker.client().await?.wait_container(id, None));
        // bollard reports exit codes other than 0 as errors, and an engine failure also ends the wait. Only an inspection shows
        // whether the container has exited.
        let waited = tokio::time::timeout_at(deadline, ends.next()).await;
        match inspect::inspect_raw(docker, id).await {
            Ok(found) if !running(&found) => return Ok(true),
            Err(error) if is_gone(&error) => return Ok(true),
            Ok(_) if waited.is_err() => return Ok(false),
            Err(error) if waited.is_err() => return Err(error),
            // The wait ended before the container and before the deadline.
            Ok(_) | Err(_) => tokio::time::sleep(WAIT_AGAIN).await,
        }
    }
}

fn running(found: &bollard::models::ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or_default()
}

pub(super) async fn remove(docker: &Docker, id: &str) -> Result<(), Error> {
    // Also removes the anonymous volumes of the image.
    let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
    let request = docker.client().await?.remove_container(id, Some(options));
    match with_timeout(WORK_TIMEOUT, "remove the container", id, request).await {
        Err(error) if is_gone(&error) => Ok(()),
        Err(Error::Refused { cause: Refusal::Conflict, .. }) => wait_until_removed(docker, id).await,
        done => done,
    }
}

/// Waits for a removal that is in progress.
async fn wait_until_removed(docker: &Docker, id: &str) -> Result<(), Error> {
    let options = bollard::query_parameters::WaitContainerOptions { condition: "removed".to_owned() };
    let mut removed = std::pin::pin!(docker.client().await?.wait_container(id, Some(options)));
    match tokio::time::timeout(WORK_TIMEOUT, removed.next()).await {
        Ok(_) => Ok(()),
        Err(_) => Err(super::errors::timed_out("remove the container", WORK_TIMEOUT)),
    }
}
