//! Image manager: makes images available according to the pull policy, with the credentials of pod and node.

pub mod collector;
pub mod gc;
pub mod keyring;
pub mod name;
mod node;
mod progress;
mod pulls;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::metrics::Metrics;
use crate::observed::Timestamp;
use crate::runtime::{self, Image, Runtime};
pub use collector::{GcError, ImageCollector};
use keyring::Keyring;
use name::{ImageName, InvalidName};
pub use progress::Progress;

/// `imagePullPolicy` of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Pull before each container creation.
    Always,
    /// Pull if the engine does not have the image.
    IfNotPresent,
    /// Never pull.
    Never,
}

impl Policy {
    /// Parses `imagePullPolicy`. It is never empty, because defaults are set before.
    pub fn of(word: &str) -> Self {
        match word {
            "Always" => Self::Always,
            "Never" => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// How an image became available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The engine already had the image.
    Present,
    /// The image was pulled.
    Fetched,
}

/// The reason why an image is not available.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The image name is invalid.
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    /// The pull failed.
    #[error("{0}")]
    Pull(runtime::Error),
    /// The image is missing and the policy is `Never`.
    #[error("container image \"{0}\" is not present with pull policy of Never")]
    NeverPull(String),
    /// The engine could not inspect the image.
    #[error("{0}")]
    Inspect(runtime::Error),
}

impl Error {
    /// The reason for `state.waiting.reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName(_) => "InvalidImageName",
            Self::Pull(_) => "ErrImagePull",
            Self::NeverPull(_) => "ErrImageNeverPull",
            Self::Inspect(_) => "ImageInspectError",
        }
    }
}

/// The image manager of this node.
pub struct Images {
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    pulls: pulls::Pulls,
    node: node::NodeKeys,
    collector: Arc<ImageCollector>,
}

impl Images {
    /// Creates an image manager that runs up to `pulls_at_once` pulls. `root_dir` may contain a `config.json` with
    /// credentials.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        pulls_at_once: usize,
        root_dir: &Path,
        metrics: Arc<Metrics>,
        collector: Arc<ImageCollector>,
    ) -> Self {
        let pulls = pulls::Pulls::new(runtime.clone(), pulls_at_once);
        Self { runtime, metrics, pulls, node: node::NodeKeys::of(root_dir), collector }
    }

    /// Makes an image available. `pulling` is called when a pull starts, and on progress. Credentials of the pod
    /// are tried first, then those of the node, then none.
    ///
    /// # Errors
    /// If the image cannot be provided. The error has the reason for the container status.
    pub async fn ensure(
        &self,
        name: &str,
        policy: Policy,
        pod: &Keyring,
        pulling: &(dyn Fn(&Progress) + Sync),
    ) -> Result<(Image, Pulled), Error> {
        let parsed = ImageName::parse(name)?;
        let here = self.runtime.image(name).await.map_err(Error::Inspect)?;
        let id_before = here.as_ref().map(|image| image.id.clone());
        match (policy, here) {
            (Policy::IfNotPresent | Policy::Never, Some(image)) => return Ok((image, Pulled::Present)),
            (Policy::Never, None) => return Err(Error::NeverPull(name.to_owned())),
            (Policy::Always, _) | (Policy::IfNotPresent, None) => {}
        }
        let mut credentials = pod.find(&parsed);
        credentials.extend(self.node.find(&parsed).await);
        let began = Instant::now();
        self.pulls.pull(&parsed.to_pull().to_string(), credentials, pulling).await.map_err(Error::Pull)?;
        self.metrics.image_pulled(began.elapsed().as_secs_f64());
        let image = self.runtime.image(name).await.map_err(Error::Inspect)?;
        let vanished =
            || Error::Inspect(runtime::Error::NotFound { what: format!("the image {name} just pulled") });
        let image = image.ok_or_else(vanished)?;
        // An image that was here before was pulled by another user of the engine.
        if id_before.as_ref() != Some(&image.id) {
            self.collector.pulled(&image.id, parsed.to_pull().to_string(), Timestamp::now()).await;
        }
        Ok((image, Pulled::Fetched))
    }
}
