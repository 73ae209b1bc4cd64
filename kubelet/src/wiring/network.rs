//! Who gives pods their network, as asked for or as it works here.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinHandle;

use crate::disk;
use crate::network::{Native, Networked, native, obstacle};
use crate::node;
use crate::options::{Options, PodNetwork};
use crate::report::{About, Outbox, Severity};
use crate::runtime::Runtime;

/// The engine, with the network of pods that this node is to have.
pub(super) struct Connected {
    /// The engine whose sandboxes have addresses.
    pub runtime: Arc<dyn Runtime>,
    native: Option<(Arc<Native>, JoinHandle<()>)>,
}

impl Connected {
    /// Lets go of it: where no pod is left, nothing of it is.
    pub async fn close(self) {
        let Some((native, keeper)) = self.native else { return };
        keeper.abort();
        if let Err(error) = disk::run(move || native.close()).await {
            tracing::warn!(%error, "the bridge of this node stays behind");
        }
    }
}

/// Connects pods as it was asked for, or as it works best here.
///
/// # Errors
/// When a native network was asked for and cannot be.
pub(super) async fn connect(
    options: &Options,
    engine: Arc<dyn Runtime>,
    outbox: &Arc<Outbox>,
) -> anyhow::Result<Connected> {
    let of_engine = |runtime| Ok(Connected { runtime, native: None });
    let is_asked_for = options.pod_network == Some(PodNetwork::Native) || !options.pod_cidrs.is_empty();
    if options.pod_network == Some(PodNetwork::Docker) {
        return of_engine(engine);
    }
    let opened = match obstacle(&options.docker_endpoint) {
        Some(why) => Err(anyhow::anyhow!(why)),
        None => open(options).await.map_err(Into::into),
    };
    match opened {
        Ok(native) => {
            let ranges: Vec<String> = native.ranges().iter().map(ToString::to_string).collect();
            tracing::info!("pods get addresses of {}", ranges.join(" and "));
            let keeper = native::keep(native.clone(), outbox.clone(), options.node_name.clone());
            let runtime = Networked::new(engine, native.clone());
            Ok(Connected { runtime, native: Some((native, tokio::spawn(keeper))) })
        }
        Err(why) if is_asked_for => {
            Err(why).context("the kubelet cannot give pods their network here; see --pod-network docker")
        }
        Err(why) => {
            let message = format!(
                "pods get their network from the engine, because the kubelet cannot give them one: {why:#}"
            );
            outbox.note(About::node(&options.node_name), Severity::Normal, "PodNetworkOfEngine", message);
            of_engine(engine)
        }
    }
}

async fn open(options: &Options) -> std::io::Result<Arc<Native>> {
    let settings = native::Settings {
        node: options.node_name.clone(),
        directory: native::directory(&options.root_dir),
        ranges: options.pod_cidrs.clone(),
        host_dns: Box::new(node::host_dns),
    };
    disk::run(move || Native::open(settings)).await
}
