//! One task a pod: take the latest, plan, apply, publish, wait.
//!
//! Nothing is decided here: `plan` says what to do, the engine says what is, and this room carries both.

mod apply;
mod create;
mod finished;
mod hashes;
mod hooks;
mod meter;
mod orphan;
pub mod pool;
mod record;
mod refers;
mod run;
mod stop;
mod tell;
mod under_way;

use std::path::PathBuf;
use std::sync::Arc;

use api::references::References;
use tokio::sync::watch;

use crate::cgroups::{Cgroups, Slices};
use crate::desired::DesiredPod;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::plan::{BackOff, Ending};
use crate::report::Outbox;
use crate::runtime::Runtime;
use crate::spec::Facts;
use crate::volumes::Volumes;
pub use finished::Finished;
pub use record::nodes;

/// What every worker of a node works with.
pub struct Tools {
    /// The engine.
    pub runtime: Arc<dyn Runtime>,
    /// What is there.
    pub observer: Arc<Observer>,
    /// Images.
    pub images: Arc<Images>,
    /// Cgroups of pods, `None` where there are none.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The same under systemd, `None` where it does not run.
    pub slices: Option<Arc<Slices>>,
    /// Volumes.
    pub volumes: Arc<Volumes>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where reports and events go.
    pub outbox: Arc<Outbox>,
    /// Facts of the node.
    pub facts: watch::Receiver<Arc<Facts>>,
    /// Pods that have run to their end.
    pub finished: Finished,
    /// Times of the container back-off.
    pub back_off: BackOff,
    /// State on disk.
    pub root_dir: PathBuf,
    /// The image of sandboxes.
    pub sandbox_image: String,
}

/// What a worker is to do with its pod.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The pod as it is wanted, or as it was last wanted when it is ending.
    pub pod: Arc<DesiredPod>,
    /// ConfigMaps and Secrets it may refer to.
    pub references: Arc<References>,
    /// Set when it is to be ended and removed; never unset again.
    pub ending: Option<Ending>,
}
