//! Prepares the directory, opens the port and serves until told to stop; decides nothing about objects.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use apiserver::auth::Issuer;
use apiserver::storage::Store;
use apiserver::tls::{self, Keys};
use apiserver::{Catalog, bounds, kinds};
use axum::middleware;
use jiff::Timestamp;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admission::Added;
use crate::backup::Door;
use crate::controllers::{self, Client, Facts, Remote};
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::kubernetes::{self, Masters};
use crate::metrics::{Measured, Metrics};
use crate::options::{Controllers, Options, SERVICES, ServiceRange, Storage};
use crate::pki::{Names, Pki, Serving};
use crate::server::{self, Checks};
use crate::{api, backup, metrics, store};

/// How often a running master looks whether its certificate is to be renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// A key that is looked up to see whether the store answers; nothing lies there.
const HEALTH_KEY: &str = "/registry/health";

/// Runs a master until it is told to stop.
///
/// # Errors
/// When its directory is taken, its certificates cannot be used, or its port cannot be had.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let begun = Instant::now();
    // Before anything else, so that whoever stops a master that has just begun is heard.
    let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let data_dir = DataDir::at(&options.data_dir);
    let _lock = data_dir.take()?;
    let now = Timestamp::now();
    let pki = data_dir.open_pki(now)?;
    let advertised = SocketAddr::new(advertised(&options), options.address.port());
    let names = names(&options, advertised.ip());
    let serving = pki.serving(&names, now)?;
    let (swap, config) = watch::channel(configured(&pki, serving)?);
    data_dir.advertise(advertised)?;
    let admins_address = match options.advertise_address {
        Some(_) => advertised,
        None => SocketAddr::new(own_address(options.address.ip()), options.address.port()),
    };
    data_dir.admit_admin(&pki, admins_address, now)?;
    let bind = || format!("cannot listen on {}; see --bind-address and --secure-port", options.address);
    let listener = TcpListener::bind(options.address).await.with_context(bind)?;

    let (stop, stopped) = watch::channel(false);
    let stopping = stopped.clone();
    let issuer = Issuer {
        name: format!("https://kubernetes.default.svc.{}", options.cluster_domain),
        server: format!("https://{advertised}"),
    };
    let catalog = Catalog::new(kinds::all());
    let metrics = Metrics::new(server::VERSION.git_version, catalog.clone());
    let store: Arc<dyn Store> = Arc::new(Measured::new(store::open(&options).await?, metrics.clone()));
    let looked_at = store.clone();
    let checks =
        Checks::new()
            .ready("shutdown", move || {
                if *stopping.borrow() { Err("the server is stopping".to_owned()) } else { Ok(()) }
            })
            .ready_when("etcd", move || answers(looked_at.clone()));
    let key = pki.service_account_key()?;
    let added =
        Added { scheduling_gates: options.scheduling_gates, service_ranges: options.service_ranges.clone() };
    let served = api::open(store.clone(), catalog, &key, issuer, added).await?;
    let api = metrics::router(&metrics, &served.objects).fallback_service(served.api);
    let router = server::router(api, &Arc::new(checks), &served.auth);
    // Roles apply to them as to any client.
    let client = Client::inside(router.clone());
    let place = kubernetes::Place {
        service: options.service_ranges.first().copied().unwrap_or(SERVICES).first(),
        advertised,
    };
    let masters = match options.storage {
        Storage::Embedded => Masters::Alone(advertised.ip()),
        Storage::Etcd => Masters::sharing(advertised.ip(), store.clone()),
    };
    let objects = Arc::downgrade(&served.objects);
    let kept = tokio::spawn(kubernetes::keep(objects, client.clone(), place, masters, stopped.clone()));
    tokio::spawn(controllers::run(client, options.controllers, Facts { root_ca: pki.root_pem() }));
    // What runs inside is not counted among them.
    let router = bounds::bounded(router, bounds::Limits::default());
    let router = router.layer(middleware::from_fn_with_state(metrics, metrics::observe));
    let _door = open_door(&options.data_dir, store.clone(), stopped.clone());
    tokio::spawn(renew(pki, names, swap));
    tokio::spawn(until_told(terminate, interrupt, stop));
    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(address = %options.address, %advertised, milliseconds, "serving");
    tls::serve(listener, router, config, stopped).await;
    // The other masters go on with a lease less; one that cannot be given back runs out.
    let _ = tokio::time::timeout(kubernetes::FAREWELL, kept).await;
    if let Err(error) = store.rest().await {
        tracing::warn!(%error, "the last heartbeats were not written; nothing else is lost");
    }
    Ok(())
}

