//! Startup of the kubelet: creates components and channels, and starts their tasks.

mod components;
#[cfg(feature = "fake")]
pub mod hollow;
mod network_policy;
mod node_rename;
mod node_status;
mod pod_config;
mod pod_network;
mod service_manager;
mod service_proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use apiserver::tasks::{TaskError, Tasks};
use command::ServiceManager;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use self::components::{Components, Platform, Reporting};
use crate::cgroups::{Cgroups, Slices};
use crate::cluster::ingresses::IngressSnapshot;
use crate::cluster::services::ServiceSnapshot;
use crate::health::Health;
use crate::identity;
use crate::ingress;
use crate::local_ca;
use crate::network::{Members, record_event};
use crate::node;
use crate::options::{CLUSTER_AUTHORITIES, Options};
use crate::report::{Outbox, Severity};
use crate::runtime::docker::{self, Docker};
use crate::runtime::instrumented::InstrumentedRuntime;
use crate::server::{self, Context, RootDir};

/// Delay between attempts to bind the HTTPS port.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the kubelet until it receives a signal. Containers keep running.
///
/// # Errors
/// If the root directory or the node name is in use, or the engine endpoint is invalid. If the root directory
/// belongs to another node or is not writable.
pub async fn run(options: Options) -> anyhow::Result<()> {
    announce(&options);
    let manager = ServiceManager::of_environment();
    let root_dir = RootDir::take(&options.root_dir)?;
    let _node_lock =
        node::NodeLock::acquire(&options.node_name, &options.docker_endpoint, &options.root_dir)?;
    let settings = docker::Settings {
        log_max_bytes: options.container_log_max_bytes,
        log_max_files: options.container_log_max_files,
    };
    node_rename::check_name(&options, &settings).await?;
    let reporting = Reporting::new(&options);
    let docker = Docker::connect(&options.docker_endpoint, &options.node_name, settings)?;
    let runtime = InstrumentedRuntime::new(Arc::new(docker), reporting.metrics.clone());
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Tasks::default();
    // From here on, a stop has to release resources.
    tasks.spawn("signals", wait_for_shutdown(stop));
    let (members_sender, members) = watch::channel(None);
    let members = options.cluster.is_some().then_some(members);
    let network =
        pod_network::connect(&options, runtime, &reporting.outbox, members, &stopped, &mut tasks).await?;
    let options = network.with_node_dns(options);
    report_resolv_conf(&options, &reporting.outbox);
    let (services_sender, services) = watch::channel(Arc::default());
    let (native, outbox) = (network.native(), &reporting.outbox);
    let (zone_sender, zone) = watch::channel(service_proxy::initial_zone(&options));
    let proxy = service_proxy::start(&options, native, services.clone(), zone, outbox, &mut tasks).await?;
    network.start_dns(&options, services.clone(), outbox, &mut tasks)?;
    let (ingresses_sender, ingress) = start_ingress(&options, services, &reporting, &mut tasks)?;
    let needs_services = proxy.is_some() || options.node_dns || ingress.is_some();
    let services_sender = needs_services.then_some(services_sender);
    let (enforcement, policies) = network_policy::prepare(&options, network.native()).await.unzip();
    let senders = (services_sender, ingresses_sender, zone_sender);
    let mut platform = platform(&options, &network, members_sender, senders);
    platform.policies = policies;
    let components = components::start(&options, &reporting, platform, &mut tasks);
    let desired = components.desired.clone();
    let (engine, health) = (components.engine.clone(), reporting.health.clone());
    let state = service_manager::State { engine, desired: desired.clone(), health, stopped: stopped.clone() };
    service_manager::inform(manager, state, &mut tasks);
    let enforcement = enforcement.map(|one| one.start(&options, desired, &reporting.outbox, &mut tasks));
    let served = serve(&options, &root_dir, &network, reporting, components, &mut tasks, stopped).await;
    if let Some(ingress) = ingress {
        ingress.stop().await;
    }
    // While they run, they would create their tables again after the network has removed them.
    if let Some(proxy) = proxy {
        proxy.stop().await;
    }
    if let Some(enforcement) = enforcement {
        enforcement.stop().await;
    }
    network.close().await;
    served
}

/// A task that keeps packet rules up to date until it is stopped.
struct RuleTask {
    stop: watch::Sender<bool>,
    /// Closed when the task has ended.
    ended: oneshot::Receiver<()>,
}

