//! Starts the master: prepares the data directory, assembles all components and serves until a signal arrives.

mod address;
mod components;
mod discovery;
mod keep;
mod preflight;
mod remote;
mod service_manager;
mod signals;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use apiserver::auth::{Issuer, Signer};
use apiserver::registry::Registry;
use apiserver::storage::etcd::Certificates;
use apiserver::storage::{self, Store};
use apiserver::tls;
use apiserver::websocket::with_websockets;
use apiserver::{Catalog, flowcontrol, kinds};
use axum::{Router, middleware};
use command::ServiceManager;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::components::Components;
pub use self::discovery::run_discovery;
use self::keep::{Keep, Owned};
use self::preflight::Preflight;
pub use self::remote::{run_controllers, run_scheduler};
use self::signals::Signals;
use crate::admission::AdmissionConfig;
use crate::api::{self, Served};
use crate::backup::{self, BackupSocket};
use crate::bootstrap::{self, ClusterInfo};
use crate::component_status::ComponentStatuses;
use crate::controllers::{self, Authority, Client, ControllerContext, Webhook};
use crate::data_dir::{DataDir, Lock};
use crate::kubernetes_service::{self, ApiAddress, MasterLeases};
use crate::metrics::{self, Measured, Metrics};
use crate::metrics_api::MetricsApi;
use crate::node_proxy::{BackendTls, NodeProxy};
use crate::options::{ApprovalPolicy, Controllers, Options, ServiceRange, Storage};
use crate::owner::{self, Kept};
use crate::pki::{self, Names, Pki};
use crate::server::{self, Checks};
use crate::{
    apiservices, flow_control, scheduler, server_lease, service_addresses, store, system_config_maps,
};

/// A key without a value. It is read to check that the store responds.
const HEALTH_KEY: &str = "/registry/health";

/// Runs a master until SIGTERM or SIGINT. The controllers and the scheduler run on the runtime `computing`.
///
/// # Errors
/// If the data directory is locked, the certificates are unusable, or the port cannot be bound.
pub async fn run(options: Options, computing: Handle) -> anyhow::Result<()> {
    let begun = Instant::now();
    // First, so that a signal during startup is not lost.
    let mut signals = Signals::listen()?;
    let lets_in = options.approval.policy != ApprovalPolicy::AlwaysReject;
    let data_dir = DataDir::at(&options.data_dir).letting_in(lets_in);
    let preflight = Preflight::run(&options, &data_dir)?;
    let prepared = Prepared::open(&options, &data_dir, preflight)?;
    let catalog = Catalog::new(kinds::all().into_iter().chain(apiserver::metrics_api::resources()));
    let metrics = Metrics::new(apiserver::VERSION.git_version, catalog.clone());
    let opened = tokio::select! {
        opened = store::open(&options, &prepared.etcd_certificates, !prepared.created.is_empty()) => opened?,
        () = signals.received() => return Ok(()),
    };
    let (stop, stopped) = watch::channel(false);
    let store: Arc<dyn Store> = Arc::new(Measured::new(opened, metrics.clone()));
    let owned = claim_store(&options, &data_dir, &prepared, store.clone()).await?;
    let mut served = open_api(&options, &prepared, store.clone(), catalog.clone()).await?;

    let Prepared { pki, names, listener, own_address, advertised, serving, webhook, scheduling, .. } =
        prepared;
    let (authorities, trusted) = watch::channel(Arc::new(pki));
    let router = router(&options, &served, &metrics, &store, advertised, &trusted, &stopped)?;
    let (reloads, reload_requests) = backup::reloading();
    let responsive = computing.clone();
    let mut components = Components::new(std::mem::take(&mut served.tasks), computing);
    components.spawn("signals", signals.forward(stop));
    let _backup_socket =
        open_backup_socket(&mut components, &options.data_dir, store.clone(), reloads, stopped.clone());
    // Several masters may advertise one address, so the id of the data directory is part of the identity.
    let identity = controllers::master_identity(advertised, &data_dir.id());
    let address = options.address;
    let starting = Starting {
        objects: Arc::downgrade(&served.objects),
        catalog,
        // RBAC applies to the internal components as to any client.
        client: Client::in_process(router.clone()),
        identity,
        trusted,
        stopped: stopped.clone(),
    };
    let authority = Authority {
        pki: starting.trusted.borrow().clone(),
        approval: options.approval.clone(),
        webhook,
        masters: names.clone(),
        nodes: options.nodes.clone(),
    };
    starting.maintain_objects(&mut components, &options, advertised, store.clone());
    starting.control(&mut components, options, authority, scheduling);
    let config = serving.sender;
    let shown = Mutex::new(serving.chain);
    let keeping = Keep { data_dir, names, own_address, authorities, config, shown };
    components.spawn("certificate manager", keep::keep(keeping, owned, reload_requests));

    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(%address, %advertised, milliseconds, "serving");
    if let Some(manager) = ServiceManager::of_environment() {
        let report = service_manager::report(manager, address, responsive, stopped.clone());
        components.spawn("service manager", report);
    }
    let ended = tokio::select! {
        () = tls::serve(listener, limited(router, metrics), serving.config, stopped) => {
            components.release_leases().await
        }
        failed = components.failure() => Err(failed),
    };
    if let Err(error) = store.flush().await {
        tracing::warn!(%error, "the last heartbeats were not persisted; no other write is lost");
    }
    ended.map_err(anyhow::Error::from)
}

