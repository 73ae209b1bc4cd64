//! Starting, signalling, waiting for and removing containers.

use std::time::Duration;

use bollard::query_parameters::{KillContainerOptions, RemoveContainerOptions};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::errors::{WORK, is_gone, within};
use super::{Docker, create, look, without};
use crate::runtime::{Error, Started, labels};

/// A start meets each part that the engine may refuse at most once.
const TRIES: usize = 4;

pub(super) async fn start(docker: &Docker, id: &str) -> Result<Started, Error> {
    let client = docker.client().await?;
    let mut id = id.to_owned();
    {
        let _turn = docker.starts.acquire().await;
        let mut tries = 0;
        loop {
            tries += 1;
            match within(WORK, "start the container", &id, client.start_container(&id, None)).await {
                Ok(()) => break,
                Err(Error::Refused { operation, message }) if tries < TRIES => {
                    let refused = Error::Refused { operation, message: message.clone() };
                    id = again(docker, &id, &message).await?.ok_or(refused)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let found = look::inspect(docker, &id).await?;
    let label = found.config.as_ref().and_then(|config| config.labels.as_ref()?.get(labels::DONE_WITHOUT));
    let without = without::done_without(label);
    Ok(Started { seen: look::seen(docker, &id, found).await?, without })
}

/// Makes the container again, under the same name, without what the engine refused to start it with; `None` when
/// its refusal was about something else.
async fn again(docker: &Docker, id: &str, message: &str) -> Result<Option<String>, Error> {
    let found = look::inspect(docker, id).await?;
    let Some(part) = without::refused_part(message, found.host_config.as_ref()) else { return Ok(None) };
    docker.abilities.learn(part);
    let name = found.name.clone().unwrap_or_default();
    let lacking = docker.abilities.lacking(docker).await;
    let Some(body) = without::again_without(found, part, lacking) else { return Ok(None) };
    remove(docker, id).await?;
    create::create(docker, name.trim_start_matches('/'), &body).await.map(Some)
}

pub(super) async fn signal(docker: &Docker, id: &str, signal: &str) -> Result<(), Error> {
    let options = KillContainerOptions { signal: signal.to_owned() };
    let request = docker.client().await?.kill_container(id, Some(options));
    match within(WORK, "signal the container", id, request).await {
        Err(Error::Refused { message, .. }) if message.contains("is not running") => Ok(()),
        done => done,
    }
}

/// Between two waits for the end of a container when the engine cut the first one off.
const WAIT_AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn wait(docker: &Docker, id: &str, at_most: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + at_most;
    loop {
        let mut ends = std::pin::pin!(docker.client().await?.wait_container(id, None));
        // bollard makes an error of every code but 0, and an engine that has gone away ends the wait too: whether the
        // container has ended is for a look to tell.
        let waited = tokio::time::timeout_at(deadline, ends.next()).await;
        match look::inspect(docker, id).await {
            Ok(found) if !running(&found) => return Ok(true),
            Err(error) if is_gone(&error) => return Ok(true),
            Ok(_) if waited.is_err() => return Ok(false),
            Err(error) if waited.is_err() => return Err(error),
            // The wait was cut off before its time: the rest of it is still due.
            Ok(_) | Err(_) => tokio::time::sleep(WAIT_AGAIN).await,
        }
    }
}

fn running(found: &bollard::models::ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or_default()
}

pub(super) async fn remove(docker: &Docker, id: &str) -> Result<(), Error> {
    // Volumes that an image asked for have no name and are nobody's once the container is gone.
    let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
    let request = docker.client().await?.remove_container(id, Some(options));
    match within(WORK, "remove the container", id, request).await {
        Err(error) if is_gone(&error) => Ok(()),
        Err(Error::Refused { message, .. }) if message.contains("is already in progress") => {
            gone(docker, id).await
        }
        done => done,
    }
}

/// Waits for a removal that somebody else began.
async fn gone(docker: &Docker, id: &str) -> Result<(), Error> {
    let options = bollard::query_parameters::WaitContainerOptions { condition: "removed".to_owned() };
    let mut removed = std::pin::pin!(docker.client().await?.wait_container(id, Some(options)));
    match tokio::time::timeout(WORK, removed.next()).await {
        Ok(_) => Ok(()),
        Err(_) => Err(super::errors::late("remove the container", WORK)),
    }
}
