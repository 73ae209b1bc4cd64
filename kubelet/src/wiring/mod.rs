//! Creates the rooms, their channels and their tasks; decides nothing about pods.

mod dispatch;
mod engine;
#[cfg(feature = "fake")]
pub mod hollow;
mod network;
mod renamed;
mod rooms;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::rooms::{Desk, Ground, Rooms};
use crate::cgroups::{Cgroups, Slices};
use crate::identity;
use crate::node;
use crate::options::Options;
use crate::runtime::Runtime;
use crate::runtime::docker::{self, Docker};
use crate::runtime::measured::Measured;
use crate::server::{self, Context, RootDir};

/// Between two tries to have the port of the node's API.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// Runs a kubelet until it is told to stop; containers are left running.
///
/// # Errors
/// When its directory or its node's name is taken, its directory is another node's or cannot be written, or the engine's address
/// makes no sense.
pub async fn run(options: Options) -> anyhow::Result<()> {
    announce(&options);
    let root_dir = RootDir::take(&options.root_dir)?;
    let _claim = node::Claim::take(&options.node_name, &options.docker_endpoint, &options.root_dir)?;
    let settings = docker::Settings {
        log_max_bytes: options.container_log_max_bytes,
        log_max_files: options.container_log_max_files,
    };
    renamed::settle(&options, &settings).await?;
    let (stop, stopped) = watch::channel(false);
    let desk = Desk::new(&options);
    let docker = Docker::connect(&options.docker_endpoint, &options.node_name, settings)?;
    let runtime: Arc<dyn Runtime> = Measured::new(Arc::new(docker), desk.metrics.clone());
    // From here on there is something to let go of.
    tokio::spawn(until_told(stop));
    let (told, members) = watch::channel(None);
    let members = options.cluster.is_some().then_some(members);
    let network = network::connect(&options, runtime, &desk.outbox, members, &stopped).await?;
    let runtime = network.runtime.clone();
    let is_local = options.docker_endpoint.starts_with("unix:");
    let ground = Ground {
        runtime: runtime.clone(),
        network: network.health.clone(),
        ranges: network.ranges(),
        told,
        cgroups: is_local.then(Cgroups::of_machine).flatten().map(Arc::new),
        slices: is_local.then(Slices::of_machine).flatten().map(Arc::new),
    };
    let Rooms { journal, stats, written } = rooms::begin(&options, &desk, ground);
    let Desk { board, health, metrics, .. } = desk;
    if let Some(address) = options.healthz_address {
        let (health, stopped) = (health.clone(), stopped.clone());
        tokio::spawn(async move {
            if let Err(error) = server::serve_health(address, &health, stopped).await {
                tracing::error!(%address, %error, "cannot serve /healthz; see --healthz-port");
            }
        });
    }
    let configuration = Arc::new(options.kubelet_configuration());
    let streaming_idle = options.streaming_idle;
    let context =
        Context { board: board.clone(), runtime, health, metrics, stats, configuration, streaming_idle };
    if let Some(address) = options.api_address
        && let Err(error) = serve_nodes_api(&options, address, &context, &stopped, written).await
    {
        network.close().await;
        return Err(error);
    }
    let served = server::serve_socket(&root_dir, &context, stopped).await;
    journal.write_last(board).await;
    network.close().await;
    served.context("cannot serve the node's API")
}

/// Serves the node's API over HTTPS; a port that cannot be had is no reason not to run pods. `written` changes when the node has
/// written a file of its identity.
async fn serve_nodes_api(
    options: &Options,
    address: SocketAddr,
    context: &Context,
    stopped: &watch::Receiver<bool>,
    written: Option<watch::Receiver<()>>,
) -> anyhow::Result<()> {
    let files = server::Files {
        given: options.tls_files.clone(),
        current: options.cert_dir.join(identity::serving_file()),
        client_authorities: options.client_ca_file.clone(),
        cluster_authorities: options.cert_dir.join(identity::AUTHORITIES),
    };
    let addresses = node::facts(options).host_ips;
    let (serving, config) = server::Serving::open(files, &options.node_name, &addresses).await?;
    if options.client_ca_file.is_none() && options.cluster.is_none() {
        tracing::info!(%address, "the node's API answers nobody over HTTPS but for its health; see --client-ca-file");
        let joined = options.root_dir.join("kubeconfig");
        if joined.exists() {
            let joined = joined.display();
            tracing::warn!(
                "this node has joined a cluster; give --kubeconfig {joined} to belong to it, or remove that file"
            );
        }
    }
    let (swap, config) = watch::channel(config);
    tokio::spawn(serving.follow(swap, written));
    let (context, stopped) = (context.clone(), stopped.clone());
    // Where it can be had at once, it is there before anything says that this kubelet runs.
    let first = TcpListener::bind(address).await;
    tokio::spawn(async move {
        let listener = match first {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%address, %error, "cannot serve the node's API over HTTPS yet, trying again; see --address and --port");
                bound(address).await
            }
        };
        server::serve_https(listener, &context, config, stopped).await;
    });
    Ok(())
}

/// The port of the node's API, as soon as whoever has it lets it go.
async fn bound(address: SocketAddr) -> TcpListener {
    loop {
        tokio::time::sleep(BIND_AGAIN).await;
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
    }
}

/// Says first of all which node this is, on what, and what it watches.
fn announce(options: &Options) {
    let Options { node_name: node, docker_endpoint: engine, .. } = options;
    let root_dir = options.root_dir.display();
    let path = options.pod_manifest_path.as_ref().map(|path| path.display().to_string());
    let cluster = options.cluster.as_ref().map(|_| "its cluster".to_owned());
    let watched: Vec<String> = path.into_iter().chain(options.manifest_url.clone()).chain(cluster).collect();
    if watched.is_empty() {
        tracing::warn!(
            node, engine, %root_dir,
            "nothing is watched: no source of pods is given (--pod-manifest-path, --manifest-url), so that nothing is \
             started and nothing ended"
        );
    } else {
        tracing::info!(node, engine, %root_dir, "runs the pods of {}", watched.join(" and "));
    }
}

/// Waits for SIGTERM or SIGINT.
async fn until_told(stop: watch::Sender<bool>) {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot wait for signals; end this process by SIGKILL");
            return std::future::pending().await;
        }
    }
    tracing::info!("stopping; containers are left running");
    stop.send_replace(true);
}