/// The data directory, the certificates and the port of a master that is about to open its store.
struct Prepared {
    webhook: Option<Webhook>,
    etcd_certificates: Certificates,
    scheduling: scheduler::Config,
    /// Files of the PKI that this start created.
    created: Vec<&'static str>,
    pki: Pki,
    names: Names,
    /// The service-account key (PKCS #8).
    service_account_key: Vec<u8>,
    serving: ServingConfig,
    advertised: SocketAddr,
    /// Address for local kubeconfigs.
    own_address: SocketAddr,
    listener: TcpListener,
    _lock: Lock,
}

/// The serving certificate, and the TLS settings that contain it.
struct ServingConfig {
    chain: Vec<CertificateDer<'static>>,
    sender: watch::Sender<Arc<tls::Config>>,
    config: watch::Receiver<Arc<tls::Config>>,
}

impl Prepared {
    /// Locks the data directory, creates missing certificates and listens on the port.
    fn open(options: &Options, data_dir: &DataDir, preflight: Preflight) -> anyhow::Result<Self> {
        let scheduling = scheduler::Config::load(options.scheduler_config.as_deref())?;
        let lock = data_dir.take()?;
        let now = Timestamp::now();
        let created = pki::missing(&data_dir.pki())?;
        let pki = data_dir.open_pki(now)?.with_lifetimes(options.lifetimes);
        let advertised = SocketAddr::new(address::advertised(options), options.address.port());
        let names = address::names(options, advertised.ip());
        let serving = pki.serving(&names, now)?;
        if serving.is_new {
            tracing::info!("created a new serving certificate{}", keep::holds(&serving.chain));
        }
        let service_account_key = pki.service_account_key()?;
        for file in &created {
            tracing::info!(file, "created a missing file");
        }
        let chain = serving.chain.clone();
        let (sender, config) = watch::channel(keep::configured(&pki, serving)?);
        data_dir.advertise(advertised)?;
        let own_address = match options.advertise_address {
            Some(_) => advertised,
            None => SocketAddr::new(address::this_machine(options.address.ip()), options.address.port()),
        };
        for file in data_dir.admit(&pki, own_address, now)? {
            tracing::info!("created {file}");
        }
        Ok(Self {
            webhook: preflight.webhook,
            etcd_certificates: preflight.certificates,
            scheduling,
            created,
            pki,
            names,
            service_account_key,
            serving: ServingConfig { chain, sender, config },
            advertised,
            own_address,
            listener: preflight.port.listen()?,
            _lock: lock,
        })
    }
}

/// Claims the store for the CAs of the data directory.
async fn claim_store(
    options: &Options,
    data_dir: &DataDir,
    prepared: &Prepared,
    store: Arc<dyn Store>,
) -> anyhow::Result<Owned> {
    let signer = Signer::new(&prepared.service_account_key);
    let signer = signer.map_err(|fault| anyhow::anyhow!("pki/service-account.key {fault}"))?;
    let service_account_key = signer.key_id().to_owned();
    let kept = match options.storage {
        Storage::Embedded => Kept::Alone,
        Storage::Etcd => Kept::Shared,
    };
    let is_new = prepared.created.iter().any(|file| *file != pki::INTERMEDIATE_CERTIFICATE);
    let mark = keep::mark(&prepared.pki, &service_account_key);
    let is_noted = owner::claim(&*store, &mark, kept, is_new, &data_dir.pki()).await?;
    let noted = is_noted.then(|| mark.root_authority.clone());
    Ok(Owned { store, service_account_key, kept, noted })
}

