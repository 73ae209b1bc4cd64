//! Inspects and pulls images.

use std::time::Duration;

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::{CreateImageOptions, ListImagesOptions, RemoveImageOptions};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::HeaderValue;

use super::Docker;
use super::errors::{QUERY_TIMEOUT, WORK_TIMEOUT, classify, timed_out, with_timeout};
use crate::runtime::{Credentials, Error, Image, PullStep};

/// How long a pull may make no progress before it is aborted. The verification of a layer of some GiB takes minutes
/// without progress messages.
const PULL_STANDSTILL: Duration = Duration::from_secs(300);

pub(super) async fn image(docker: &Docker, name: &str) -> Result<Option<Image>, Error> {
    let request = docker.client().await?.inspect_image(name);
    match with_timeout(QUERY_TIMEOUT, "inspect the image", name, request).await {
        Ok(found) => Ok(Some(convert(found))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All images of the engine.
pub(super) async fn images(docker: &Docker) -> Result<Vec<Image>, Error> {
    let request = docker.client().await?.list_images(None::<ListImagesOptions>);
    let found = with_timeout(QUERY_TIMEOUT, "list images", "images", request).await?;
    let images = found.into_iter().map(|image| Image {
        id: image.id,
        repo_digest: image.repo_digests.into_iter().next(),
        tags: image.repo_tags.into_iter().filter(|tag| !tag.starts_with("<none>")).collect(),
        user: String::new(),
        size_bytes: u64::try_from(image.size).unwrap_or_default(),
    });
    Ok(images.collect())
}

/// Removes a name of an image, and the image with its last name. Without `force`, so the engine refuses it while a
/// container uses the image.
pub(super) async fn remove(docker: &Docker, name: &str) -> Result<(), Error> {
    let request = docker.client().await?.remove_image(name, None::<RemoveImageOptions>, None);
    match with_timeout(WORK_TIMEOUT, "remove the image", name, request).await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn convert(found: ImageInspect) -> Image {
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
    let progress =
        docker.client().await?.create_image(Some(options), None, credentials.map(docker_credentials)).boxed();
    let name = name.to_owned();
    let steps = stream::unfold(Some(progress), move |state| {
        let name = name.clone();
        async move {
            let mut progress = state?;
            match tokio::time::timeout(PULL_STANDSTILL, progress.next()).await {
                Ok(Some(Ok(step))) => Some((Ok(convert_step(step)), Some(progress))),
                Ok(Some(Err(error))) => Some((Err(classify(OPERATION, &name, error)), None)),
                Ok(None) => None,
                Err(_) => Some((Err(timed_out(OPERATION, PULL_STANDSTILL)), None)),
            }
        }
    });
    Ok(steps.boxed())
}

/// Adds the tag `latest` to a name without a tag, because the engine would otherwise pull all tags.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn convert_step(step: CreateImageInfo) -> PullStep {
    let bytes = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let detail = step.progress_detail.unwrap_or_default();
    PullStep {
        layer: step.id.unwrap_or_default(),
        status: step.status.unwrap_or_default(),
        done_bytes: bytes(detail.current),
        total_bytes: bytes(detail.total),
    }
}

fn docker_credentials(credentials: &Credentials) -> DockerCredentials {
    let filled = |text: &String| Some(text).filter(|text| !text.is_empty()).cloned();
    DockerCredentials {
        username: filled(&credentials.username),
        password: filled(&credentials.password),
        identitytoken: filled(&credentials.identity_token),
        serveraddress: filled(&credentials.server),
        ..DockerCredentials::default()
    }
}

/// Converts the header with credentials to URL-safe base64. bollard uses the standard alphabet, and dockerd
/// silently ignores text that it cannot decode.
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
mod tests {
    //! Tests of image names and credentials.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn pull_requests_one_tag() {
        for (name, pulled) in [
            ("busybox", "busybox:latest"),
            ("localhost:5000/busybox", "localhost:5000/busybox:latest"),
            ("localhost:5000/busybox:1", "localhost:5000/busybox:1"),
            ("busybox@sha256:12", "busybox@sha256:12"),
        ] {
            assert_eq!(with_tag(name), pulled);
        }
    }

    #[test]
    fn registry_credentials_use_url_safe_base64() {
        let body = http_body_util::Either::Left(http_body_util::Full::default());
        let request =
            http::Request::post("/images/create").header("X-Registry-Auth", "ab+/cd==").body(body).unwrap();
        assert_eq!(url_safe_credentials(request).headers()["X-Registry-Auth"], "ab-_cd==");
    }
}
