//! Who gives pods their network, as asked for or as it works here.

use std::sync::Arc;

use anyhow::Context as _;
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
    native: Option<(Arc<Native>, JoinHandle<()>)>,
}

impl Connected {
    /// Lets go of it: where no pod is left, nothing of it is.
    pub async fn close(self) {
        let Some((native, keeper)) = self.native else { return };
        keeper.abort();
        if let Err(error) = native::close(native).await {
            tracing::warn!(%error, "the bridge of this node stays behind");
        }
    }
}

/// Connects pods as it was asked for, or as it works best here.
///
/// # Errors
/// When a native network was asked for, or pods have one, and it cannot be.
pub(super) async fn connect(
    options: &Options,
    engine: Arc<dyn Runtime>,
    outbox: &Arc<Outbox>,
) -> anyhow::Result<Connected> {
    let directory = native::directory(&options.root_dir);
    let is_refused = options.pod_network == Some(PodNetwork::Docker);
    let is_in_use = Native::is_in_use(&directory);
    if is_refused && !is_in_use {
        return Ok(Connected { runtime: engine, native: None });
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
    let is_asked_for = options.pod_network == Some(PodNetwork::Native) || !options.pod_cidrs.is_empty();
    match opened {
        Ok((native, notes)) => {
            for note in notes {
                outbox.note(About::node(&options.node_name), Severity::Warning, "PodNetworkBlocked", note);
            }
            let keeper = native::keep(native.clone(), outbox.clone(), options.node_name.clone());
            let ranges: Vec<String> = native.ranges().iter().map(ToString::to_string).collect();
            let runtime = if is_refused {
                Networked::for_old_ones(engine, native.clone())
            } else {
                tracing::info!("pods get addresses of {}", ranges.join(" and "));
                Networked::new(engine, native.clone())
            };
            Ok(Connected { runtime, native: Some((native, tokio::spawn(keeper))) })
        }
        Err(why) if is_asked_for => {
            Err(why).context("the kubelet cannot give pods their network here; see --pod-network docker")
        }
        // Without it they could be neither reached nor ended as they should.
        Err(why) if is_in_use => Err(why)
            .context("pods of this node have a network that the kubelet gave them, and it cannot be had now"),
        Err(why) => {
            let message = format!(
                "pods get their network from the engine, because the kubelet cannot give them one: {why:#}"
            );
            outbox.note(About::node(&options.node_name), Severity::Normal, "PodNetworkOfEngine", message);
            Ok(Connected { runtime: engine, native: None })
        }
    }
}
