//! Who gives pods their network, as asked for or as it works here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::identity;
use crate::network::{Native, Networked, native, obstacle, tell};
use crate::node;
use crate::options::{Options, PodNetwork};
use crate::report::{Outbox, Severity};
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
        self.native.iter().flat_map(|(native, _)| native.current()).collect()
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

/// Opens the network, as soon as no other kubelet of this machine is at it, or until this one is to stop.
async fn open(
    settings: impl Fn() -> native::Settings,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Arc<Native>, Vec<String>)> {
    loop {
        match native::open(settings()).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !*stopped.borrow() => {
                tracing::warn!(%error, "pods have no network yet, trying again");
            }
            opened => return opened,
        }
    }
}

/// Takes down what is left of a network that the node had and has no more.
async fn give_back(directory: PathBuf, node: &str) {
    if let Err(error) = native::give_back(directory, node.to_owned()).await {
        tracing::warn!(%error, "cannot see what is left of the network that pods of this node had from the kubelet");
    }
}

/// Connects pods as it was asked for, or as it works best here: by the kubelet itself, or by the engine where that cannot be.
/// `members` are those of the cluster that this node belongs to.
///
/// # Errors
/// When a native network was asked for, or pods have one, and it cannot be.
pub(super) async fn connect(
    options: &Options,
    engine: Arc<dyn Runtime>,
    outbox: &Arc<Outbox>,
    members: Option<native::Cluster>,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Connected> {
    let directory = native::directory(&options.root_dir);
    // The engine's network is the engine's to answer for.
    let of_engine =
        |runtime, standing| Connected { runtime, health: watch::channel(standing).1, native: None };
    let gives = options.pod_network != Some(PodNetwork::Docker);
    let is_in_use = Native::is_in_use(&directory);
    if !gives && !is_in_use {
        give_back(directory, &options.node_name).await;
        return Ok(of_engine(engine, Ok(())));
    }
    let is_stopping = || *stopped.borrow();
    let settings = || native::Settings {
        node: options.node_name.clone(),
        directory: directory.clone(),
        ranges: options.pod_cidrs.clone(),
        host_dns: Box::new(node::host_dns),
        servers: {
            let cluster = options.cluster.clone();
            Box::new(move || cluster.as_ref().map(identity::servers).unwrap_or_default())
        },
        is_of_cluster: options.cluster.is_some(),
    };
    let opened = match obstacle(&options.docker_endpoint).await {
        Some(why) => Err(io::Error::other(why)),
        None => open(settings, stopped).await,
    };
    let is_asked_for = options.pod_network == Some(PodNetwork::Native) || !options.pod_cidrs.is_empty();
    let (native, notes) = match opened {
        Ok(opened) => opened,
        // What others have of it says what to do; the engine cannot have it either.
        Err(why) if is_asked_for && why.kind() == io::ErrorKind::AddrInUse => return Err(why.into()),
        Err(why) if is_asked_for => {
            anyhow::bail!("the kubelet cannot give pods their network here: {why}; see --pod-network docker");
        }
        // Without it they could be neither reached nor ended as they should.
        Err(why) if is_in_use => {
            return Err(why).context(
                "pods of this node have a network that the kubelet gave them, and it cannot be had now",
            );
        }
        // The engine is not to give pods a network because somebody ended the wait for another one.
        Err(why) if is_stopping() => return Err(why.into()),
        Err(why) => {
            // What an earlier kubelet laid leads nowhere now.
            give_back(directory, &options.node_name).await;
            let text = format!(
                "pods get their network from the engine, because the kubelet cannot give them one: {why}"
            );
            tell(outbox, &options.node_name, Severity::Normal, "PodNetworkOfEngine", text.clone());
            // A node alone has what it needs.
            let standing = match members {
                None => Ok(()),
                Some(_) => Err(format!(
                    "{text}; so pods of other nodes do not reach them: see to that, or say that it is meant (--pod-network docker)"
                )),
            };
            return Ok(of_engine(engine, standing));
        }
    };
    for note in notes {
        tell(outbox, &options.node_name, Severity::Warning, "PodNetworkBlocked", note);
    }
    let (health, healthy) = watch::channel(Ok(()));
    let keeper = native::keep(native.clone(), outbox.clone(), members, gives, health);
    let runtime = if gives {
        let ranges: Vec<String> = native.current().iter().map(ToString::to_string).collect();
        tracing::info!("pods get addresses of {}", ranges.join(" and "));
        Networked::new(engine, native.clone())
    } else {
        Networked::for_old_ones(engine, native.clone())
    };
    Ok(Connected { runtime, health: healthy, native: Some((native, tokio::spawn(keeper))) })
}
