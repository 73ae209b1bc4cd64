//! Selects and starts the service proxy: the kubelet, or another program.

use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

use super::RuleTask;
use crate::cluster::services::ServiceSnapshot;
use crate::network::Native;
use crate::options::{Options, ServiceProxyMode};
use crate::report::Outbox;
use crate::service_proxy::{self, ServiceProxy};

/// The label with the zone of a node.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Whether this kubelet serves Services, given that it has a native pod network.
pub(super) fn is_wanted(options: &Options) -> bool {
    options.service_proxy != Some(ServiceProxyMode::None)
}

/// The zone of the node by its labels on the command line; empty if it has none.
pub(super) fn initial_zone(options: &Options) -> String {
    let zone = options.node_labels.iter().find(|(name, _)| name == ZONE_LABEL);
    zone.map(|(_, zone)| zone.clone()).unwrap_or_default()
}

/// Starts the service proxy, if the node has the native pod network. Returns `None` if it does not run. Without a service
/// proxy, the rules of an earlier kubelet are removed.
///
/// # Errors
/// If the service proxy is requested, but there is no native pod network.
pub(super) async fn start(
    options: &Options,
    native: Option<Arc<Native>>,
    services: watch::Receiver<Arc<ServiceSnapshot>>,
    zone: watch::Receiver<String>,
    outbox: &Arc<Outbox>,
    tasks: &mut Tasks,
) -> anyhow::Result<Option<RuleTask>> {
    let native = match native {
        Some(native) => native,
        None if options.service_proxy == Some(ServiceProxyMode::Nftables) => anyhow::bail!(
            "--service-proxy nftables needs the native pod network; give --pod-network native, or --service-proxy none"
        ),
        // The rules of an earlier kubelet went with its pod network.
        None => return Ok(None),
    };
    if !is_wanted(options) {
        if let Err(error) = service_proxy::remove(&options.node_name).await {
            tracing::warn!(%error, "cannot remove the packet rules of Services that an earlier kubelet left");
        }
        return Ok(None);
    }
    let (node, outbox) = (options.node_name.clone(), outbox.clone());
    Ok(Some(RuleTask::spawn("service proxy", tasks, |stopped| {
        ServiceProxy { node, zone, native, services, outbox, stopped }.run()
    })))
}
