//! Prepares the directory, opens the port and serves until told to stop; decides nothing about objects.

mod judged;
mod keep;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use apiserver::auth::{Issuer, Signer};
use apiserver::storage::{self, Store};
use apiserver::tls::{self, Keys};
use apiserver::{Catalog, Status, bounds, kinds};
use axum::{Router, middleware};
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admission::Added;
use crate::backup::Door;
use crate::bootstrap::{self, ClusterInfo, Discovery};
use crate::controllers::{self, Authority, Client, Facts, Remote};
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::kubernetes::{self, Masters};
use crate::metrics::{Measured, Metrics};
use crate::nodes::{Nodes, Shown};
use crate::options::{ApprovalPolicy, Controllers, NodeLifecycle, Options, ServiceRange, Storage};
use crate::owner::{self, Kept};
use crate::pki::{self, Names};
use crate::server::{self, Checks};
use crate::usage::{self, Usage};
use crate::{admission, api, apiservices, backup, metrics, scheduler, store};
use judged::Judged;
use keep::{Keep, Owned};

/// How often the file of `master discovery` is read again.
const REREAD_INTERVAL: Duration = Duration::from_secs(60);
/// Before its certificate ends, that much time is left to make it anew.
const REMINDER: SignedDuration = SignedDuration::from_hours(30 * 24);
/// A key that is looked up to see whether the store answers; nothing lies there.
const HEALTH_KEY: &str = "/registry/health";

