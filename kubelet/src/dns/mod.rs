//! DNS server of the node: names of Services and pods for the pods of this node, other names from the host's servers.
//!
//! It listens at the addresses of the pod bridge. [`index`] and [`records`] decide what the cluster's names mean, by
//! the Kubernetes DNS specification; [`upstream`] forwards other questions, and [`cache`] keeps the responses. All data
//! are in memory, so the server answers while no API server does.

mod cache;
mod index;
mod listener;
mod query;
mod records;
mod resolver;
mod upstream;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::Tasks;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use self::listener::Listener;
use self::records::Zone;
use self::resolver::Resolver;
use crate::cluster::services::ServiceSnapshot;
use crate::disk;
use crate::network::record_event;
use crate::report::{Outbox, Severity};
use crate::runtime::spec::Dns;

/// The domain of a cluster whose kubelets have no `--cluster-domain`, as that of the master.
pub const DEFAULT_DOMAIN: &str = "cluster.local";
/// The port of DNS servers.
const PORT: u16 = 53;
/// How often the host's resolv.conf is read. DHCP and VPN clients change it.
const RESOLV_CONF_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before another attempt to bind an address.
const BIND_RETRY: Duration = Duration::from_secs(1);
/// How long an address may be missing before that is reported. The kernel checks a new IPv6 address for duplicates first.
const BIND_GRACE: Duration = Duration::from_secs(10);

/// Settings of the DNS server.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// The domain of the cluster.
    pub domain: String,
    /// The addresses at which the server answers: those of the pod bridge.
    pub addresses: watch::Receiver<Vec<IpAddr>>,
    /// The Services of the cluster.
    pub services: watch::Receiver<Arc<ServiceSnapshot>>,
    /// The host's current DNS configuration.
    pub host_dns: Box<dyn Fn() -> Dns + Send + Sync>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
}

/// Starts the DNS server.
///
/// # Errors
/// If the domain is not a domain name.
pub fn start(settings: Settings, tasks: &mut Tasks) -> Result<(), String> {
    let Settings { node, domain, addresses, mut services, host_dns, outbox } = settings;
    let resolver = Arc::new(Resolver::new(Zone::new(&domain)?));
    let updated = resolver.clone();
    tasks.spawn("DNS index", async move {
        loop {
            let snapshot = services.borrow_and_update().clone();
            updated.apply(snapshot);
            if services.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    });
    tasks.spawn("DNS upstreams", follow_upstreams(resolver.clone(), host_dns));
    tasks.spawn("DNS server", follow_addresses(Server { resolver, node, outbox }, addresses));
    Ok(())
}

/// Reads the name servers of the host again and again.
async fn follow_upstreams(resolver: Arc<Resolver>, host_dns: Box<dyn Fn() -> Dns + Send + Sync>) {
    let host_dns: Arc<dyn Fn() -> Dns + Send + Sync> = host_dns.into();
    loop {
        let read = host_dns.clone();
        let servers = disk::run(move || read()).await.servers;
        // Unlike a pod, the kubelet can reach a server on the host's loopback.
        let servers: Vec<SocketAddr> = servers
            .iter()
            .filter_map(|server| server.parse::<IpAddr>().ok())
            .map(|ip| SocketAddr::new(ip, PORT))
            .collect();
        let named = servers.iter().map(|server| server.ip().to_string()).collect::<Vec<_>>().join(", ");
        if resolver.set_upstreams(servers) {
            tracing::info!("names outside the cluster are resolved by {named}");
        }
        tokio::time::sleep(RESOLV_CONF_INTERVAL).await;
    }
}

/// Listens at each address of the bridge while the bridge has it.
async fn follow_addresses(server: Server, mut addresses: watch::Receiver<Vec<IpAddr>>) {
    let server = Arc::new(server);
    let mut tasks = JoinSet::new();
    let mut running = HashMap::<IpAddr, AbortHandle>::new();
    loop {
        let wanted = addresses.borrow_and_update().clone();
        server.resolver.set_addresses(wanted.clone());
        running.retain(|address, task| {
            let is_wanted = wanted.contains(address);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        for address in wanted {
            let server = server.clone();
            running.entry(address).or_insert_with(|| tasks.spawn(async move { server.run(address).await }));
        }
        tokio::select! {
            changed = addresses.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// The server, and how it reports problems.
struct Server {
    resolver: Arc<Resolver>,
    node: String,
    outbox: Arc<Outbox>,
}

impl Server {
    /// Answers at one address. Binds it again after a failure.
    async fn run(&self, address: IpAddr) {
        let (mut reported, mut missing_since) = (None, Instant::now());
        loop {
            let error = match Listener::bind((address, PORT).into()).await {
                Ok(listener) => {
                    if reported.take().is_some() {
                        let text = format!("the DNS server answers pods at {address}");
                        record_event(&self.outbox, &self.node, Severity::Normal, "DNSServerStarted", text);
                    }
                    tracing::info!(%address, "the DNS server answers pods");
                    let ended = listener.serve(self.resolver.clone()).await;
                    missing_since = Instant::now();
                    ended.err()
                }
                Err(error) => Some(error),
            };
            let Some(error) = error else { continue };
            let is_reportable =
                error.kind() == io::ErrorKind::AddrInUse || missing_since.elapsed() >= BIND_GRACE;
            if is_reportable && reported != Some(error.kind()) {
                reported = Some(error.kind());
                let text = format!(
                    "the DNS server cannot answer pods at {address}, port {PORT}: {error}. If another program uses the \
                     port at all addresses, restrict it to others, or name other servers with --cluster-dns"
                );
                record_event(&self.outbox, &self.node, Severity::Warning, "DNSServerFailed", text);
            }
            tokio::time::sleep(BIND_RETRY).await;
        }
    }
}
