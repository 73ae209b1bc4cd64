//! Images: there when a container needs them, by its pull policy.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::runtime::{self, Image, Runtime};

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
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
            Self::Pull(_) => "ErrImagePull",
            Self::NeverPull(_) => "ErrImageNeverPull",
            Self::Inspect(_) => "ImageInspectError",
        }
    }
}

/// The images of this node.
pub struct Images {
    runtime: Arc<dyn Runtime>,
}

impl Images {
    /// Images of that engine.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime }
    }

    /// Makes sure the image is there; `pulling` is called when a pull begins.
    ///
    /// # Errors
    /// Each with its reason for the container's status.
    pub async fn ensure(
        &self,
        name: &str,
        policy: Policy,
        pulling: &(dyn Fn() + Sync),
    ) -> Result<(Image, Pulled), Error> {
        let here = self.runtime.image(name).await.map_err(Error::Inspect)?;
        match (policy, here) {
            (Policy::IfNotPresent | Policy::Never, Some(image)) => return Ok((image, Pulled::Present)),
            (Policy::Never, None) => return Err(Error::NeverPull(name.to_owned())),
            (Policy::Always, _) | (Policy::IfNotPresent, None) => {}
        }
        pulling();
        let mut progress = self.runtime.pull(name, None).await.map_err(Error::Pull)?;
        while let Some(line) = progress.next().await {
            line.map_err(Error::Pull)?;
        }
        let image = self.runtime.image(name).await.map_err(Error::Inspect)?;
        image.map(|image| (image, Pulled::Fetched)).ok_or_else(|| Error::NeverPull(name.to_owned()))
    }
}
