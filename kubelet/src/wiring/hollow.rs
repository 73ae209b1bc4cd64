//! A node without an engine, a port and a network: all that a master sees of one, so that many fit into a process.

use std::sync::Arc;

use tokio::sync::watch;

use super::rooms::{self, Desk, Ground};
use crate::options::Options;
use crate::runtime::Runtime;
use crate::runtime::measured::Measured;
use crate::server::RootDir;

/// Begins a kubelet on that engine, in its directory, which it has for as long as the process runs. What the options say of ports
/// and of the network of pods does not count.
///
/// # Errors
/// When its directory is taken or cannot be written.
pub fn begin(options: Options, runtime: Arc<dyn Runtime>) -> anyhow::Result<RootDir> {
    let options = Options { api_address: None, healthz_address: None, ..options };
    let root_dir = RootDir::take(&options.root_dir)?;
    let desk = Desk::new(&options);
    let ground = Ground {
        runtime: Measured::new(runtime, desk.metrics.clone()),
        network: watch::channel(Ok(())).1,
        ranges: Vec::new(),
        told: watch::channel(None).0,
        cgroups: None,
        slices: None,
    };
    rooms::begin(&options, &desk, ground);
    Ok(root_dir)
}