/// Runs a master until it is told to stop.
///
/// # Errors
/// When its directory is taken, its certificates cannot be used, or its port cannot be had.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let begun = Instant::now();
    // Before anything else, so that whoever stops a master that has just begun is heard.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let lets_in = options.approval.policy != ApprovalPolicy::AlwaysReject;
    let data_dir = DataDir::at(&options.data_dir).letting_in(lets_in);
    let Judged { webhook, certificates, port } = Judged::of(&options, &data_dir)?;
    let scheduling = scheduler::Config::load(options.scheduler_config.as_deref())?;
    let _lock = data_dir.take()?;
    let now = Timestamp::now();
    let made = pki::missing(&data_dir.pki())?;
    let pki = data_dir.open_pki(now)?.with_lives(options.lives);
    let advertised = SocketAddr::new(advertised(&options), options.address.port());
    let names = names(&options, advertised.ip());
    let serving = pki.serving(&names, now)?;
    if serving.is_new {
        tracing::info!("a new serving certificate was made{}", keep::holds(&serving.chain));
    }
    let key = pki.service_account_key()?;
    for file in &made {
        tracing::info!(file, "made, for there was none");
    }
    let shown = Mutex::new(serving.chain.clone());
    let (swap, config) = watch::channel(keep::configured(&pki, serving)?);
    data_dir.advertise(advertised)?;
    let own_address = match options.advertise_address {
        Some(_) => advertised,
        None => SocketAddr::new(this_machine(options.address.ip()), options.address.port()),
    };
    for file in data_dir.admit(&pki, own_address, now)? {
        tracing::info!("a new {file} was made");
    }
    let listener = port.listen()?;

    let (stop, stopped) = watch::channel(false);
    let stopping = stopped.clone();
    let issuer = Issuer {
        name: format!("https://kubernetes.default.svc.{}", options.cluster_domain),
        server: format!("https://{advertised}"),
    };
    let catalog = Catalog::new(kinds::all().into_iter().chain(usage::rows()));
    let metrics = Metrics::new(server::VERSION.git_version, catalog.clone());
    let opened = tokio::select! {
        opened = store::open(&options, &certificates) => opened?,
        () = told(&mut terminate, &mut interrupt) => return Ok(()),
    };
    let store: Arc<dyn Store> = Arc::new(Measured::new(opened, metrics.clone()));
    let signer = Signer::new(&key).map_err(|fault| anyhow::anyhow!("pki/service-account.key {fault}"))?;
    let service_account_key = signer.key_id().to_owned();
    let (kept, kept_check) = match options.storage {
        Storage::Embedded => (Kept::Alone, "store-file"),
        Storage::Etcd => (Kept::Shared, "etcd-quota"),
    };
    let is_made = made.iter().any(|file| *file != pki::INTERMEDIATE_CERTIFICATE);
    let mark = keep::mark(&pki, &service_account_key);
    let is_noted = owner::claim(&*store, &mark, kept, is_made, &data_dir.pki()).await?;
    let noted = is_noted.then(|| mark.root_authority.clone());
    let owned = Owned { store: store.clone(), service_account_key, kept, noted };
    let (looked_at, looked_into) = (store.clone(), store.clone());
    let checks =
        Checks::new()
            .ready("shutdown", move || {
                if *stopping.borrow() { Err("the server is stopping".to_owned()) } else { Ok(()) }
            })
            .ready_when("etcd", move || answers(looked_at.clone()))
            .ready_when(kept_check, move || keeps(looked_into.clone()));
    let added = Added {
        scheduling_gates: options.scheduling_gates,
        service_ranges: options.service_ranges.clone(),
        pod_ranges: options.pods.given(),
        nodes: options.nodes.clone(),
    };
    let served = api::open(store.clone(), catalog.clone(), &key, issuer, added).await?;
    let cache = served.objects.cache().clone();
    tell_of_strangers(&admission::services_outside(&cache, &options.service_ranges), &options.service_ranges);
    let (authorities, believed) = watch::channel(Arc::new(pki));
    let to_nodes = Shown::new(believed.clone(), now)?;
    let nodes = Nodes::new(cache.clone(), to_nodes, options.kubelet_addresses.clone());
    let used = Usage::new(nodes.clone(), cache.clone());
    let told = believed.clone();
    let info = move || {
        let pki = told.borrow();
        let servers = bootstrap::servers(&cache, advertised);
        ClusterInfo { servers, authority: pki.root_pem(), retiring: pki.retiring_pem() }
    };
    let api = metrics::router(&metrics, &served.objects)
        .merge(bootstrap::router(info))
        .fallback_service(served.api.merge(used.router()).merge(nodes.router()));
    let router = server::router(api, &Arc::new(checks), &served.auth);
    // Roles apply to them as to any client.
    let client = Client::inside(router.clone());
    let place = kubernetes::Place { ranges: options.service_ranges.clone(), advertised };
    let masters = match options.storage {
        Storage::Embedded => Masters::Alone(advertised.ip()),
        Storage::Etcd => Masters::sharing(advertised.ip(), store.clone()),
    };
    let objects = Arc::downgrade(&served.objects);
    tokio::spawn(apiservices::keep(objects.clone(), catalog, client.clone(), stopped.clone()));
    let kept = tokio::spawn(kubernetes::keep(objects, client.clone(), place, masters, stopped.clone()));
    let authority = Authority {
        pki: believed.borrow().clone(),
        approval: options.approval,
        webhook,
        masters: names.clone(),
        nodes: options.nodes,
    };
    // Several may be told by one address, of which one only has this directory.
    let own = format!("master-{advertised}_{}", data_dir.id());
    let placing = options.scheduler.then(|| {
        let (client, own, stopped) = (client.clone(), own.clone(), stopped.clone());
        tokio::spawn(async move { scheduler::run(client, &own, scheduling, stopped).await })
    });
    let facts = Facts {
        root_ca: authority.pki.trusted_pem(),
        authority: Some(authority),
        gives_ranges: options.pods.are_given,
        lifecycle: options.lifecycle,
    };
    let controlling = (options.controllers != Controllers::None).then(|| {
        let stopped = stopped.clone();
        tokio::spawn(keep::control(client, own, options.controllers, facts, believed, stopped))
    });
    // What runs inside is not counted among them.
    let router = bounds::bounded(router, bounds::Limits::default());
    let router = router.layer(middleware::from_fn_with_state(metrics, metrics::observe));
    let (reloading, asked) = backup::reloading();
    let _door = open_door(&options.data_dir, store.clone(), reloading, stopped.clone());
    let keeping = Keep { data_dir, names, own_address, authorities, config: swap, shown };
    tokio::spawn(keep::keep(keeping, owned, asked));
    tokio::spawn(until_told(terminate, interrupt, stop));
    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(address = %options.address, %advertised, milliseconds, "serving");
    tls::serve(listener, router, config, stopped).await;
    // The other masters go on with leases less; one that cannot be given back runs out.
    let farewell = futures_util::future::join_all(std::iter::once(kept).chain(placing).chain(controlling));
    let _ = tokio::time::timeout(controllers::FAREWELL, farewell).await;
    if let Err(error) = store.rest().await {
        tracing::warn!(%error, "the last heartbeats were not written; nothing else is lost");
    }
    Ok(())
}

