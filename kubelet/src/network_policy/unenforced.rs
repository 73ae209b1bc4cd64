//! Reports NetworkPolicies that this node cannot enforce, because the engine provides its pod network.

use std::sync::Arc;

use api::network_policy::Pod as PolicyPod;
use tokio::sync::watch;

use crate::cluster::policies::PolicySnapshot;
use crate::desired::Desired;
use crate::network::record_event;
use crate::report::{Outbox, Severity};

/// Records one event of the node as soon as a policy selects one of its pods.
pub async fn report_unenforced(
    node: String,
    mut policies: watch::Receiver<Arc<PolicySnapshot>>,
    mut desired: watch::Receiver<Arc<Desired>>,
    outbox: Arc<Outbox>,
) {
    let mut is_reported = false;
    loop {
        let found = unenforced(&policies.borrow_and_update(), &desired.borrow_and_update());
        if let Some((policy, pod)) = found.filter(|_| !is_reported) {
            let text = format!(
                "the NetworkPolicy {policy} selects the pod {pod}, but this node enforces no NetworkPolicies: its pod \
                 network is that of the engine. Use --pod-network native"
            );
            record_event(&outbox, &node, Severity::Warning, "NetworkPolicyNotEnforced", text);
            is_reported = true;
        }
        let changed = tokio::select! {
            changed = policies.changed() => changed,
            changed = desired.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// The first policy that selects a desired pod, and that pod. Pods on the host network are not selected.
fn unenforced(snapshot: &PolicySnapshot, desired: &Desired) -> Option<(String, String)> {
    snapshot.policies.values().find_map(|policy| {
        let mut pods = desired.pods.values().map(|one| &one.pod);
        let pod = pods.find(|pod| {
            let is_on_host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
            let facts = PolicyPod {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                labels: pod.metadata.labels.clone().unwrap_or_default(),
                ..PolicyPod::default()
            };
            !is_on_host && policy.selects(&facts)
        })?;
        let name = |namespace: &str, name: &str| format!("{namespace}/{name}");
        let metadata = &pod.metadata;
        let of_pod = name(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        Some((name(&policy.namespace, &policy.name), of_pod))
    })
}
