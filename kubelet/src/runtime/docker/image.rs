//! Images: what the engine holds, and getting more.

use std::time::Duration;

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::HeaderValue;

use super::Docker;
use super::errors::{ASK, late, meaning, within};
use crate::runtime::{Credentials, Error, Image, PullStep};

/// A pull that has shown no progress for so long is given up. Checking a layer of some GiB is silent for minutes.
const PULL_STANDSTILL: Duration = Duration::from_secs(300);

pub(super) async fn image(docker: &Docker, name: &str) -> Result<Option<Image>, Error> {
    let request = docker.client().await?.inspect_image(name);
    match within(ASK, "inspect the image", name, request).await {
        Ok(found) => Ok(Some(sort(found))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn sort(found: ImageInspect) -> Image {
    Image {
        id: found.id.unwrap_or_default(),
        repo_digest: found.repo_digests.and_then(|digests| digests.into_iter().next()),
        tags: found.repo_tags.unwrap_or_default(),
        user: found.config.and_then(|config| config.user).unwrap_or_default(),
        size_bytes: found.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
    }
}

pub(super) async fn pull(
    docker: &Docker,
    name: &str,
    credentials: Option<&Credentials>,
) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error> {
    const OPERATION: &str = "pull the image";
    let options = CreateImageOptions { from_image: Some(with_tag(name)), ..CreateImageOptions::default() };
    let progress = docker.client().await?.create_image(Some(options), None, credentials.map(told)).boxed();
    let name = name.to_owned();
    let steps = stream::unfold(Some(progress), move |state| {
        let name = name.clone();
        async move {
            let mut progress = state?;
            match tokio::time::timeout(PULL_STANDSTILL, progress.next()).await {
                Ok(Some(Ok(step))) => Some((Ok(sort_step(step)), Some(progress))),
                Ok(Some(Err(error))) => Some((Err(meaning(OPERATION, &name, error)), None)),
                Ok(None) => None,
                Err(_) => Some((Err(late(OPERATION, PULL_STANDSTILL)), None)),
            }
        }
    });
    Ok(steps.boxed())
}

/// Without a tag the engine would pull every tag there is.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn sort_step(step: CreateImageInfo) -> PullStep {
    let bytes = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let detail = step.progress_detail.unwrap_or_default();
    PullStep {
        layer: step.id.unwrap_or_default(),
        status: step.status.unwrap_or_default(),
        done_bytes: bytes(detail.current),
        total_bytes: bytes(detail.total),
    }
}

fn told(credentials: &Credentials) -> DockerCredentials {
    let filled = |text: &String| Some(text).filter(|text| !text.is_empty()).cloned();
    DockerCredentials {
        username: filled(&credentials.username),
        password: filled(&credentials.password),
        identitytoken: filled(&credentials.identity_token),
        serveraddress: filled(&credentials.server),
        ..DockerCredentials::default()
    }
}

/// bollard writes credentials in the standard base64 alphabet, dockerd reads the URL-safe one and silently takes
/// what it cannot read for no credentials at all.
pub(super) fn url_safe_credentials(mut request: BollardRequest) -> BollardRequest {
    if let Some(value) = request.headers_mut().get_mut("X-Registry-Auth") {
        let safe: Vec<u8> = value
            .as_bytes()
            .iter()
            .map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            })
            .collect();
        if let Ok(safe) = HeaderValue::from_bytes(&safe) {
            *value = safe;
        }
    }
    request
}

#[cfg(test)]
mod tests;
