//! Selects and starts the provider of the pod network: the kubelet (native) or the engine. Starts the DNS server of a
//! native network.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::tasks::Tasks;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::service_proxy;
use crate::cluster::services::ServiceSnapshot;
use crate::dns;
use crate::identity;
use crate::network::{Native, Networked, native, obstacle, record_event};
use crate::node;
use crate::options::{Options, PodNetwork};
use crate::report::{Outbox, Severity};
use crate::runtime::Runtime;

/// The runtime with its pod network.
pub(super) struct Connected {
    /// The runtime, which gives sandboxes their addresses.
    pub runtime: Arc<dyn Runtime>,
    /// Health of the pod network: the error if pods have none. If the sender is dropped, no changes follow.
    pub health: watch::Receiver<Result<(), String>>,
    /// The addresses of the bridge, if new pods get a native network.
    gateways: Option<watch::Receiver<Vec<IpAddr>>>,
    native: Option<(Arc<Native>, AbortHandle)>,
}

impl Connected {
    /// The pod CIDRs of a native network; empty if the engine provides addresses.
    pub fn ranges(&self) -> Vec<IpNet> {
        self.native.iter().flat_map(|(native, _)| native.current()).collect()
    }

    /// The native network, unless the engine provides addresses.
    pub fn native(&self) -> Option<Arc<Native>> {
        self.native.as_ref().map(|(native, _)| native.clone())
    }

    /// The options with the DNS server of this node, which runs if pods get a native network and `--cluster-dns` names no
    /// other servers.
    pub fn with_node_dns(&self, options: Options) -> Options {
        let node_dns = self.gateways.is_some() && wants_node_dns(&options);
        let mut cluster_domain = options.cluster_domain;
        if node_dns && cluster_domain.is_empty() {
            dns::DEFAULT_DOMAIN.clone_into(&mut cluster_domain);
        }
        Options { node_dns, cluster_domain, ..options }
    }

    /// Starts the DNS server, if pods use it.
    ///
    /// # Errors
    /// If the domain of the cluster is not a domain name.
    pub fn start_dns(
        &self,
        options: &Options,
        services: watch::Receiver<Arc<ServiceSnapshot>>,
        outbox: &Arc<Outbox>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<()> {
        let native = self.native().filter(|_| options.node_dns);
        let Some((addresses, native)) = self.gateways.clone().zip(native) else { return Ok(()) };
        let resolv_conf = options.resolv_conf.clone();
        let settings = dns::Settings {
            node: options.node_name.clone(),
            domain: options.cluster_domain.clone(),
            addresses,
            services,
            host_dns: Box::new(move || node::host_dns(&resolv_conf)),
            state: native.node_dns(),
            outbox: outbox.clone(),
        };
        dns::start(settings, tasks).map_err(|why| anyhow::anyhow!("--cluster-domain: {why}"))
    }

    /// Closes the network. Its bridge is removed if no pod uses it.
    pub async fn close(self) {
        let Some((native, reconciler)) = self.native else { return };
        reconciler.abort();
        if let Err(error) = native::close(native).await {
            tracing::warn!(%error, "cannot remove the bridge of this node");
        }
    }
}

/// Whether a DNS server of the node serves its pods, if they get a native network.
fn wants_node_dns(options: &Options) -> bool {
    options.cluster_dns.is_empty()
}

/// Opens the native network. Retries while another kubelet on this host uses it, until shutdown.
async fn open(
    settings: impl Fn() -> native::Settings,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Arc<Native>, Vec<String>)> {
    loop {
        match native::open(settings()).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !*stopped.borrow() => {
                tracing::warn!(%error, "the pod network is not ready, retrying");
            }
            opened => return opened,
        }
    }
}

/// Removes what remains of a native network that the node no longer uses.
async fn give_back(directory: PathBuf, node: &str) {
    if let Err(error) = native::remove_stale(directory, node.to_owned()).await {
        tracing::warn!(%error, "cannot remove the remains of the native pod network");
    }
}