/// Runs controllers against a master that is elsewhere, until told to stop.
///
/// # Errors
/// When the kubeconfig cannot be read or used.
pub async fn run_controllers(
    kubeconfig: &Path,
    which: Controllers,
    lifecycle: NodeLifecycle,
) -> anyhow::Result<()> {
    let stopped = told_to_stop()?;
    let (client, config) = outside(kubeconfig)?;
    let facts = Facts { root_ca: config.authority, authority: None, gives_ranges: false, lifecycle };
    let lease = controllers::lease(&client, &one_of_many(), &facts);
    lease.work(|| controllers::run(client.clone(), which.clone(), facts.clone()), stopped).await;
    Ok(())
}

/// Runs the scheduler against a master that is elsewhere, until told to stop.
///
/// # Errors
/// When the kubeconfig or the configuration cannot be read or used.
pub async fn run_scheduler(kubeconfig: &Path, config: Option<&Path>) -> anyhow::Result<()> {
    let stopped = told_to_stop()?;
    let config = scheduler::Config::load(config)?;
    let (client, _) = outside(kubeconfig)?;
    scheduler::run(client, &one_of_many(), config, stopped).await;
    Ok(())
}

/// What this process is called among all that want a lease, as the stock ones do it.
fn one_of_many() -> String {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host_name}_{}", uuid::Uuid::new_v4())
}

/// Becomes true when this process is to stop.
fn told_to_stop() -> anyhow::Result<watch::Receiver<bool>> {
    let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(until_told(terminate, interrupt, stop));
    Ok(stopped)
}

/// A client of the master that a kubeconfig names.
fn outside(kubeconfig: &Path) -> anyhow::Result<(Client, Kubeconfig)> {
    let shown = kubeconfig.display();
    let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("cannot read {shown}"))?;
    let config = Kubeconfig::read(&text)
        .with_context(|| format!("{shown} is not as `master kubeconfig` writes it: a server, its authority, a certificate and its key"))?;
    let client = Client::outside(&Remote::from(&config))
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("cannot use {shown}"))?;
    Ok((client, config))
}

/// Tells the bootstrap document of a file until told to stop; a file that is made anew is taken up by itself.
///
/// # Errors
/// When the file cannot be used or the address cannot be had.
pub async fn run_discovery(file: PathBuf, listen: SocketAddr) -> anyhow::Result<()> {
    let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let (told, config) = read_discovery(&file)?;
    let mut open = open_to_others(&file);
    tell_of_others(&file, open);
    let (swap, config) = watch::channel(config);
    let (tell, telling) = watch::channel(told);
    let router = bootstrap::router(move || telling.borrow().clone())
        .fallback(|| async { Status::no_such_path() })
        .method_not_allowed_fallback(|| async { Status::no_such_method() });
    let router = bounds::bounded(router, bounds::Limits::default());
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}; see --listen"))?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(until_told(terminate, interrupt, stop));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(REREAD_INTERVAL).await;
            let path = file.clone();
            let before = std::mem::replace(&mut open, open_to_others(&file));
            tell_of_others(&file, open.filter(|_| open != before));
            match tokio::task::spawn_blocking(move || read_discovery(&path)).await {
                Ok(Ok((told, config))) => {
                    swap.send_replace(config);
                    tell.send_replace(told);
                }
                Ok(Err(error)) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "going on with what was read before");
                }
                Err(error) => tracing::error!(%error, "going on with what was read before"),
            }
        }
    });
    tracing::info!(%listen, "telling of a cluster");
    tls::serve(listener, router, config, stopped).await;
    Ok(())
}

/// The mode of a file that holds a key and is not for its owner alone.
fn open_to_others(file: &Path) -> Option<u32> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    (mode & pki::files::OTHERS != 0).then_some(mode)
}

