//! Images: there when a container needs them, by its pull policy, with the credentials of its pod and its node.

pub mod keyring;
pub mod name;
mod node;
mod progress;
mod pulls;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::metrics::Metrics;
use crate::runtime::{self, Image, Runtime};
use keyring::Keyring;
use name::{ImageName, InvalidName};
pub use progress::Progress;

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each time a container is made.
    Always,
    /// When the engine does not hold it.
    IfNotPresent,
    /// Never.
    Never,
}

impl Policy {
    /// Reads `imagePullPolicy`; defaulting has filled it in.
    pub fn of(word: &str) -> Self {
        match word {
            "Always" => Self::Always,
            "Never" => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// Where the image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The engine held it.
    Present,
    /// It was pulled.
    Fetched,
}

/// Why an image is not there.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No image can be called so.
    #[error("{0}")]
    InvalidName(#[from] InvalidName),
    /// The registry or the engine refused.
    #[error("{0}")]
    Pull(runtime::Error),
    /// It is not here and must not be pulled.
    #[error("container image \"{0}\" is not present with pull policy of Never")]
    NeverPull(String),
    /// The engine could not be asked.
    #[error("{0}")]
    Inspect(runtime::Error),
}

impl Error {
    /// `state.waiting.reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName(_) => "InvalidImageName",
            Self::Pull(_) => "ErrImagePull",
            Self::NeverPull(_) => "ErrImageNeverPull",
            Self::Inspect(_) => "ImageInspectError",
        }
    }
}

/// The images of this node.
pub struct Images {
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    pulls: pulls::Pulls,
    node: node::NodeKeys,
}

impl Images {
    /// Images of that engine, so many pulled at once; `root_dir` may hold a `config.json` with credentials.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        pulls_at_once: usize,
        root_dir: &Path,
        metrics: Arc<Metrics>,
    ) -> Self {
        let pulls = pulls::Pulls::new(runtime.clone(), pulls_at_once);
        Self { runtime, metrics, pulls, node: node::NodeKeys::of(root_dir) }
    }

    /// Makes sure the image is there. `pulling` is called when a pull begins and whenever it has got further; the
    /// pod's credentials are tried before the node's, and nobody's last.
    ///
    /// # Errors
    /// Each with its reason for the container's status.
    pub async fn ensure(
        &self,
        name: &str,
        policy: Policy,
        pod: &Keyring,
        pulling: &(dyn Fn(&Progress) + Sync),
    ) -> Result<(Image, Pulled), Error> {
        let parsed = ImageName::parse(name)?;
        let here = self.runtime.image(name).await.map_err(Error::Inspect)?;
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
        image.map(|image| (image, Pulled::Fetched)).ok_or_else(vanished)
    }
}