/// Opens the API on the store.
async fn open_api(
    options: &Options,
    prepared: &Prepared,
    store: Arc<dyn Store>,
    catalog: Catalog,
) -> anyhow::Result<Served> {
    let issuer = Issuer {
        name: format!("https://kubernetes.default.svc.{}", options.cluster_domain),
        server: format!("https://{}", prepared.advertised),
    };
    let admission = AdmissionConfig {
        plugins: options.admission_plugins.clone(),
        scheduling_gates: options.scheduling_gates.clone(),
        service_ranges: options.service_ranges.clone(),
        pod_ranges: options.pods.given(),
        nodes: options.nodes.clone(),
        controllers: options.controllers.clone(),
    };
    let served = api::open(store, catalog, &prepared.service_account_key, issuer, admission).await?;
    let outside =
        apiserver::admission::services_outside_ranges(served.objects.cache(), &options.service_ranges);
    warn_of_services(&outside, &options.service_ranges);
    Ok(served)
}

/// Creates the router of all paths of the server, without limits.
fn router(
    options: &Options,
    served: &Served,
    metrics: &Arc<Metrics>,
    store: &Arc<dyn Store>,
    advertised: SocketAddr,
    trusted: &watch::Receiver<Arc<Pki>>,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Router> {
    let cache = served.objects.cache().clone();
    let to_nodes = BackendTls::new(trusted.clone(), Timestamp::now())?;
    let nodes = NodeProxy::new(cache.clone(), to_nodes, options.kubelet_addresses.clone());
    let resource_metrics = MetricsApi::new(nodes.clone(), cache.clone());
    let probed = store.clone();
    let components = ComponentStatuses::new(cache.clone(), move || answers(probed.clone()));
    let trusted = trusted.clone();
    let info = move || {
        let pki = trusted.borrow();
        let servers = bootstrap::servers(&cache, advertised);
        ClusterInfo { servers, authority: pki.root_pem(), retiring: pki.retiring_pem() }
    };
    let api = served.api.clone();
    let api = metrics::router(metrics, &served.objects).merge(bootstrap::router(info)).fallback_service(
        api.merge(resource_metrics.router()).merge(components.router()).merge(nodes.router()),
    );
    Ok(server::router(api, &Arc::new(health_checks(options.storage, store, stopped)), &served.auth))
}

fn health_checks(storage: Storage, store: &Arc<dyn Store>, stopped: &watch::Receiver<bool>) -> Checks {
    let check = match storage {
        Storage::Embedded => "store-file",
        Storage::Etcd => "etcd-quota",
    };
    let (live, ready, persists, stopping) = (store.clone(), store.clone(), store.clone(), stopped.clone());
    let shutdown = move || if *stopping.borrow() { Err("the server is stopping".to_owned()) } else { Ok(()) };
    Checks::serving()
        .ready("shutdown", shutdown)
        .store_when("etcd", move || answers(live.clone()))
        .ready_when("etcd-readiness", move || answers(ready.clone()))
        .ready_when(check, move || keeps(persists.clone()))
}

/// Adds limits and metrics. They do not apply to requests of internal components.
fn limited(router: Router, metrics: Arc<Metrics>) -> Router {
    let router = flowcontrol::limit_in_flight(router, flowcontrol::Limits::default());
    let router = router.layer(middleware::from_fn_with_state(metrics, metrics::observe));
    // This layer is outside of the limits, so that a WebSocket counts towards them until it closes.
    with_websockets(router)
}

/// The parameters that the components share.
struct Starting {
    objects: Weak<Registry>,
    catalog: Catalog,
    client: Client,
    /// Holder identity of this master in leases.
    identity: String,
    trusted: watch::Receiver<Arc<Pki>>,
    stopped: watch::Receiver<bool>,
}

impl Starting {
    /// Starts the components that maintain the objects of an API server.
    fn maintain_objects(
        &self,
        components: &mut Components,
        options: &Options,
        advertised: SocketAddr,
        store: Arc<dyn Store>,
    ) {
        let shared = || (self.objects.clone(), self.client.clone(), self.stopped.clone());
        let (objects, client, stopped) = shared();
        components.spawn("apiservices", apiservices::keep(objects, self.catalog.clone(), client, stopped));
        let (objects, client, stopped) = shared();
        components.spawn("flow control", flow_control::keep(objects, client, stopped));
        let (objects, client, stopped) = shared();
        components.spawn("service addresses", service_addresses::keep(objects, client, stopped));
        let (objects, client, stopped) = shared();
        let trusted = self.trusted.clone();
        components.spawn("system ConfigMaps", system_config_maps::keep(objects, client, trusted, stopped));
        let (_, client, stopped) = shared();
        components.spawn("API server lease", server_lease::keep(client, self.identity.clone(), stopped));
        let masters = match options.storage {
            Storage::Embedded => MasterLeases::Alone(advertised.ip()),
            Storage::Etcd => MasterLeases::sharing(advertised.ip(), store),
        };
        let place = ApiAddress { ranges: options.service_ranges.clone(), advertised };
        let (objects, client, stopped) = shared();
        let service = kubernetes_service::keep(objects, client, place, masters, stopped);
        components.spawn_lease_holder("service kubernetes", service);
    }

    /// Starts the scheduler and the controllers.
    fn control(
        self,
        components: &mut Components,
        options: Options,
        authority: Authority,
        scheduling: scheduler::Config,
    ) {
        let Self { client, identity, trusted, stopped, .. } = self;
        if options.scheduler {
            let (client, identity, stopped) = (client.clone(), identity.clone(), stopped.clone());
            let scheduler = async move { scheduler::run(client, &identity, scheduling, stopped).await };
            components.spawn_computing("scheduler", scheduler);
        }
        if let Some(directory) = options.addons {
            let (client, identity, stopped) = (client.clone(), identity.clone(), stopped.clone());
            let addons = controllers::run_addons(client, identity, directory, options.data_dir, stopped);
            components.spawn_lease_holder("add-ons", addons);
        } else {
            controllers::set_addons_aside(&options.data_dir);
        }
        let context = ControllerContext {
            root_ca: authority.pki.trust_bundle_pem(),
            authority: Some(authority),
            allocates_pod_cidrs: options.pods.are_given,
            lifecycle: options.lifecycle,
        };
        if options.controllers != Controllers::None {
            let controllers = keep::control(client, identity, options.controllers, context, trusted, stopped);
            components.spawn_computing("controllers", controllers);
        }
    }
}

/// Warns about services whose IP is outside the configured service CIDRs.
fn warn_of_services(services: &[(String, IpAddr)], ranges: &[ServiceRange]) {
    let Some((example, address)) = services.first() else { return };
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    tracing::warn!(
        services = services.len(), example, %address, ranges = ranges.join(","),
        "services have IPs outside --service-cluster-ip-range: recreate them, or restore the previous range",
    );
}

/// Checks that the store can be read.
async fn answers(store: Arc<dyn Store>) -> Result<(), String> {
    store.get(HEALTH_KEY).await.map(drop).map_err(|error| error.to_string())
}

/// Checks that the store persists writes and has space. If the store does not respond, [`answers`] reports that.
async fn keeps(store: Arc<dyn Store>) -> Result<(), String> {
    match store.check_health().await {
        Err(
            error @ (storage::Error::Displaced { .. }
            | storage::Error::Full { .. }
            | storage::Error::Quota { .. }),
        ) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Opens the backup socket. The master also runs without it.
fn open_backup_socket(
    components: &mut Components,
    data_dir: &Path,
    store: Arc<dyn Store>,
    reloading: Router,
    stopped: watch::Receiver<bool>,
) -> Option<BackupSocket> {
    match BackupSocket::open(data_dir) {
        Ok((socket, listener)) => {
            let router = backup::router(store, data_dir).merge(reloading);
            components.spawn("backup socket", apiserver::serve(listener, router, stopped));
            Some(socket)
        }
        Err(error) => {
            let directory = data_dir.display();
            tracing::warn!(%directory, %error, "cannot create the backup socket in the data directory: `master backup` will not work");
            None
        }
    }
}

#[cfg(test)]
mod tests;
