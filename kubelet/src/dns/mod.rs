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
mod upstream_servers;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::Tasks;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use self::listener::{Limits, Listener};
use self::records::Zone;
use self::resolver::Resolver;
use self::upstream_servers::UpstreamServers;
use crate::cluster::services::ServiceSnapshot;
use crate::network::{NodeDns, record_event};
use crate::report::{Outbox, Severity};
use crate::runtime::spec::Dns;

/// The domain of a cluster whose kubelets have no `--cluster-domain`, as that of the master.
pub const DEFAULT_DOMAIN: &str = "cluster.local";
/// The port of DNS servers.
const PORT: u16 = 53;
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
    pub host_dns: Box<dyn Fn() -> io::Result<Dns> + Send + Sync>,
    /// Receives whether pods can use the server.
    pub state: Arc<NodeDns>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
}

/// Starts the DNS server.
///
/// # Errors
/// If the domain is not a domain name.
pub fn start(settings: Settings, tasks: &mut Tasks) -> Result<(), String> {
    let Settings { node, domain, addresses, mut services, host_dns, state, outbox } = settings;
    let resolver = Arc::new(Resolver::new(Zone::new(&domain)?));
    let (updated, state_of) = (resolver.clone(), state.clone());
    tasks.spawn("DNS index", async move {
        loop {
            let snapshot = services.borrow_and_update().clone();
            state_of.set_knows_services(!snapshot.is_forbidden);
            updated.apply(snapshot);
            if services.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    });
    let upstreams = UpstreamServers::new(resolver.clone(), node.clone(), outbox.clone());
    tasks.spawn("DNS upstreams", upstreams.follow(host_dns));
    let limits = Arc::default();
    tasks.spawn("DNS server", follow_addresses(Server { resolver, limits, state, node, outbox }, addresses));
    Ok(())
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
    limits: Arc<Limits>,
    state: Arc<NodeDns>,
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
                    self.state.set_answers(address, true);
                    tracing::info!(%address, "the DNS server answers pods");
                    let ended = listener.serve(self.resolver.clone(), self.limits.clone()).await;
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
                self.state.set_answers(address, false);
                let text = format!(
                    "the DNS server cannot answer pods at {address}, port {PORT}: {error}. New pods use the name \
                     servers of the node and cannot resolve names of the cluster. If another program uses the port at \
                     all addresses, restrict it to others, or name other servers with --cluster-dns"
                );
                record_event(&self.outbox, &self.node, Severity::Warning, "DNSServerFailed", text);
            }
            tokio::time::sleep(BIND_RETRY).await;
        }
    }
}