fn tell_of_others(file: &Path, mode: Option<u32>) {
    let Some(mode) = mode else { return };
    let (file, mode) = (file.display(), format!("{mode:o}"));
    tracing::warn!(
        %file, mode,
        "others may read the key in this file: `chmod 600` it; if somebody may have read it, make it anew with `master cluster-info`",
    );
}

/// What a file tells and how it is shown; says in the log when it is time for a new one.
fn read_discovery(file: &Path) -> anyhow::Result<(ClusterInfo, Arc<tls::Config>)> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let now = Timestamp::now();
    let found = Discovery::read(&text, now).map_err(|fault| {
        anyhow::anyhow!("{shown} {fault}; `master cluster-info --tls-san NAME,...` on a master makes one")
    })?;
    if found.until.duration_since(now) < REMINDER {
        let until = found.until;
        tracing::warn!(%until, "the certificate ends soon: make the file anew with `master cluster-info`");
    }
    // No client is asked who it is.
    let keys = Keys { chain: found.serving.chain, key: found.serving.key, client_authorities: Vec::new() };
    Ok((found.info, tls::config(keys)?))
}

/// Says that services have addresses of a range that was another one when they were made.
fn tell_of_strangers(strangers: &[(String, IpAddr)], ranges: &[ServiceRange]) {
    let Some((example, address)) = strangers.first() else { return };
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    tracing::warn!(
        services = strangers.len(), example, %address, ranges = ranges.join(","),
        "services have addresses outside --service-cluster-ip-range: make them anew, or put the range back",
    );
}

/// Whether the store, whichever it is, can be read.
async fn answers(store: Arc<dyn Store>) -> Result<(), String> {
    store.get(HEALTH_KEY).await.map(drop).map_err(|error| error.to_string())
}

/// Whether the store keeps what is written. One that does not answer is told of by [`answers`].
async fn keeps(store: Arc<dyn Store>) -> Result<(), String> {
    match store.look().await {
        Err(error @ (storage::Error::Displaced { .. } | storage::Error::Quota { .. })) => {
            Err(error.to_string())
        }
        _ => Ok(()),
    }
}

/// Opens the socket for backups; a master goes on without.
fn open_door(
    data_dir: &Path,
    store: Arc<dyn Store>,
    reloading: Router,
    stopped: watch::Receiver<bool>,
) -> Option<Door> {
    match Door::open(data_dir) {
        Ok((door, listener)) => {
            let router = backup::router(store, data_dir).merge(reloading);
            tokio::spawn(apiserver::serve(listener, router, stopped));
            Some(door)
        }
        Err(error) => {
            let directory = data_dir.display();
            tracing::warn!(%directory, %error, "no socket can be made in the directory: `master backup` will find no master");
            None
        }
    }
}

/// What nodes are told: the flag, else the address served on, else the one that packets to other machines leave from.
fn advertised(options: &Options) -> IpAddr {
    let bind = options.address.ip();
    match options.advertise_address {
        Some(address) => address,
        None if !bind.is_unspecified() => bind,
        None => outward(bind).unwrap_or_else(|| this_machine(bind)),
    }
}

/// The address of this machine towards others. Nothing is sent: connecting a datagram socket only chooses a route.
fn outward(bind: IpAddr) -> Option<IpAddr> {
    // Addresses of documentation, which belong to nobody and lie behind the default route.
    let away = if bind.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let socket = UdpSocket::bind((bind, 0)).ok()?;
    socket.connect(away).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}

/// Where this machine itself reaches the server.
fn this_machine(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bind }
}

fn names(options: &Options, advertised: IpAddr) -> Names {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let service_addresses: Vec<IpAddr> = options.service_ranges.iter().map(ServiceRange::first).collect();
    let mut names = Names::of_master(&host_name, &options.cluster_domain, &service_addresses);
    names.addresses.insert(advertised);
    names.addresses.insert(this_machine(options.address.ip()));
    for name in &options.tls_san {
        names.add(name);
    }
    names
}

/// Waits for one of these signals.
async fn until_told(mut terminate: Signal, mut interrupt: Signal, stop: watch::Sender<bool>) {
    told(&mut terminate, &mut interrupt).await;
    stop.send_replace(true);
}

async fn told(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    tracing::info!("stopping");
}

#[cfg(test)]
mod tests;
