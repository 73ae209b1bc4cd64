//! Selects and starts the service proxy: the kubelet, or another program.

use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

use crate::cluster::services::ServiceSnapshot;
use crate::network::Native;
use crate::options::{Options, ServiceProxyMode};
use crate::report::Outbox;
use crate::service_proxy::{self, ServiceProxy};

/// The label with the zone of a node.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Starts the service proxy, if the node belongs to a cluster and has the native pod network. Returns whether it runs.
/// Without a service proxy, the rules of an earlier kubelet are removed.
///
/// # Errors
/// If the service proxy is requested, but there is no native pod network.
pub(super) async fn start(
    options: &Options,
    native: Option<Arc<Native>>,
    services: watch::Receiver<Arc<ServiceSnapshot>>,
    outbox: &Arc<Outbox>,
    tasks: &mut Tasks,
) -> anyhow::Result<bool> {
    let mode = options.service_proxy;
    let native = match native {
        Some(native) => native,
        None if mode == Some(ServiceProxyMode::Nftables) => anyhow::bail!(
            "--service-proxy nftables needs the native pod network; give --pod-network native, or --service-proxy none"
        ),
        // The rules of an earlier kubelet went with its pod network.
        None => return Ok(false),
    };
    if mode == Some(ServiceProxyMode::None) || options.cluster.is_none() {
        if let Err(error) = service_proxy::remove(&options.node_name).await {
            tracing::warn!(%error, "cannot remove the packet rules of Services that an earlier kubelet left");
        }
        return Ok(false);
    }
    let zone = options.node_labels.iter().find(|(name, _)| name == ZONE_LABEL);
    let proxy = ServiceProxy {
        node: options.node_name.clone(),
        zone: zone.map(|(_, zone)| zone.clone()).unwrap_or_default(),
        native,
        services,
        outbox: outbox.clone(),
    };
    tasks.spawn("service proxy", proxy.run());
    Ok(true)
}
