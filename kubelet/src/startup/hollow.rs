//! Hollow node: a kubelet without engine, ports and network. Many of them fit into one process for load tests.

use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

use super::components::{self, Platform, Reporting};
use crate::options::Options;
use crate::runtime::Runtime;
use crate::runtime::instrumented::InstrumentedRuntime;
use crate::server::RootDir;

/// A hollow kubelet. It stops when this value is dropped. Until then its root directory is locked.
pub struct HollowKubelet {
    _tasks: Tasks,
    _root_dir: RootDir,
}

/// Starts a hollow kubelet with this runtime. Options for ports and the pod network are ignored.
///
/// # Errors
/// If the root directory is in use or not writable.
pub fn start(options: Options, runtime: Arc<dyn Runtime>) -> anyhow::Result<HollowKubelet> {
    let options = Options { api_address: None, healthz_address: None, ..options };
    let root_dir = RootDir::take(&options.root_dir)?;
    let reporting = Reporting::new(&options);
    let platform = Platform {
        runtime: InstrumentedRuntime::new(runtime, reporting.metrics.clone()),
        network: watch::channel(Ok(())).1,
        ranges: Vec::new(),
        members_sender: watch::channel(None).0,
        services_sender: None,
        policies: None,
        ingresses_sender: None,
        zone_sender: watch::channel(String::new()).0,
        cgroups: None,
        slices: None,
    };
    let mut tasks = Tasks::default();
    components::start(&options, &reporting, platform, &mut tasks);
    Ok(HollowKubelet { _tasks: tasks, _root_dir: root_dir })
}