impl RuleTask {
    /// Spawns the task. `run` gets the value that becomes true when the task must stop.
    fn spawn<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        tasks: &mut Tasks,
        run: impl FnOnce(watch::Receiver<bool>) -> F,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let running = run(stopped);
        tasks.spawn(name, async move {
            running.await;
            drop(end);
        });
        Self { stop, ended }
    }

    /// Stops the task. Afterwards it changes no rules, so its tables can be removed.
    async fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.ended.await;
    }
}

/// Records an event if the name servers of the host cannot be read. Pods with `dnsPolicy: Default` need them.
fn report_resolv_conf(options: &Options, outbox: &Arc<Outbox>) {
    if let Err(error) = node::host_dns(&options.resolv_conf) {
        let text = format!(
            "pods that use the name servers of this node do not start with the kubelet's pod network: {error}; \
             see --resolv-conf"
        );
        record_event(outbox, &options.node_name, Severity::Warning, "ResolvConfFailed", text);
    }
}

/// Sender of the Ingresses. `None` if the kubelet serves none.
type IngressSender = Option<watch::Sender<Arc<IngressSnapshot>>>;
/// Senders of the Services, of the Ingresses, and of the zone of the node.
type Senders = (Option<watch::Sender<Arc<ServiceSnapshot>>>, IngressSender, watch::Sender<String>);

/// Starts the Ingress controller, if it is enabled. Only a cluster has Ingresses.
fn start_ingress(
    options: &Options,
    services: watch::Receiver<Arc<ServiceSnapshot>>,
    reporting: &Reporting,
    tasks: &mut Tasks,
) -> anyhow::Result<(IngressSender, Option<ingress::Running>)> {
    let Some(addresses) = options.ingress else { return Ok((None, None)) };
    anyhow::ensure!(
        options.cluster.is_some(),
        "--ingress needs a cluster, because a lone node has no Ingresses; join one with --bootstrap"
    );
    let (sender, ingresses) = watch::channel(Arc::default());
    let settings = ingress::Settings {
        node: options.node_name.clone(),
        http: addresses.http,
        https: addresses.https,
        ingresses,
        services,
        metrics: reporting.metrics.clone(),
        outbox: reporting.outbox.clone(),
    };
    let running = ingress::start(settings, tasks)
        .map_err(|error| anyhow::anyhow!("--ingress: cannot create the default certificate: {error}"))?;
    Ok((Some(sender), Some(running)))
}

/// Prepares the runtime and its network. Cgroups exist only if the engine is on this machine.
fn platform(
    options: &Options,
    network: &pod_network::Connected,
    members_sender: watch::Sender<Option<Arc<Members>>>,
    (services_sender, ingresses_sender, zone_sender): Senders,
) -> Platform {
    let is_local = options.docker_endpoint.starts_with("unix:");
    Platform {
        runtime: network.runtime.clone(),
        network: network.health.clone(),
        ranges: network.ranges(),
        members_sender,
        services_sender,
        policies: None,
        ingresses_sender,
        zone_sender,
        cgroups: is_local.then(Cgroups::of_machine).flatten().map(Arc::new),
        slices: is_local.then(Slices::of_machine).flatten().map(Arc::new),
    }
}

/// Serves the node's API until the kubelet stops, and saves the latest events.
async fn serve(
    options: &Options,
    root_dir: &RootDir,
    network: &pod_network::Connected,
    reporting: Reporting,
    components: Components,
    tasks: &mut Tasks,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Reporting { status_manager, health, metrics, .. } = reporting;
    if let Some(address) = options.healthz_address {
        tasks.spawn("healthz server", serve_healthz(address, health.clone(), stopped.clone()));
    }
    let context = Context {
        status_manager: status_manager.clone(),
        api: components.api,
        runtime: network.runtime.clone(),
        health,
        metrics,
        stats: components.stats,
        configuration: Arc::new(options.kubelet_configuration()),
        volumes: components.volumes,
        streaming_idle: options.streaming_idle,
    };
    if let Some(address) = options.api_address {
        serve_nodes_api(options, address, &context, &stopped, tasks).await?;
    }
    let served = tokio::select! {
        served = server::serve_socket(root_dir, &context, stopped.clone()) => {
            served.context("cannot serve the node's API")
        }
        error = failure(tasks, &stopped) => Err(error.into()),
    };
    components.event_log.write_last(status_manager).await;
    served
}

