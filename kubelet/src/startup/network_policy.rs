//! Starts the enforcement of NetworkPolicies.

use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

use super::RuleTask;
use crate::cluster::policies::{self, Demand, PolicySnapshot};
use crate::desired::Desired;
use crate::network::Native;
use crate::network::native::Covered;
use crate::network_policy::{self, PolicyEnforcer};
use crate::options::Options;
use crate::report::Outbox;

/// The enforcement before it starts. New pods already wait for its rules.
pub(super) struct Prepared {
    /// The pod network. `None` if the engine provides it, so that policies are only reported.
    native: Option<Arc<Native>>,
    policies: watch::Receiver<Arc<PolicySnapshot>>,
    demand: watch::Sender<Demand>,
}

/// Prepares the enforcement if the node belongs to a cluster. Otherwise removes the rules of an earlier kubelet. Also
/// returns what the informer of policies needs.
pub(super) async fn prepare(
    options: &Options,
    native: Option<Arc<Native>>,
) -> Option<(Prepared, policies::Outputs)> {
    if options.cluster.is_none() {
        // Without a native pod network, the rules of an earlier kubelet went with its network.
        if native.is_some()
            && let Err(error) = network_policy::remove(&options.node_name).await
        {
            tracing::warn!(%error, "cannot remove the packet rules of NetworkPolicies that an earlier kubelet left");
        }
        return None;
    }
    if let Some(native) = &native {
        native.set_policy_coverage(Covered::Only(Arc::default()));
    }
    let (snapshots, policies) = watch::channel(Arc::default());
    let (sender, demand) = watch::channel(Demand::default());
    Some((Prepared { native, policies, demand: sender }, policies::Outputs { snapshots, demand }))
}

impl Prepared {
    /// Starts the enforcement for the desired pods, or the report of policies that cannot be enforced.
    pub fn start(
        self,
        options: &Options,
        desired: watch::Receiver<Arc<Desired>>,
        outbox: &Arc<Outbox>,
        tasks: &mut Tasks,
    ) -> RuleTask {
        let Self { native, policies, demand } = self;
        let (node, outbox) = (options.node_name.clone(), outbox.clone());
        RuleTask::spawn("network policies", tasks, |stopped| async move {
            match native {
                Some(native) => {
                    PolicyEnforcer { node, native, policies, demand, desired, outbox, stopped }.run().await;
                }
                None => report_until_stop(node, policies, demand, desired, outbox, stopped).await,
            }
        })
    }
}

/// Until the kubelet stops, reports policies that it cannot enforce. Keeps `demand` open meanwhile.
async fn report_until_stop(
    node: String,
    policies: watch::Receiver<Arc<PolicySnapshot>>,
    demand: watch::Sender<Demand>,
    desired: watch::Receiver<Arc<Desired>>,
    outbox: Arc<Outbox>,
    mut stopped: watch::Receiver<bool>,
) {
    tokio::select! {
        () = network_policy::report_unenforced(node, policies, desired, outbox) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    drop(demand);
}
