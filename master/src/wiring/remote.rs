//! Runs controllers or the scheduler against a remote master.

use std::path::Path;

use anyhow::Context as _;
use tokio::sync::watch;

use super::signals::Signals;
use crate::controllers::{self, Client, ControllerContext, Remote};
use crate::kubeconfig::Kubeconfig;
use crate::options::{Controllers, NodeLifecycle};
use crate::scheduler;

/// Runs the controllers against a remote master until a signal arrives.
///
/// # Errors
/// If the kubeconfig cannot be read or used.
pub async fn run_controllers(
    kubeconfig: &Path,
    which: Controllers,
    lifecycle: NodeLifecycle,
) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let (stop, stopped) = watch::channel(false);
    let (client, config) = connect(kubeconfig)?;
    let context = ControllerContext {
        root_ca: config.authority,
        authority: None,
        allocates_pod_cidrs: false,
        lifecycle,
    };
    let lease = controllers::leader_elector(&client, &identity(), &which, &context);
    let run = || controllers::run(client.clone(), which.clone(), context.clone());
    tokio::select! {
        () = lease.run(run, stopped) => {}
        () = signals.forward(stop) => {}
    }
    Ok(())
}

/// Runs the scheduler against a remote master until a signal arrives.
///
/// # Errors
/// If the kubeconfig or the configuration cannot be read or used.
pub async fn run_scheduler(kubeconfig: &Path, config: Option<&Path>) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let (stop, stopped) = watch::channel(false);
    let config = scheduler::Config::load(config)?;
    let (client, _) = connect(kubeconfig)?;
    let identity = identity();
    tokio::select! {
        () = scheduler::run(client, &identity, config, stopped) => {}
        () = signals.forward(stop) => {}
    }
    Ok(())
}

/// Identity of this process as lease holder, in the stock format.
fn identity() -> String {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host_name}_{}", uuid::Uuid::new_v4())
}

/// Returns a client for the master of a kubeconfig.
fn connect(kubeconfig: &Path) -> anyhow::Result<(Client, Kubeconfig)> {
    let shown = kubeconfig.display();
    let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("cannot read {shown}"))?;
    let config = Kubeconfig::read(&text)
        .with_context(|| format!("{shown} is not a kubeconfig from `master kubeconfig`: it needs a server, its CA, a client certificate and its key"))?;
    let client = controllers::connect(&Remote::from(&config))
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("cannot use {shown}"))?;
    Ok((client, config))
}