/// Starts the pod network. It is native if requested or if it works here, otherwise the engine's. `members` are the
/// other nodes of the cluster.
///
/// # Errors
/// If a native network is requested or in use, and cannot be opened.
pub(super) async fn connect(
    options: &Options,
    engine: Arc<dyn Runtime>,
    outbox: &Arc<Outbox>,
    members: Option<native::Cluster>,
    stopped: &watch::Receiver<bool>,
    tasks: &mut Tasks,
) -> anyhow::Result<Connected> {
    let directory = native::directory(&options.root_dir);
    // The engine is responsible for the health of its network.
    let of_engine = |runtime, standing| Connected {
        runtime,
        health: watch::channel(standing).1,
        gateways: None,
        native: None,
    };
    let provides_network = options.pod_network != Some(PodNetwork::Docker);
    let is_in_use = Native::is_in_use(&directory);
    if !provides_network && !is_in_use {
        give_back(directory, &options.node_name).await;
        return Ok(of_engine(engine, Ok(())));
    }
    let is_stopping = || *stopped.borrow();
    let settings = || native::Settings {
        node: options.node_name.clone(),
        directory: directory.clone(),
        ranges: options.pod_cidrs.clone(),
        host_dns: {
            let resolv_conf = options.resolv_conf.clone();
            Box::new(move || node::host_dns(&resolv_conf))
        },
        servers: {
            let cluster = options.cluster.clone();
            Box::new(move || cluster.as_ref().map(identity::servers).unwrap_or_default())
        },
        is_of_cluster: options.cluster.is_some(),
        serves_services: service_proxy::is_wanted(options),
        serves_dns: provides_network && wants_node_dns(options),
    };
    let opened = match obstacle(&options.docker_endpoint).await {
        Some(why) => Err(io::Error::other(why)),
        None => open(settings, stopped).await,
    };
    let is_requested = options.pod_network == Some(PodNetwork::Native) || !options.pod_cidrs.is_empty();
    let (native, notes) = match opened {
        Ok(opened) => opened,
        // The error about the address conflict has its own remedy, and the engine's network would have the same conflict.
        Err(why) if is_requested && why.kind() == io::ErrorKind::AddrInUse => return Err(why.into()),
        Err(why) if is_requested => {
            anyhow::bail!("cannot set up the native pod network: {why}; see --pod-network docker");
        }
        // Without the network, these pods could neither be reached nor be removed properly.
        Err(why) if is_in_use => {
            return Err(why).context("pods of this node use the native pod network, but it cannot be opened");
        }
        // A stop while waiting for the native network must not switch to the engine's network.
        Err(why) if is_stopping() => return Err(why.into()),
        Err(why) => {
            // Remains of an earlier kubelet no longer work.
            give_back(directory, &options.node_name).await;
            let text = format!(
                "the engine provides the pod network, because the native one is not available: {why}"
            );
            record_event(outbox, &options.node_name, Severity::Normal, "PodNetworkFromEngine", text.clone());
            // A standalone node needs no connection to other nodes.
            let standing = match members {
                None => Ok(()),
                Some(_) => Err(format!(
                    "{text}; pods of other nodes cannot reach them: fix this, or confirm it with --pod-network \
                     docker"
                )),
            };
            return Ok(of_engine(engine, standing));
        }
    };
    for note in notes {
        record_event(outbox, &options.node_name, Severity::Warning, "PodNetworkBlocked", note);
    }
    let (health, healthy) = watch::channel(Ok(()));
    let reconciler = native::reconcile(native.clone(), outbox.clone(), members, provides_network, health);
    let reconciler = tasks.spawn("pod network", async {
        reconciler.await;
        // The network of earlier pods is gone, which is no failure.
        std::future::pending().await
    });
    let runtime = if provides_network {
        let ranges: Vec<String> = native.current().iter().map(ToString::to_string).collect();
        tracing::info!("pods get addresses of {}", ranges.join(" and "));
        Networked::new(engine, native.clone())
    } else {
        Networked::for_existing_sandboxes(engine, native.clone())
    };
    let gateways = provides_network.then(|| native.gateways());
    Ok(Connected { runtime, health: healthy, gateways, native: Some((native, reconciler)) })
}