/// Waits until a task ends while the kubelet is not stopping, and returns its error.
async fn failure(tasks: &mut Tasks, stopped: &watch::Receiver<bool>) -> TaskError {
    loop {
        let error = tasks.first_end().await;
        if !*stopped.borrow() {
            return error;
        }
    }
}

/// Serves `/healthz` until the kubelet stops. Pods run even if this fails.
async fn serve_healthz(address: SocketAddr, health: Arc<Health>, mut stopped: watch::Receiver<bool>) {
    if let Err(error) = server::serve_health(address, &health, stopped.clone()).await {
        tracing::error!(%address, %error, "cannot serve /healthz; see --healthz-port");
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }
}

/// Serves the node's API over HTTPS. If the port is in use, it retries, and pods run meanwhile.
async fn serve_nodes_api(
    options: &Options,
    address: SocketAddr,
    context: &Context,
    stopped: &watch::Receiver<bool>,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let files = server::Files {
        configured: options.tls_files.clone(),
        current: options.cert_dir.join(identity::serving_file()),
        client_authorities: options.client_ca_file.clone(),
        cluster_authorities: options.cert_dir.join(CLUSTER_AUTHORITIES),
        local_ca: local_ca::Files::of(&options.root_dir),
    };
    let mut addresses = node::facts(options).host_ips;
    // A client that connects to `--address` verifies that the certificate contains it.
    if !address.ip().is_unspecified() && !addresses.contains(&address.ip()) {
        addresses.push(address.ip());
    }
    let (serving, config) = server::ServingCertificates::open(files, &options.node_name, &addresses).await?;
    if options.client_ca_file.is_none() && options.cluster.is_none() {
        tracing::info!(%address, "no client CA is configured, so the HTTPS server accepts only clients of the node's own CA; `kubelet kubeconfig` prints a kubeconfig for kubectl");
        let joined = options.root_dir.join("kubeconfig");
        if joined.exists() {
            let joined = joined.display();
            tracing::warn!(
                "this node has joined a cluster; start the kubelet with --kubeconfig {joined} to remain its node, \
                 or remove this file"
            );
        }
    }
    let (swap, config) = watch::channel(config);
    let tokens = serving.viewer_tokens();
    tasks.spawn("certificate files", serving.follow(swap));
    let (context, stopped) = (context.clone(), stopped.clone());
    // If the port is free, it is bound before anything reports that the kubelet runs.
    let first = TcpListener::bind(address).await;
    tasks.spawn("HTTPS server", async move {
        let listener = match first {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%address, %error, "cannot serve the node's API over HTTPS yet, retrying; see --address and --port");
                bind_with_retry(address).await
            }
        };
        server::serve_https(listener, &context, tokens, config, stopped).await;
    });
    Ok(())
}

/// Retries until the port can be bound.
async fn bind_with_retry(address: SocketAddr) -> TcpListener {
    loop {
        tokio::time::sleep(BIND_RETRY_INTERVAL).await;
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
    }
}

/// Logs the node name, the engine and the pod sources at startup.
fn announce(options: &Options) {
    let Options { node_name: node, docker_endpoint: engine, .. } = options;
    let root_dir = options.root_dir.display();
    let path = options.pod_manifest_path.as_ref().map(|path| path.display().to_string());
    let cluster = options.cluster.as_ref().map(|_| "its cluster".to_owned());
    let watched: Vec<String> = path.into_iter().chain(options.manifest_url.clone()).chain(cluster).collect();
    if watched.is_empty() {
        tracing::warn!(
            node, engine, %root_dir,
            "no pod source is configured (--pod-manifest-path, --manifest-url), so the kubelet runs only pods that \
             clients push to it (`kubelet kubeconfig`)"
        );
    } else {
        tracing::info!(node, engine, %root_dir, "runs the pods of {}", watched.join(" and "));
    }
}

/// Waits for SIGTERM or SIGINT.
async fn wait_for_shutdown(stop: watch::Sender<bool>) {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot wait for signals; stop this process with SIGKILL");
            return std::future::pending().await;
        }
    }
    tracing::info!("stopping; containers are left running");
    stop.send_replace(true);
}
