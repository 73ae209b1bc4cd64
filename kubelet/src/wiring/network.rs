//! Who gives pods their network, as asked for or as it works here.

use std::sync::Arc;

use anyhow::Context as _;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::network::{Native, Networked, native, obstacle};
use crate::node;
use crate::options::{Options, PodNetwork};
use crate::report::{About, Outbox, Severity};
use crate::runtime::Runtime;

/// The engine, with the network of pods that this node is to have.
pub(super) struct Connected {
    /// The engine whose sandboxes have addresses.
    pub runtime: Arc<dyn Runtime>,
    /// Whether pods of this node have a network, and if not, why; nothing changes any more once nobody tells.
    pub health: watch::Receiver<Result<(), String>>,
    native: Option<(Arc<Native>, JoinHandle<()>)>,
}

impl Connected {
    /// The ranges that pods get addresses of from the kubelet; none where the engine gives them.
    pub fn ranges(&self) -> Vec<IpNet> {
        self.native.iter().flat_map(|(native, _)| native.ranges()).copied().collect()
    }

    /// Lets go of it: where no pod is left, nothing of it is.
    pub async fn close(self) {
        let Some((native, keeper)) = self.native else { return };
        keeper.abort();
        if let Err(error) = native::close(native).await {
            tracing::warn!(%error, "the bridge of this node stays behind");
        }
    }
}

/// Connects pods as it was asked for: by the engine, unless the kubelet is to do it or has done it for pods that are there.
///
/// # Errors
/// When a native network was asked for, or pods have one, and it cannot be.
pub(super) async fn connect(
    options: &Options,
    engine: Arc<dyn Runtime>,
    outbox: &Arc<Outbox>,
) -> anyhow::Result<Connected> {
    let directory = native::directory(&options.root_dir);
    let gives = match options.pod_network {
        Some(network) => network == PodNetwork::Native,
        None => !options.pod_cidrs.is_empty(),
    };
    if !gives && !Native::is_in_use(&directory) {
        // The engine's network is the engine's to answer for.
        let (_, health) = watch::channel(Ok(()));
        return Ok(Connected { runtime: engine, health, native: None });
    }
    let settings = native::Settings {
        node: options.node_name.clone(),
        directory,
        ranges: options.pod_cidrs.clone(),
        host_dns: Box::new(node::host_dns),
    };
    let opened = match obstacle(&options.docker_endpoint).await {
        Some(why) => Err(anyhow::anyhow!(why)),
        None => native::open(settings).await.map_err(Into::into),
    };
    let (native, notes) = opened.with_context(|| {
        if gives {
            "the kubelet cannot give pods their network here; see --pod-network docker"
        } else {
            // Without it they could be neither reached nor ended as they should.
            "pods of this node have a network that the kubelet gave them, and it cannot be had now"
        }
    })?;
    for note in notes {
        outbox.note(About::node(&options.node_name), Severity::Warning, "PodNetworkBlocked", note);
    }
    let keeper = native::keep(native.clone(), outbox.clone(), options.node_name.clone());
    let runtime = if gives {
        let ranges: Vec<String> = native.ranges().iter().map(ToString::to_string).collect();
        tracing::info!("pods get addresses of {}", ranges.join(" and "));
        Networked::new(engine, native.clone())
    } else {
        Networked::for_old_ones(engine, native.clone())
    };
    let (_, health) = watch::channel(Ok(()));
    Ok(Connected { runtime, health, native: Some((native, tokio::spawn(keeper))) })
}