/// Runs controllers against a master that is elsewhere, until told to stop.
///
/// # Errors
/// When the kubeconfig cannot be read or used.
pub async fn run_controllers(kubeconfig: &Path, which: Controllers) -> anyhow::Result<()> {
    let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let shown = kubeconfig.display();
    let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("cannot read {shown}"))?;
    let config = Kubeconfig::read(&text)
        .with_context(|| format!("{shown} is not as `master kubeconfig` writes it: a server, its authority, a certificate and its key"))?;
    let client = Client::outside(&Remote::from(&config))
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("cannot use {shown}"))?;
    let facts = Facts { root_ca: config.authority };
    let (stop, mut stopped) = watch::channel(false);
    tokio::spawn(until_told(terminate, interrupt, stop));
    tokio::select! {
        () = controllers::run(client, which, facts) => {}
        _ = stopped.changed() => {}
    }
    Ok(())
}

fn configured(pki: &Pki, serving: Serving) -> Result<Arc<ServerConfig>, tls::Error> {
    let client_authorities = pki.client_authorities();
    tls::config(Keys { chain: serving.chain, key: serving.key, client_authorities })
}

/// Whether the store, whichever it is, can be read.
async fn answers(store: Arc<dyn Store>) -> Result<(), String> {
    store.get(HEALTH_KEY).await.map(drop).map_err(|error| error.to_string())
}

/// Opens the socket for backups; a master goes on without.
fn open_door(data_dir: &Path, store: Arc<dyn Store>, stopped: watch::Receiver<bool>) -> Option<Door> {
    match Door::open(data_dir) {
        Ok((door, listener)) => {
            tokio::spawn(apiserver::serve(listener, backup::router(store, data_dir), stopped));
            Some(door)
        }
        Err(error) => {
            let directory = data_dir.display();
            tracing::warn!(%directory, %error, "no socket can be made in the directory: `master backup` will find no master");
            None
        }
    }
}

/// Renews the serving certificate in time; connections that are open notice nothing.
async fn renew(pki: Pki, names: Names, swap: watch::Sender<Arc<ServerConfig>>) {
    let (pki, names) = (Arc::new(pki), Arc::new(names));
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        let (own, names) = (pki.clone(), names.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let serving = own.serving(&names, Timestamp::now())?;
            let is_new = serving.is_new;
            Ok::<_, anyhow::Error>(is_new.then(|| configured(&own, serving)).transpose()?)
        });
        match looked.await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(config))) => {
                swap.send_replace(config);
                tracing::info!("the serving certificate was renewed");
            }
            Ok(Err(error)) => {
                tracing::error!(error = %format!("{error:#}"), "cannot renew the serving certificate")
            }
            Err(error) => tracing::error!(%error, "cannot renew the serving certificate"),
        }
    }
}

/// What nodes are told: the flag, else the address served on, else the one that packets to other machines leave from.
fn advertised(options: &Options) -> IpAddr {
    let bind = options.address.ip();
    match options.advertise_address {
        Some(address) => address,
        None if !bind.is_unspecified() => bind,
        None => outward(bind).unwrap_or_else(|| own_address(bind)),
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
fn own_address(bind: IpAddr) -> IpAddr {
    if bind.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bind }
}

fn names(options: &Options, advertised: IpAddr) -> Names {
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let service_addresses: Vec<IpAddr> = options.service_ranges.iter().map(ServiceRange::first).collect();
    let mut names = Names::of_master(&host_name, &options.cluster_domain, &service_addresses);
    names.addresses.insert(advertised);
    names.addresses.insert(own_address(options.address.ip()));
    for name in &options.tls_san {
        names.add(name);
    }
    names
}

/// Waits for one of these signals.
async fn until_told(mut terminate: Signal, mut interrupt: Signal, stop: watch::Sender<bool>) {
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    tracing::info!("stopping");
    stop.send_replace(true);
}

#[cfg(test)]
mod tests;
